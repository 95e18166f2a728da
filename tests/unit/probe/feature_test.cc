#include "probe/feature.h"

#include <cstdlib>
#include <set>

#include <nlohmann/json.hpp>

#include "probe/probe.h"
#include "probe/report.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::IsOk;
using testing_support::StatusIs;

FeatureSet With(std::vector<Feature> on, MachineFacts facts = {}) {
  std::map<Feature, Finding> findings;
  for (Feature feature : on) findings[feature] = Finding::On();
  return FeatureSet(std::move(findings), std::move(facts));
}

TEST(Features, NamesAreUniqueAndParseBack) {
  std::set<std::string> names;
  for (const FeatureInfo& info : AllFeatures()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    auto parsed = ParseFeature(info.name);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, info.id);
  }
  EXPECT_THAT(ParseFeature("bpf.fentri"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean 'bpf.fentry'")));
}

TEST(Features, OverridesParse) {
  Overrides overrides;
  ASSERT_THAT(ParseOverrides("bpf.fentry=off, perf.hardware=on", &overrides), IsOk());
  EXPECT_EQ(overrides, (Overrides{{Feature::kBpfFentry, false}, {Feature::kPerfHardware, true}}));
  EXPECT_THAT(ParseOverrides("bpf.fentry", &overrides), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("FEATURE=on")));
  EXPECT_THAT(ParseOverrides("bpf.fentry=maybe", &overrides), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("FEATURE=off")));
  EXPECT_THAT(ParseOverrides("x=on", &overrides), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown feature 'x'")));
}

TEST(Features, OverridesFromTheEnvironment) {
  ::setenv("BRINK_FAKE", "bpf.loop=off", 1);
  auto overrides = OverridesFromEnv();
  ::setenv("BRINK_FAKE", "nonsense", 1);
  auto bad = OverridesFromEnv();
  ::unsetenv("BRINK_FAKE");
  ASSERT_THAT(overrides, IsOk());
  EXPECT_EQ(overrides->at(Feature::kBpfLoop), false);
  EXPECT_THAT(bad, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BRINK_FAKE")));
}

TEST(AutoSource, TakesTheFirstThatWorksAndSaysWhy) {
  EXPECT_EQ(With({Feature::kSourceLbr, Feature::kSourceWalk, Feature::kSourceStep}).AutoSource().name, "lbr");
  SourceChoice walk = With({Feature::kSourceWalk, Feature::kSourceWalkTask, Feature::kSourceStep}).AutoSource();
  EXPECT_EQ(walk.name, "walk");
  EXPECT_THAT(walk.reason, AllOf(HasSubstr("no branch hardware"), HasSubstr("back to user space")));
  EXPECT_THAT(With({Feature::kSourceWalk}).AutoSource().reason, HasSubstr("in the clock interrupt"));
  EXPECT_EQ(With({Feature::kSourceHop, Feature::kSourceStep}).AutoSource().name, "hop");
  EXPECT_EQ(With({Feature::kSourceStep}).AutoSource().name, "step");
  EXPECT_EQ(With({}).AutoSource().name, "");
}

TEST(FeatureSet, RequireGivesReasonAndRemedy) {
  FeatureSet set({{Feature::kBpfKprobe, Finding::Off("no kprobes", "use a uprobe")}}, {});
  EXPECT_THAT(set.Require(Feature::kBpfKprobe), StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr("bpf.kprobe"), HasSubstr("no kprobes; use a uprobe"))));
  EXPECT_THAT(With({Feature::kBpfKprobe}).Require(Feature::kBpfKprobe), IsOk());
}

// Findings that build on an overridden one follow it; nothing is tried for them.
TEST(ProbeFeatures, OverridesReachWhatBuildsOnThem) {
  ProbeOptions options;
  options.only = {Feature::kSourceWalkTask, Feature::kSourceStep};
  options.overrides = {{Feature::kBpfPerfEvent, false}, {Feature::kPerfClock, true}, {Feature::kPtrace, true}};
  FeatureSet set = ProbeFeatures(options);
  EXPECT_FALSE(set.Has(Feature::kSourceWalk));
  EXPECT_THAT(set.Get(Feature::kSourceWalkTask).reason, HasSubstr("bpf.perf_event: switched off"));
  EXPECT_TRUE(set.Has(Feature::kSourceStep));
  EXPECT_TRUE(set.Get(Feature::kPtrace).fake);
  EXPECT_EQ(set.Get(Feature::kBpfFentry).reason, "not probed");
}

TEST(DoctorText, ChainedReasonsNameOnlyTheirRoot) {
  FeatureSet set({{Feature::kPerfHardware, Finding::Off("no hardware PMU", "use cpu-clock")},
                  {Feature::kBranchStack, Finding::Off("perf.hardware: no hardware PMU", "use cpu-clock")}},
                 {});
  std::string text = DoctorText({.features = set, .version = "brink"}, false);
  EXPECT_THAT(text, HasSubstr("why: no hardware PMU\n        do:  use cpu-clock\n"));
  EXPECT_THAT(text, HasSubstr("why: needs perf.hardware\n"));
  EXPECT_THAT(text, HasSubstr("--source auto takes nothing"));
}

TEST(DoctorJson, UnknownIsNullAndTimesAreExact) {
  FeatureSet set = With({Feature::kSourceStep}, {.kernel = "6.1", .arch = "x86_64", .cpus_online = 2});
  auto json = nlohmann::json::parse(DoctorJson({.features = set, .version = "brink", .took_ns = 5, .realtime_ns = 1'700'000'000'000'000'007, .monotonic_ns = 9}));
  EXPECT_EQ(json["schema"], "brink.doctor.v1");
  EXPECT_EQ(json["time"], "2023-11-14T22:13:20.000000007Z");
  EXPECT_TRUE(json["machine"]["branch_depth"].is_null());
  EXPECT_EQ(json["features"].size(), kFeatureCount);
  EXPECT_EQ(json["auto_source"]["name"], "step");
}

// Bytes of untrusted text (a CPU's name) cannot break the output.
TEST(DoctorJson, InvalidUtf8IsReplaced) {
  MachineFacts facts;
  facts.cpu.model_name = "\xff\xfe";
  FeatureSet set = With({}, facts);
  EXPECT_FALSE(nlohmann::json::parse(DoctorJson({.features = set}), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace brink
