#include "perfdata/repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "perfdata/reader.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;

const std::string kBuildId(20, '\x33');

// A recording whose writer vanished after `flushed` of `appended` samples; `tail` bytes of one more record follow.
void WriteKilled(const std::string& path, int flushed, int appended, size_t tail = 0, int compression = 0) {
  MemoryFile file;
  {
    WriterOptions options = OneEvent();
    options.compression_level = compression;
    auto writer = *Writer::Create(std::make_unique<MemorySink>(&file), options);
    auto append = [&](auto encode) { EXPECT_THAT(writer->Append(Encoded(encode)).status, IsOk()); };
    SampleId id{.pid = 1, .tid = 1, .time = 5, .id = 1};
    append([&](auto out) {
      return writer->encoder().Mmap2(out, {.pid = 1, .tid = 1, .start = 0x1000, .length = 0x1000, .build_id = kBuildId, .prot = 5, .filename = "/bin/a"}, id);
    });
    append([&](auto out) { return writer->encoder().Mmap2(out, {.pid = 1, .tid = 1, .start = 0x3000, .length = 0x1000, .prot = 5, .filename = "/bin/b"}, id); });
    auto stack = Branches(4);
    auto sample = [&](int i) {
      append([&](auto out) { return writer->encoder().Sample(out, {.time = 100 + static_cast<uint64_t>(i), .id = 1, .branches = stack}); });
    };
    for (int i = 0; i < flushed; ++i) sample(i);
    EXPECT_THAT(writer->Flush(), IsOk());
    std::string header = file.bytes.substr(0, kFileHeaderSize);
    for (int i = flushed; i < appended; ++i) sample(i);
    size_t end = file.bytes.size();
    sample(appended);
    std::string bytes = header + file.bytes.substr(kFileHeaderSize, end + tail - kFileHeaderSize);
    std::ofstream(path, std::ios::binary) << bytes;
  }
}

uint64_t CountSamples(const std::string& path, Features* features = nullptr) {
  auto reader = Reader::Open(path);
  EXPECT_THAT(reader, IsOk());
  uint64_t samples = 0;
  Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    EXPECT_THAT(more, IsOk());
    if (!more.ok() || !*more) break;
    samples += record.sample() != nullptr;
  }
  EXPECT_TRUE((*reader)->stats().complete());
  if (features) *features = (*reader)->features();
  return samples;
}

TEST(Repair, BringsBackWhatWasNotFlushedAndTheFeatures) {
  testing_support::TempDir dir;
  const std::string path = dir.File("killed.data");
  WriteKilled(path, 3, 7, 40);
  EXPECT_EQ(CountSamples(path), 3u);
  auto report = RepairFile(path, {.build_id_of = [](const std::string& name) { return name == "/bin/b" ? std::string(20, '\x44') : std::string(); }});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->changed);
  EXPECT_EQ(report->samples, 7u);
  EXPECT_EQ(report->records, 9u);
  EXPECT_EQ(report->salvaged_bytes, 4u * (8 + 7 * 8 + 4 * 24));
  EXPECT_EQ(report->dropped_bytes, 40u);
  EXPECT_EQ(report->build_ids, 2u);
  Features features;
  EXPECT_EQ(CountSamples(path, &features), 7u);
  EXPECT_THAT(features.build_ids, ElementsAre(BuildIdEntry{-1, kMiscUser, kBuildId, "/bin/a"}, BuildIdEntry{-1, kMiscUser, std::string(20, '\x44'), "/bin/b"}));
  EXPECT_TRUE(features.branch_stack);
  EXPECT_EQ(features.sample_time, (std::pair<uint64_t, uint64_t>{100, 106}));
  ASSERT_EQ(features.events.size(), 1u);
  EXPECT_EQ(features.events[0].name, "cpu-clock:uh");
}

TEST(Repair, WorksWhereNoSizeWasEverWritten) {
  testing_support::TempDir dir;
  const std::string path = dir.File("killed.data");
  WriteKilled(path, 0, 2);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(48);
  file.write("\0\0\0\0\0\0\0\0", 8);
  file.close();
  auto report = RepairFile(path);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->samples, 2u);
  EXPECT_EQ(CountSamples(path), 2u);
}

TEST(Repair, SaysThatCompressedRecordsAreCompressed) {
  testing_support::TempDir dir;
  const std::string path = dir.File("killed.data");
  WriteKilled(path, 3, 5, 10, 3);
  auto report = RepairFile(path);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->samples, 5u);
  Features features;
  EXPECT_EQ(CountSamples(path, &features), 5u);
  ASSERT_TRUE(features.compressed.has_value());
}

TEST(Repair, LeavesACompleteRecordingAlone) {
  testing_support::TempDir dir;
  const std::string path = dir.File("killed.data");
  WriteKilled(path, 3, 3);
  ASSERT_THAT(RepairFile(path), IsOk());
  auto before = ReadFile(path);
  auto again = RepairFile(path);
  ASSERT_THAT(again, IsOk());
  EXPECT_FALSE(again->changed);
  EXPECT_EQ(*ReadFile(path), *before);
}

TEST(Repair, BringsBackARecordingThatWasCutWithinItsData) {
  testing_support::TempDir dir;
  const std::string path = dir.File("cut.data");
  WriteKilled(path, 6, 6);
  ASSERT_THAT(RepairFile(path), IsOk());
  std::filesystem::resize_file(path, 104 + 8 + 144 + 600);
  auto report = RepairFile(path);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->changed);
  EXPECT_EQ(CountSamples(path), report->samples);
  EXPECT_GT(report->samples, 0u);
}

// Found by fuzzing: such a file was "repaired" again and again.
TEST(Repair, RefusesARecordingWithoutAttributesOrWithThemBehindTheData) {
  testing_support::TempDir dir;
  const std::string path = dir.File("x.data");
  WriteKilled(path, 2, 2);
  const std::string good = *ReadFile(path);
  auto with = [&](size_t at, uint64_t value) {
    std::string text = good;
    std::memcpy(text.data() + at, &value, sizeof value);
    std::ofstream(path, std::ios::binary) << text;
    return RepairFile(path);
  };
  EXPECT_THAT(with(32, 0), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no event attributes")));
  EXPECT_THAT(with(40, 0), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("behind its data")));
  EXPECT_THAT(with(40, 112), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("behind its data")));
  // Ids that cannot be read are no reason to repair for ever.
  EXPECT_THAT(with(112 + 128, 1 << 20), IsOk());
  auto again = RepairFile(path);
  ASSERT_THAT(again, IsOk());
  EXPECT_FALSE(again->changed);
}

TEST(Repair, RefusesWhatIsStillBeingWrittenAndWhatIsNoRecording) {
  testing_support::TempDir dir;
  const std::string path = dir.File("live.data");
  auto sink = OpenFileSink(path);
  ASSERT_THAT(sink, IsOk());
  auto writer = Writer::Create(*std::move(sink), OneEvent());
  ASSERT_THAT(writer, IsOk());
  EXPECT_THAT(RepairFile(path), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("being written")));
  EXPECT_THAT(OpenFileSink(path), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("being written")));
  writer->reset();
  EXPECT_THAT(RepairFile(path), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no whole record")));
  std::ofstream(dir.File("text")) << "hello, this is text and long enough to be one";
  EXPECT_THAT(RepairFile(dir.File("text")), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a perf.data")));
}

}  // namespace
}  // namespace brink::perfdata
