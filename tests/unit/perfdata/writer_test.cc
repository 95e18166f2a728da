#include "perfdata/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;

std::unique_ptr<Writer> MakeWriter(MemoryFile* file, WriterOptions options = OneEvent()) {
  auto writer = Writer::Create(std::make_unique<MemorySink>(file), std::move(options));
  EXPECT_THAT(writer, IsOk());
  return *std::move(writer);
}

FileHeader HeaderOf(const MemoryFile& file) {
  FileHeader header;
  std::memcpy(&header, file.bytes.data(), sizeof header);
  return header;
}

std::vector<std::byte> SampleRecord(const Writer& writer, size_t branches, uint64_t time = 1) {
  auto stack = Branches(branches);
  return Encoded([&](auto out) { return writer.encoder().Sample(out, {.time = time, .id = writer.id(), .branches = stack}); });
}

std::vector<std::byte> Repeat(const std::vector<std::byte>& record, size_t times) {
  std::vector<std::byte> out;
  for (size_t i = 0; i < times; ++i) out.insert(out.end(), record.begin(), record.end());
  return out;
}

TEST(Writer, IsReadableAfterEveryFlush) {
  MemoryFile file;
  auto writer = MakeWriter(&file);
  uint64_t start = HeaderOf(file).data.offset;
  EXPECT_EQ(start, 104u + 8 + 144);
  auto record = SampleRecord(*writer, 4);
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_THAT(writer->Append(record).status, IsOk());
    EXPECT_EQ(HeaderOf(file).data.size, (i - 1) * record.size());
    EXPECT_THAT(writer->Flush(), IsOk());
    EXPECT_EQ(HeaderOf(file).data.size, i * record.size());
    EXPECT_EQ(HeaderOf(file).features[0], 0u);
  }
  EXPECT_EQ(file.bytes.size(), start + 3 * record.size());
  EXPECT_EQ(writer->written().samples, 3u);
}

TEST(Writer, PutsFeatureSectionsBehindTheData) {
  MemoryFile file;
  WriterOptions options = OneEvent();
  options.features.hostname = "host";
  auto writer = MakeWriter(&file, options);
  EXPECT_THAT(writer->Append(SampleRecord(*writer, 4)).status, IsOk());
  EXPECT_THAT(writer->Finish({}), IsOk());
  FileHeader header = HeaderOf(file);
  uint64_t expected = 1ull << kFeatureHostname | 1ull << kFeatureEventDesc | 1ull << kFeatureBranchStack |
                      1ull << kFeatureSampleTime | 1ull << kFeatureClockid | 1ull << kFeatureClockData;
  EXPECT_EQ(header.features[0], expected);
  FileSection host;
  std::memcpy(&host, file.bytes.data() + header.data.offset + header.data.size, sizeof host);
  EXPECT_EQ(host.offset, header.data.offset + header.data.size + 6 * sizeof(FileSection));
  EXPECT_EQ(file.bytes.substr(host.offset + 4, 5), std::string("host\0", 5));
}

TEST(Writer, TakesShortWrites) {
  MemoryFile file{.bytes = {}, .chunk = 7};
  auto writer = MakeWriter(&file);
  auto record = SampleRecord(*writer, 32);
  auto outcome = writer->Append(Repeat(record, 10));
  EXPECT_THAT(outcome.status, IsOk());
  EXPECT_EQ(outcome.written.samples, 10u);
  EXPECT_EQ(file.bytes.substr(file.bytes.size() - record.size()), std::string(reinterpret_cast<char*>(record.data()), record.size()));
}

// Every place at which a disk can be full: sent = written + lost, and the file ends with a whole record.
TEST(Writer, CountsExactlyWhatAFullDiskCost) {
  MemoryFile probe;
  auto record = SampleRecord(*MakeWriter(&probe), 2);
  const size_t start = probe.bytes.size();
  for (size_t room = 0; room <= 4 * record.size(); room += 8) {
    MemoryFile file{.bytes = {}, .limit = start + room};
    auto writer = MakeWriter(&file);
    auto outcome = writer->Append(Repeat(record, 4));
    const uint64_t fits = room / record.size();
    EXPECT_EQ(outcome.written.samples, fits);
    EXPECT_EQ(outcome.lost.samples, 4 - fits);
    EXPECT_EQ(outcome.written.bytes + outcome.lost.bytes, 4 * record.size());
    EXPECT_EQ(outcome.status.ok(), fits == 4);
    EXPECT_THAT(writer->Flush(), IsOk());
    EXPECT_EQ(HeaderOf(file).data.size, fits * record.size());
  }
}

TEST(Writer, GoesOnWhenTheDiskHasRoomAgainAndRecordsTheLoss) {
  MemoryFile file;
  auto writer = MakeWriter(&file);
  auto record = SampleRecord(*writer, 2, 500);
  file.limit = file.bytes.size() + record.size() + 24;
  EXPECT_EQ(writer->Append(Repeat(record, 3)).lost.samples, 2u);
  file.limit = SIZE_MAX;
  EXPECT_EQ(writer->Append(record).written.samples, 1u);
  EXPECT_THAT(writer->Finish({}), IsOk());
  uint64_t at = HeaderOf(file).data.offset + record.size();
  uint64_t lost[2];
  std::memcpy(lost, file.bytes.data() + at, sizeof lost);
  EXPECT_EQ(lost[0] & 0xffffffff, uint64_t{kRecordLostSamples});
  EXPECT_EQ(lost[1], 2u);
  EXPECT_EQ(writer->written().samples + writer->lost().samples, 4u);
}

TEST(Writer, LeavesDataReadableWhenTheFeaturesDoNotFit) {
  MemoryFile file;
  auto writer = MakeWriter(&file);
  auto record = SampleRecord(*writer, 2);
  EXPECT_THAT(writer->Append(record).status, IsOk());
  file.limit = file.bytes.size() + 10;
  EXPECT_THAT(writer->Finish({}), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no feature sections")));
  EXPECT_EQ(HeaderOf(file).features[0], 0u);
  EXPECT_EQ(HeaderOf(file).data.size, record.size());
}

TEST(Writer, CutsWhatAFailedWriteLeftBehindTheEnd) {
  MemoryFile file;
  auto writer = MakeWriter(&file);
  auto record = SampleRecord(*writer, 2000);
  file.limit = file.bytes.size() + record.size() - 8;
  EXPECT_EQ(writer->Append(record).lost.samples, 1u);
  file.limit = SIZE_MAX;
  EXPECT_THAT(writer->Finish({}), IsOk());
  EXPECT_EQ(file.truncations, 1);
  EXPECT_LT(file.bytes.size(), 4000u);
}

TEST(Writer, APipeThatBrokeWithinARecordTakesNothingMore) {
  MemoryFile file;
  WriterOptions options = OneEvent();
  options.pipe = true;
  auto writer = MakeWriter(&file, options);
  auto record = SampleRecord(*writer, 2);
  file.limit = file.bytes.size() + record.size() + 16;
  auto outcome = writer->Append(Repeat(record, 3));
  EXPECT_EQ(outcome.written.samples, 1u);
  EXPECT_EQ(outcome.lost.samples, 2u);
  file.limit = SIZE_MAX;
  EXPECT_EQ(writer->Append(record).lost.samples, 1u);
  EXPECT_THAT(writer->Finish({}), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("broken")));
}

TEST(Writer, CountsCompressedRecordsExactlyOnAFullDisk) {
  for (size_t room : {0, 40, 300, 1000, 5000, 100000}) {
    MemoryFile file;
    WriterOptions options = OneEvent();
    options.compression_level = 1;
    auto writer = MakeWriter(&file, options);
    auto record = SampleRecord(*writer, 32);
    file.limit = file.bytes.size() + room;
    auto outcome = writer->Append(Repeat(record, 5000));
    EXPECT_EQ(outcome.written.samples + outcome.lost.samples, 5000u);
    EXPECT_EQ(outcome.written.bytes + outcome.lost.bytes, 5000 * record.size());
    EXPECT_LE(writer->size(), std::max(file.limit, file.bytes.size()));
  }
}

TEST(Writer, RefusesAMalformedRecordAndKeepsTheRest) {
  MemoryFile file;
  auto writer = MakeWriter(&file);
  auto records = SampleRecord(*writer, 2);
  size_t good = records.size();
  records.resize(good + 16);  // a header of zeros
  auto outcome = writer->Append(records);
  EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("size")));
  EXPECT_EQ(outcome.written.bytes, good);
  EXPECT_EQ(outcome.lost.bytes, 16u);
}

TEST(Writer, RefusesEventsThatCouldNotBeToldApart) {
  MemoryFile file;
  WriterOptions options = OneEvent();
  options.events.push_back(options.events[0]);
  for (auto& event : options.events) event.attr.sample_type &= ~kSampleIdentifier;
  auto writer = Writer::Create(std::make_unique<MemorySink>(&file), options);
  EXPECT_THAT(writer, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("identifier")));
}

TEST(RecordBatch, FillsBlocksAndRefusesGiants) {
  MemoryFile file;
  auto writer = MakeWriter(&file);
  auto stack = Branches(40);
  RecordBatch batch(*writer, 4096);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(batch.Add([&](auto out) { return writer->encoder().Sample(out, {.branches = stack}); }), IsOk());
  }
  auto giant = Branches(3000);
  EXPECT_THAT(batch.Add([&](auto out) { return writer->encoder().Sample(out, {.branches = giant}); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not fit")));
  EXPECT_THAT(batch.Flush(), IsOk());
  EXPECT_EQ(writer->written().samples, 100u);
}

TEST(EventNotes, SurviveTheAttribute) {
  EventNotes notes{.source = BRINK_SOURCE_WALK, .direction = BRINK_DIR_FUTURE, .contiguous = true, .sample_notes = true};
  EXPECT_EQ(UnpackEventNotes(PackEventNotes(notes)), notes);
  EXPECT_EQ(UnpackEventNotes(0), std::nullopt);
  EXPECT_EQ(UnpackEventNotes(0x1234567800000001), std::nullopt);
}

}  // namespace
}  // namespace brink::perfdata
