// Damaged recordings: what is lost is said, what is not lost is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include <sys/resource.h>

#include "base/fd.h"
#include "base/sanitizer.h"
#include "file_builder.h"
#include "perfdata/reader.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::SharedData;

constexpr Order kOrder = Order::kLittle;
constexpr uint64_t kType = kSampleIp | kSampleTid | kSampleTime | kSamplePeriod | kSampleBranchStack;

std::string SampleText(uint64_t time, size_t branches = 2) {
  Bytes body(kOrder);
  body.U64(0x1000).U32(1).U32(2).U64(time).U64(99).U64(branches);
  for (size_t i = 0; i < branches; ++i) body.U64s({0x400000 + i, 0x500000 + i, 1});
  return RecordText(kOrder, 9, 2, body.text());
}

std::string FileOf(const std::string& data) { return FileText(kOrder, {{AttrText{.sample_type = kType}, {}}}, data); }

struct Outcome {
  std::vector<uint64_t> times;
  ReadStats stats;
};

Outcome ReadAll(std::string text, bool stream = false) {
  Outcome out;
  auto reader = Reader::Open(MemoryInput(std::move(text), stream));
  EXPECT_THAT(reader, IsOk());
  if (!reader.ok()) return out;
  Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    EXPECT_THAT(more, IsOk());
    if (!more.ok() || !*more) break;
    out.times.push_back(record.time);
  }
  out.stats = (*reader)->stats();
  return out;
}

constexpr uint64_t kDataAt = 104 + 144;  // of FileOf

TEST(Damage, ZerosWithinTheDataCostOnlyThemselves) {
  Outcome out = ReadAll(FileOf(SampleText(1) + std::string(4096, '\0') + SampleText(2) + SampleText(3)));
  EXPECT_THAT(out.times, ElementsAre(1, 2, 3));
  ASSERT_EQ(out.stats.problem_count, 1u);
  EXPECT_EQ(out.stats.problems[0].offset, kDataAt + SampleText(1).size());
  EXPECT_EQ(out.stats.problems[0].bytes, 4096u);
  EXPECT_EQ(out.stats.bytes_lost, 4096u);
}

TEST(Damage, AnImpossibleSizeCostsOneRecord) {
  for (uint64_t size : {0, 4, 7}) {
    std::string bad = SampleText(2);
    bad[6] = static_cast<char>(size);
    bad[7] = 0;
    Outcome out = ReadAll(FileOf(SampleText(1) + bad + SampleText(3) + SampleText(4) + SampleText(5)));
    EXPECT_THAT(out.times, ElementsAre(1, 3, 4, 5)) << size;
    EXPECT_EQ(out.stats.bytes_lost, bad.size());
  }
}

TEST(Damage, ATypeThatDoesNotExistCostsOneRecord) {
  std::string bad = SampleText(2);
  bad[0] = '\xff';
  bad[1] = '\xff';
  Outcome out = ReadAll(FileOf(SampleText(1) + bad + SampleText(3) + SampleText(4)));
  EXPECT_THAT(out.times, ElementsAre(1, 3, 4));
  EXPECT_THAT(out.stats.problems[0].what, HasSubstr("type 65535"));
}

TEST(Damage, ACountBeyondTheRecordCostsOneRecord) {
  for (uint64_t count : {uint64_t{3}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX / 24 + 1, uint64_t{0xaaaaaaaaaaaaaab}}) {
    std::string bad = SampleText(2);
    std::memcpy(bad.data() + 8 + 32, &count, 8);
    Outcome out = ReadAll(FileOf(SampleText(1) + bad + SampleText(3)));
    EXPECT_THAT(out.times, ElementsAre(1, 3)) << count;
    EXPECT_EQ(out.stats.bytes_lost, bad.size());
  }
}

TEST(Damage, ACutLastRecordIsCounted) {
  std::string text = FileOf(SampleText(1) + SampleText(2));
  for (bool stream : {false, true}) {
    std::string source = stream ? PipeText(kOrder, {{AttrText{.sample_type = kType}, {}}}, SampleText(1) + SampleText(2)) : text;
    source.resize(source.size() - 24);
    Outcome out = ReadAll(source, stream);
    EXPECT_THAT(out.times, ElementsAre(1));
    EXPECT_FALSE(out.stats.complete());
    EXPECT_GE(out.stats.bytes_lost, 24u);
  }
}

TEST(Damage, RandomRubbleBetweenRecordsIsLeftBehind) {
  std::mt19937_64 random(7);
  std::string data;
  uint64_t time = 0;
  for (int piece = 0; piece < 40; ++piece) {
    for (int i = 0; i < 50; ++i) data += SampleText(++time);
    for (size_t i = 0, n = 1 + random() % 300; i < n; ++i) {
      uint64_t word = random() | 0x8000'0000;  // no plausible type
      data.append(reinterpret_cast<char*>(&word), 8);
    }
  }
  for (int i = 0; i < 50; ++i) data += SampleText(++time);
  Outcome out = ReadAll(FileOf(data));
  EXPECT_EQ(out.times.size(), time);
  EXPECT_EQ(out.stats.problem_count, 40u);
  EXPECT_EQ(out.stats.bytes_lost, data.size() - time * SampleText(1).size());
}

std::string CompressedFile(size_t samples) {
  MemoryFile file;
  WriterOptions options = OneEvent();
  options.compression_level = 1;
  auto writer = Writer::Create(std::make_unique<MemorySink>(&file), options);
  EXPECT_THAT(writer, IsOk());
  auto stack = Branches(32);
  RecordBatch batch(**writer, 1 << 20);
  std::mt19937_64 random(1);
  for (size_t i = 1; i <= samples; ++i) {
    for (auto& b : stack) b.from = random() & 0xffff;  // keeps the ratio at a realistic figure
    EXPECT_THAT(batch.Add([&](auto out) { return (*writer)->encoder().Sample(out, {.time = i, .id = 1, .branches = stack}); }), IsOk());
  }
  EXPECT_THAT(batch.Flush(), IsOk());
  EXPECT_THAT((*writer)->Finish({}), IsOk());
  return file.bytes;
}

TEST(Damage, ABrokenCompressedRecordCostsOnlyItself) {
  std::string text = CompressedFile(5000);
  Outcome whole = ReadAll(text);
  EXPECT_EQ(whole.times.size(), 5000u);
  uint64_t compressed = whole.stats.records[kRecordCompressed];
  EXPECT_GT(compressed, 3u);
  EXPECT_LT(text.size(), 5000 * 800 / 2);
  text[104 + 8 + 144 + 8 + 200] ^= 0x55;  // within the first one
  Outcome out = ReadAll(text);
  EXPECT_GT(out.times.size(), 5000u * (compressed - 2) / compressed);
  EXPECT_LT(out.times.size(), 5000u);
  EXPECT_GE(out.stats.problem_count, 1u);
}

TEST(Damage, NestedAndLyingCompressedRecordsAreRefused) {
  std::string lying = RecordText(kOrder, 83, 0, Bytes(kOrder).U64(1000).U64(0).text());
  std::string no_zstd = RecordText(kOrder, 81, 0, std::string(64, 'x'));
  Outcome out = ReadAll(FileOf(lying + no_zstd + SampleText(1)));
  EXPECT_THAT(out.times, ElementsAre(1));
  EXPECT_EQ(out.stats.problem_count, 2u);
}

// Highest use of memory of this process so far, in MiB.
size_t PeakMib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) / 1024;
}

// Every length at which a transfer can have stopped. 64-byte steps; the shared recordings take the long run.
void TruncateEverywhere(const std::string& text, size_t step) {
  for (size_t size = 0; size < text.size(); size += step) {
    auto reader = Reader::Open(MemoryInput(text.substr(0, size)));
    if (!reader.ok()) continue;
    Record record;
    uint64_t bytes = 0;
    while (true) {
      auto more = (*reader)->Next(&record);
      ASSERT_THAT(more, IsOk());
      if (!*more) break;
      bytes += record.size;
      ASSERT_LE(bytes, 100 * text.size());
    }
  }
}

TEST(Truncation, OfGeneratedRecordingsIsHarmlessEverywhere) {
  std::string plain, sections = StringText(kOrder, "host");
  for (uint64_t t = 1; t < 30; ++t) plain += SampleText(t, t % 5);
  TruncateEverywhere(FileText(kOrder, {{AttrText{.sample_type = kType}, {1, 2, 3}}}, plain, {{kFeatureHostname, sections}, {kFeatureArch, sections}}), 8);
  TruncateEverywhere(PipeText(kOrder, {{AttrText{.sample_type = kType}, {}}}, plain), 8);
  TruncateEverywhere(CompressedFile(400), 64);
}

TEST(Truncation, OfSharedRecordingsIsHarmlessEverywhere) {
  auto folder = SharedData("perfdata/nobranch");
  if (!folder) GTEST_SKIP() << "needs the shared recordings";
  const bool all = std::getenv("BRINK_LONG") != nullptr;
  auto list = testing_support::Run({"sh", "-c", "ls " + *folder + "/*.data* " + *folder + "/../*.data"});
  std::istringstream names(list.out);
  std::string name;
  int files = 0;
  while (std::getline(names, name)) {
    auto text = ReadFile(name);
    ASSERT_THAT(text, IsOk());
    // Whole files at 64-byte boundaries cost the square of their size: the short run takes large ones in larger steps.
    size_t step = 64;
    while (!all && text->size() / step > 250) step *= 2;
    TruncateEverywhere(*text, step);
    ++files;
  }
  EXPECT_GE(files, 25);
  const size_t peak = PeakMib();
  EXPECT_TRUE(BRINK_SANITIZED || peak <= 256) << peak << " MiB";
}

}  // namespace
}  // namespace brink::perfdata
