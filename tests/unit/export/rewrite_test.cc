// Recordings out of recordings.
#include "export/rewrite.h"

#include <gmock/gmock.h>

#include "made_recording.h"
#include "perfdata/reader.h"

namespace brink::exporter {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;
using testing_support::TempDir;

const std::vector<Step> kStack = {{0x1190, 0x1125, Kind::kRet, 0}, {0x1120, 0x1180, Kind::kCall, 1}};

struct Seen {
  std::vector<uint32_t> pids;              // of samples
  std::vector<uint64_t> times;
  std::vector<std::string> mapped;         // "PID PATH"
  std::vector<std::vector<uint64_t>> sources;  // addresses of the branches of each sample
  perfdata::Features features;
  std::optional<perfdata::EventNotes> notes;
  size_t events = 0;
};

Seen ReadBack(const std::string& path) {
  Seen seen;
  auto reader = perfdata::Reader::Open(path);
  EXPECT_THAT(reader, IsOk());
  perfdata::Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    EXPECT_THAT(more, IsOk());
    if (!more.ok() || !*more) break;
    if (const perfdata::Sample* sample = record.sample()) {
      seen.pids.push_back(sample->pid);
      seen.times.push_back(sample->time);
      seen.sources.emplace_back();
      for (const BranchEntry& entry : sample->branches) seen.sources.back().push_back(entry.from);
    } else if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body)) {
      seen.mapped.push_back(std::to_string(mmap->pid) + " " + std::string(mmap->filename));
    }
  }
  EXPECT_TRUE((*reader)->stats().complete());
  seen.features = (*reader)->features();
  seen.events = (*reader)->events().size();
  if (seen.events) seen.notes = (*reader)->events()[0].notes;
  return seen;
}

class RewriteTest : public testing::Test {
 protected:
  std::string Record(const std::string& name, uint32_t pid, const std::string& host = "", int samples = 2) {
    perfdata::WriterOptions options = MadeRecording::Defaults();
    options.features.hostname = host;
    MadeRecording recording(dir_.File(name), options);
    recording.MapProgram(pid, kBias, "/bin/app");
    for (int i = 0; i < samples; ++i) recording.Sample(pid, Moved(kStack, kBias));
    recording.Finish({{.build_id = kBuildId, .filename = "/bin/app"}});
    return dir_.File(name);
  }
  TempDir dir_;
  std::string out_ = dir_.File("out.data");
};

TEST_F(RewriteTest, WithoutAFilterNothingChanges) {
  auto result = Rewrite({Record("a.data", 7)}, out_, {});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->samples, 2u);
  EXPECT_EQ(result->branches, 4u);
  Seen seen = ReadBack(out_);
  EXPECT_EQ(seen.pids, (std::vector<uint32_t>{7, 7}));
  EXPECT_EQ(seen.mapped, (std::vector<std::string>{"7 /bin/app"}));
  EXPECT_EQ(seen.sources[0], (std::vector<uint64_t>{kBias + 0x1190, kBias + 0x1120}));
  ASSERT_TRUE(seen.notes);
  EXPECT_TRUE(seen.notes->contiguous);
  ASSERT_EQ(seen.features.build_ids.size(), 1u);
  EXPECT_EQ(seen.features.build_ids[0].build_id, std::string(kBuildId));
}

TEST_F(RewriteTest, AFilterOnBranchesEndsContiguityAndTheRecordingSaysSo) {
  ASSERT_THAT(Rewrite({Record("a.data", 7)}, out_, {.where = {"kind == call"}}), IsOk());
  Seen seen = ReadBack(out_);
  EXPECT_EQ(seen.sources, (std::vector<std::vector<uint64_t>>{{kBias + 0x1120}, {kBias + 0x1120}}));
  ASSERT_TRUE(seen.notes);
  EXPECT_FALSE(seen.notes->contiguous);
}

TEST_F(RewriteTest, SamplesAreChosenByProcessAndTime) {
  ASSERT_THAT(Rewrite({Record("a.data", 7), Record("b.data", 8)}, out_, {.pids = {8}}), IsOk());
  EXPECT_EQ(ReadBack(out_).pids, (std::vector<uint32_t>(2, 8 + (1u << 22)))) << "chosen by its own number, written as another host's";
  ASSERT_THAT(Rewrite({Record("a.data", 7, "one"), Record("b.data", 8, "one")}, out_, {.pids = {8}}), IsOk());
  EXPECT_EQ(ReadBack(out_).pids, (std::vector<uint32_t>{8, 8}));
}

TEST_F(RewriteTest, EqualPidsOfTwoHostsStayApart) {
  ASSERT_THAT(Rewrite({Record("a.data", 7, "one"), Record("b.data", 7, "two")}, out_, {}), IsOk());
  Seen seen = ReadBack(out_);
  EXPECT_THAT(seen.pids, testing::UnorderedElementsAre(7u, 7u, 7u + (1u << 22), 7u + (1u << 22)));
  EXPECT_THAT(seen.mapped, testing::UnorderedElementsAre("7 /bin/app", std::to_string(7 + (1 << 22)) + " /bin/app"));
  EXPECT_EQ(seen.events, 2u);
  EXPECT_TRUE(std::is_sorted(seen.times.begin(), seen.times.end()));
}

TEST_F(RewriteTest, ProcessesOfOneHostKeepTheirNumbers) {
  ASSERT_THAT(Rewrite({Record("a.data", 7, "one"), Record("b.data", 7, "one")}, out_, {}), IsOk());
  EXPECT_EQ(ReadBack(out_).pids, (std::vector<uint32_t>{7, 7, 7, 7}));
}

TEST_F(RewriteTest, SymbolsAreRefusedWithTheWayOut) {
  EXPECT_THAT(Rewrite({Record("a.data", 7)}, out_, {.where = {"from.symbol == \"f\""}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("addresses only")));
}

TEST_F(RewriteTest, RealRecordingsSurviveUnchanged) {
  auto data = testing_support::SharedData("perfdata/sandybridge-lbr16-callchain.data");
  if (!data) GTEST_SKIP() << "needs the shared recordings";
  ASSERT_THAT(Rewrite({*data}, out_, {}), IsOk());
  Seen before = ReadBack(*data), after = ReadBack(out_);
  EXPECT_EQ(after.sources, before.sources);
  EXPECT_EQ(after.times, before.times);
  EXPECT_EQ(after.mapped, before.mapped);
  EXPECT_EQ(after.sources.size(), 923u);
}

}  // namespace
}  // namespace brink::exporter
