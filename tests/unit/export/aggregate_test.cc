// The way from recordings through the aggregate file to reports and exports loses nothing that they need.
#include "aggregate/file.h"

#include <gmock/gmock.h>

#include "export/optimise.h"
#include "made_recording.h"
#include "report/aggregate_collector.h"
#include "report/aggregate_io.h"
#include "report/tables.h"

namespace brink::exporter {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;
using testing_support::TempDir;


class AggregateWay : public testing::Test, protected MadeProgram {
 protected:
  std::string Record(const std::string& name, uint64_t bias, int samples) {
    MadeRecording recording(dir_.File(name));
    recording.MapProgram(7, bias, program_);
    for (int i = 0; i < samples; ++i) recording.Sample(7, Moved(kLoopAndCall, bias));
    return dir_.File(name);
  }
  aggregate::Data Load(const std::string& path) {
    auto program = report::LoadProgram(path, {.classify = true});
    EXPECT_THAT(program, IsOk());
    return program.ok() ? report::ToData(**program) : aggregate::Data{};
  }
  std::string Write(const std::string& name, const aggregate::Data& data) {
    EXPECT_THAT(aggregate::Write(data, dir_.File(name)), IsOk());
    return dir_.File(name);
  }
  std::string Text(const std::string& path, Optimiser format, BoltDialect dialect = BoltDialect::kOld) {
    auto result = Optimise(path, {}, {.format = format, .binaries = {program_}, .dialect = dialect});
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->profiles[0].profile.text : "";
  }
};

TEST_F(AggregateWay, FormatsOfCountsAreTheSameAsFromTheRecording) {
  const std::string data = Record("a.data", kBias, 3), counts = Write("a.agg", Load(data));
  for (Optimiser format : {Optimiser::kProfgenUnsymbolized, Optimiser::kAutofdo}) EXPECT_EQ(Text(counts, format), Text(data, format));
  // What entered 1104 and 1180 is known by its kind only: the call counts as from inside, which BOLT treats alike at entries.
  EXPECT_EQ(Text(counts, Optimiser::kBolt), "B 1110 1104 3 3\nB 1120 1180 3 0\nB 1190 1125 3 3\nB 1250 1100 3 0\nF 1100 1110 3\nF 1104 1120 3\nF 1180 1190 3\n");
  EXPECT_THAT(Text(counts, Optimiser::kBolt, BoltDialect::kNew), HasSubstr("T 1110 1104 ffffffffffffffff 3\n"));
  EXPECT_THAT(Text(counts, Optimiser::kBolt, BoltDialect::kNew), HasSubstr("T ffffffffffffffff 1104 1120 3\n"));
}

TEST_F(AggregateWay, CodeEnteredByReturnsIsMarked) {
  const std::string path = dir_.File("r.data");
  {
    MadeRecording recording(path);
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved({{0x1140, 0x1104}, {0x1190, 0x1125, Kind::kRet}}, kBias));
    recording.Sample(7, Moved({{0x1140, 0x1104}, {0x1110, 0x1125, Kind::kCond}}, kBias));
  }
  const std::string counts = Write("r.agg", Load(path));
  EXPECT_THAT(Text(counts, Optimiser::kBolt), HasSubstr("F 1125 1140 1\nf 1125 1140 1\n"));
  EXPECT_THAT(Text(counts, Optimiser::kBolt, BoltDialect::kLatest), HasSubstr("T fffffffffffffffd 1125 1140 1\n"));
  EXPECT_EQ(Text(path, Optimiser::kBolt), Text(counts, Optimiser::kBolt));
}

TEST_F(AggregateWay, HostsWithDifferentLayoutsAddUp) {
  aggregate::Data sum = Load(Record("a.data", kBias, 3));
  ASSERT_THAT(sum.Add(Load(Record("b.data", kOtherBias, 2))), IsOk());
  EXPECT_THAT(Text(Write("sum.agg", sum), Optimiser::kProfgenUnsymbolized), HasSubstr("\n110->104:5\n"));
}

TEST_F(AggregateWay, TablesReadIt) {
  auto program = report::LoadProgram(Write("a.agg", Load(Record("a.data", kBias, 3))), {});
  ASSERT_THAT(program, IsOk());
  const report::Aggregate& aggregate = (*program)->aggregate;
  EXPECT_EQ(aggregate.samples, 3u);
  EXPECT_EQ(aggregate.branch_count, 12u);
  EXPECT_EQ(aggregate.range_count, 9u);
  EXPECT_EQ(aggregate.depth.rbegin()->first, 4u);
  EXPECT_EQ((*program)->facts.cpu_ns, 3'000'000u) << "a millisecond each, of a clock event";
  report::Table table = (*report::FindTable("functions"))->make(**program, {});
  ASSERT_THAT(report::SelectFields(&table, "function,branches"), IsOk());
  EXPECT_THAT(report::RenderCsv(table), HasSubstr("\"f\",6\n"));
}

TEST_F(AggregateWay, RefusalsSurviveIt) {
  const std::string path = dir_.File("calls.data");
  {
    MadeRecording recording(path, MadeRecording::AsPerf(perfdata::kBranchUser | perfdata::kBranchAnyCall));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  EXPECT_THAT(Optimise(Write("calls.agg", Load(path)), {}, {.binaries = {program_}}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("record all branches")));
}

TEST_F(AggregateWay, WholeStacksAndSamplesAreGone) {
  const std::string counts = Write("a.agg", Load(Record("a.data", kBias, 3)));
  EXPECT_THAT(Optimise(counts, {}, {.format = Optimiser::kProfgen, .binaries = {program_}}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("profgen-unsymbolized")));
  EXPECT_THAT(report::LoadProgram(counts, {.where = {"pid == 7"}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is an aggregate")));
}

// As `record --aggregate` does it.
aggregate::Data Collected(const std::string& recording, report::CollectOptions options) {
  std::optional<report::AggregateCollector> collector;
  report::LoadOptions load{.classify = true, .observe = [&](report::Program& program) { return &collector.emplace(&program, options); }, .observe_only = true};
  auto program = report::LoadProgram(recording, load);
  EXPECT_THAT(program, IsOk());
  EXPECT_THAT(collector->Finish(), IsOk());
  auto data = aggregate::Read(options.path);
  EXPECT_THAT(data, IsOk());
  return data.ok() ? *data : aggregate::Data{};
}

TEST_F(AggregateWay, CollectingWhileRecordingGivesTheSame) {
  const std::string path = Record("a.data", kBias, 3);
  aggregate::Data collected = Collected(path, {.path = dir_.File("live.agg")}), loaded = Load(path);
  EXPECT_EQ(aggregate::ToText(collected), aggregate::ToText(loaded));
}

TEST_F(AggregateWay, ContainersStandApart) {
  const std::string path = dir_.File("c.data"), id(64, 'a');
  {
    perfdata::WriterOptions options = MadeRecording::Defaults();
    options.events[0].attr.sample_type |= perfdata::kSampleCgroup;
    MadeRecording recording(path, options);
    recording.MapProgram(7, kBias, program_);
    recording.CgroupPath(5, "/system.slice/docker-" + id + ".scope");
    recording.CgroupPath(6, "/system.slice/ssh.service");
    recording.Sample(7, Moved(kLoopAndCall, kBias), {.cgroup = 5});
    recording.Sample(7, Moved(kLoopAndCall, kBias), {.cgroup = 5});
    recording.Sample(7, Moved(kLoopAndCall, kBias), {.cgroup = 6});
    recording.Sample(7, Moved(kLoopAndCall, kBias), {.cgroup = 77});
  }
  aggregate::Data data = Collected(path, {.path = dir_.File("live.agg"), .by_container = true});
  std::map<std::string, uint64_t> samples;
  for (const auto& [name, population] : data.populations()) samples[name] = population.facts[aggregate::kSampleTotal];
  EXPECT_EQ(samples, (std::map<std::string, uint64_t>{{"step/" + id, 2}, {"step/ssh.service", 1}, {"step/-", 1}}));
}

TEST_F(AggregateWay, TheFileIsWholeWhileItIsStillBeingCounted) {
  const std::string path = Record("a.data", kBias, 3);
  // Written at each sample but the first: what stands there before the end is a file with fewer samples, marked as such.
  std::optional<report::AggregateCollector> collector;
  report::LoadOptions load{.observe = [&](report::Program& program) { return &collector.emplace(&program, report::CollectOptions{.path = dir_.File("live.agg"), .write_every_ns = 1}); }, .observe_only = true};
  auto program = report::LoadProgram(path, load);
  ASSERT_THAT(program, IsOk());
  auto before = aggregate::Read(dir_.File("live.agg"));
  ASSERT_THAT(before, IsOk());
  EXPECT_EQ(before->populations().at("step").facts[aggregate::kUnfinished], 1u);
  ASSERT_THAT(collector->Finish(), IsOk());
  auto after = aggregate::Read(dir_.File("live.agg"));
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(after->populations().at("step").facts[aggregate::kSampleTotal], 3u);
  EXPECT_EQ(after->populations().at("step").facts[aggregate::kUnfinished], 0u);
}

// A day of code that runs once must not fill the memory: what is seen often stays with every count.
TEST_F(AggregateWay, RareRowsMakeRoomAndAreCounted) {
  const std::string path = dir_.File("a.data");
  constexpr uint64_t kSamples = 2000;
  {
    MadeRecording recording(path);
    recording.MapProgram(7, kBias, program_);
    for (uint64_t i = 0; i < kSamples; ++i) {
      std::vector<Step> stack = kLoopAndCall;
      for (uint64_t j = 0; j < 3; ++j) stack.push_back({0x1100 + (i * 3 + j) % 383, 0x1101 + (i * 3 + j) / 383, Kind::kJump, 1});
      recording.Sample(7, Moved(stack, kBias));
    }
  }
  constexpr size_t kRows = 500;
  aggregate::Data all = Collected(path, {.path = dir_.File("all.agg")}), bounded = Collected(path, {.path = dir_.File("bounded.agg"), .max_rows = kRows});
  const aggregate::Population &whole = all.populations().at("step"), &kept = bounded.populations().at("step");
  EXPECT_GT(whole.branches.size(), 5000u);
  EXPECT_LE(kept.branches.size() + kept.ranges.size() + kept.ips.size(), kRows);
  uint64_t executions = 0, frequent = 0;
  for (const auto& [pair, counts] : kept.branches) {
    executions += counts.fields[aggregate::kCount];
    if (counts.fields[aggregate::kCount] >= kSamples) ++frequent;
  }
  EXPECT_EQ(frequent, kLoopAndCall.size()) << "nothing of what runs all the time is lost";
  EXPECT_GE(kept.rules.at("rare_dropped"), whole.branch_count() - executions);
  EXPECT_EQ(kept.facts[aggregate::kEntries], whole.facts[aggregate::kEntries]) << "totals stay";
  auto program = report::LoadProgram(dir_.File("bounded.agg"), {});
  ASSERT_THAT(program, IsOk());
  EXPECT_THAT((*program)->facts.filter_lines, testing::Contains(HasSubstr("too rare to be kept")));
}

TEST_F(AggregateWay, TimeSlicesStandApart) {
  const std::string path = Record("a.data", kBias, 3);
  // Samples are 1 ns apart from 1003 on; a second of the wall clock ends between the first and the second.
  aggregate::Data data = Collected(path, {.path = dir_.File("live.agg"), .slice_ns = 1'000'000'000, .wall_offset_ns = 5'000'000'000 - 1004});
  ASSERT_EQ(data.populations().size(), 2u);
  EXPECT_EQ(data.populations().at("step/-/4").facts[aggregate::kSampleTotal], 1u);
  EXPECT_EQ(data.populations().at("step/-/5").facts[aggregate::kSampleTotal], 2u);
  EXPECT_EQ(data.populations().at("step/-/5").facts[aggregate::kCpuNs], 2'000'000u);
}

}  // namespace
}  // namespace brink::exporter
