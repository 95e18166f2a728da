// Recordings that others took on real hardware: read where the shared data is at hand, never part of the project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "perfdata/reader.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing_support::IsOk;
using testing_support::SharedData;

struct Facts {
  uint64_t samples = 0, empty = 0, entries = 0, zeros = 0, mispredicted = 0, max_cycles = 0, pairs = 0;
  friend bool operator==(const Facts&, const Facts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Facts& f) {
    return out << f.samples << " samples, " << f.empty << " empty, " << f.entries << " entries, " << f.zeros << " zeros, " << f.mispredicted
               << " mispredicted, " << f.max_cycles << " cycles, " << f.pairs << " pairs";
  }
};

Facts FactsOf(Reader& reader) {
  Facts facts;
  std::set<std::pair<uint64_t, uint64_t>> pairs;
  Record record;
  while (true) {
    auto more = reader.Next(&record);
    EXPECT_THAT(more, IsOk());
    if (!more.ok() || !*more) break;
    const Sample* sample = record.sample();
    if (!sample) continue;
    ++facts.samples;
    facts.empty += sample->branches.empty();
    facts.entries += sample->branches.size();
    for (const BranchEntry& b : sample->branches) {
      facts.zeros += b.from == 0 && b.to == 0;
      facts.mispredicted += b.mispredicted_bit();
      facts.max_cycles = std::max<uint64_t>(facts.max_cycles, b.cycles());
      if (b.from != 0 || b.to != 0) pairs.emplace(b.from, b.to);
    }
  }
  facts.pairs = pairs.size();
  return facts;
}

struct Golden {
  const char* file;
  Facts facts;
};

class SharedRecordings : public testing::TestWithParam<Golden> {};

TEST_P(SharedRecordings, HaveTheirKnownEntries) {
  auto path = SharedData(std::string("perfdata/") + GetParam().file);
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  for (bool ordered : {true, false}) {
    auto reader = Reader::Open(*path, {.ordered = ordered});
    ASSERT_THAT(reader, IsOk());
    EXPECT_EQ(FactsOf(**reader), GetParam().facts);
    EXPECT_TRUE((*reader)->stats().complete());
  }
}

TEST_P(SharedRecordings, AgreeWithAnIndependentParserEntryByEntry) {
  auto path = SharedData(std::string("perfdata/") + GetParam().file);
  auto parser = SharedData("../tools/pdstat.py");
  if (!path || !parser) GTEST_SKIP() << "needs the shared recordings";
  testing_support::TempDir dir;
  const std::string dump = dir.File("dump");
  std::string program = "import importlib.util as u; s = u.spec_from_file_location('p', '" + *parser + "'); m = u.module_from_spec(s); " +
                        "s.loader.exec_module(m); m.main('" + *path + "', '" + dump + "')";
  auto run = testing_support::Run({"python3", "-c", program});
  ASSERT_EQ(run.status, 0) << run.err;
  auto expected = ReadFile(dump);
  ASSERT_THAT(expected, IsOk());

  auto reader = Reader::Open(*path, {.ordered = false});
  ASSERT_THAT(reader, IsOk());
  std::string text;
  Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    ASSERT_THAT(more, IsOk());
    if (!*more) break;
    if (const Sample* sample = record.sample()) {
      absl::StrAppendFormat(&text, "%x", sample->ip);
      for (const BranchEntry& b : sample->branches) absl::StrAppendFormat(&text, " 0x%x/0x%x/%x", b.from, b.to, b.info);
      text += '\n';
    }
  }
  EXPECT_TRUE(text == *expected) << text.substr(0, 200) << "\n" << expected->substr(0, 200);
}

INSTANTIATE_TEST_SUITE_P(
    Files, SharedRecordings,
    testing::Values(
        Golden{"skylake-lbr32.data", {.samples = 3740, .empty = 8, .entries = 119424, .mispredicted = 5, .max_cycles = 9436, .pairs = 13}},
        Golden{"arm-etm-kernel.data", {.samples = 24, .entries = 1445, .pairs = 495}},
        Golden{"skylake-y-lbr32.data", {.samples = 13, .entries = 416, .zeros = 29, .mispredicted = 21, .max_cycles = 42141, .pairs = 221}},
        Golden{"arm-etm-hwindex.data", {.samples = 5, .entries = 116, .pairs = 74}},
        Golden{"sandybridge-lbr16-callchain.data", {.samples = 923, .entries = 14768, .mispredicted = 880, .pairs = 6810}},
        Golden{"sandybridge-lbr16-zeros.data", {.samples = 1856, .entries = 29696, .zeros = 296, .mispredicted = 1716, .pairs = 8629}}));

struct NoBranch {
  const char* file;
  uint64_t samples;
  std::map<uint32_t, uint64_t> records;  // some counts by type
  uint64_t bytes_lost = 0;
};

class OtherRecordings : public testing::TestWithParam<NoBranch> {};

TEST_P(OtherRecordings, AreReadToTheEnd) {
  auto path = SharedData(std::string("perfdata/nobranch/") + GetParam().file);
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  auto reader = Reader::Open(*path);
  ASSERT_THAT(reader, IsOk());
  Facts facts = FactsOf(**reader);
  EXPECT_EQ(facts.samples, GetParam().samples);
  EXPECT_EQ(facts.entries, 0u);
  const ReadStats& stats = (*reader)->stats();
  for (auto [type, count] : GetParam().records) EXPECT_EQ(stats.records[type], count) << "type " << type;
  EXPECT_EQ(stats.bytes_lost, GetParam().bytes_lost);
  for (const Problem& p : stats.problems) EXPECT_NE(GetParam().bytes_lost, 0u) << p.offset << ": " << p.what << ", " << p.bytes;
}

// What is within compressed records was counted with libzstd and a few lines of Python. The stream with 143 bytes lost
// ends with a line that perf printed into it.
INSTANTIATE_TEST_SUITE_P(
    Files, OtherRecordings,
    testing::Values(
        NoBranch{"fibo.compressed2.pipe.data", 547, {{kRecordMmap2, 814}, {kRecordExit, 17}, {kRecordFork, 19}, {kRecordCompressed2, 146}, {kRecordKsymbol, 21}, {kRecordFinishedRound, 124}}},
        NoBranch{"perf.data.armv7.perf_3.14-3.8", 700, {{kRecordMmap, 1639}, {kRecordComm, 217}, {kRecordFork, 5}, {kRecordExit, 12}}},
        NoBranch{"perf.data.group_desc-4.14", 13, {{kRecordMmap2, 10}, {kRecordTimeConv, 1}}},
        NoBranch{"perf.data.hybrid_topology", 7, {{kRecordMmap2, 7}, {kRecordEventUpdate, 2}}},
        NoBranch{"perf.data.i686-3.4", 703, {{kRecordMmap, 1584}}},
        NoBranch{"perf.data.intel_pt-4.14", 15, {{kRecordAuxtrace, 2}, {kRecordAux, 10}, {kRecordSwitchCpuWide, 152}, {kRecordItraceStart, 2}}},
        NoBranch{"perf.data.lost_samples-4.4", 191, {{kRecordLostSamples, 2}}},
        NoBranch{"perf.data.piped.header_features-4.16", 2, {{kRecordHeaderFeature, 14}}},
        NoBranch{"perf.data.piped.header_features_aligned-6.12", 9, {{kRecordHeaderFeature, 20}}},
        NoBranch{"perf.data.piped.lost_samples-4.4", 191, {{kRecordLostSamples, 2}}},
        NoBranch{"perf.data.piped.no_attr_ids-4.14", 7, {{kRecordHeaderFeature, 12}}},
        NoBranch{"perf.data.piped.target.throttled-3.4", 228, {{kRecordThrottle, 1}, {kRecordUnthrottle, 1}}},
        NoBranch{"perf.data.singleprocess-3.8", 13, {{kRecordMmap, 100}}},
        NoBranch{"ro_sample.data", 13, {{kRecordMmap2, 5}}},
        NoBranch{"simpleperf-etm.data", 0, {{kRecordAuxtrace, 1}, {kRecordMmap2, 59}}},
        NoBranch{"sleep.compressed.data", 8, {{kRecordMmap2, 4}, {kRecordCompressed, 1}}},
        NoBranch{"sleep.compressed.pipe.data", 8, {{kRecordMmap2, 4}, {kRecordCompressed, 1}}},
        NoBranch{"sleep.compressed2.data", 7, {{kRecordMmap2, 4}, {kRecordCompressed2, 1}}},
        NoBranch{"sleep.compressed2.pipe.data", 7, {{kRecordMmap2, 4}, {kRecordCompressed2, 1}}, 143},
        NoBranch{"sleep.data", 7, {{kRecordMmap2, 4}}}));

}  // namespace
}  // namespace brink::perfdata
