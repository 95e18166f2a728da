#include "kernel/branch_plan.h"

#include <cerrno>

#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::IsOk;
using testing_support::StatusIs;

// PMU drivers as hardware-and-abi section 3 describes them; each says what errno an attribute gets.
constexpr uint64_t kOldKernelFlags = (uint64_t{1} << 18) - 1;  // before PRIV_SAVE

int IntelLbr(const perf_event_attr& attr) {
  if (attr.type == PERF_TYPE_SOFTWARE) return EOPNOTSUPP;
  return attr.branch_sample_type & ~kOldKernelFlags ? EINVAL : 0;
}

int AmdBrs(const perf_event_attr& attr) {
  bool event = attr.type == PERF_TYPE_RAW && attr.config == 0xc4;
  bool flags = (attr.branch_sample_type & ~kBranchPlmAll) == PERF_SAMPLE_BRANCH_ANY;
  return event && flags && !attr.freq && attr.sample_period > 16 ? 0 : EINVAL;
}

int AmdLbrV2(const perf_event_attr& attr) {
  if (attr.precise_ip) return EOPNOTSUPP;
  constexpr uint64_t kRefused = PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES | PERF_SAMPLE_BRANCH_CALL_STACK;
  return attr.branch_sample_type & kRefused ? EOPNOTSUPP : 0;
}

const CpuInfo kIntel{.vendor = CpuVendor::kIntel};
const CpuInfo kZen3{.vendor = CpuVendor::kAmd, .amd_brs = true};
const CpuInfo kZen4{.vendor = CpuVendor::kAmd, .amd_lbr_v2 = true, .amd_lbr_depth = 16};
constexpr uint64_t kAnyUser = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER;

TEST(PlanBranchEvent, KeepsTheExtrasThatTheKernelKnows) {
  auto plan = PlanBranchEvent(kIntel, {.frequency = 1000}, IntelLbr, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->event.name, "cycles");
  EXPECT_EQ(plan->sampling.branch_sample_type, kAnyUser | kBranchTypeSave);
  EXPECT_EQ(plan->dropped_extras, kBranchPrivSave);
  EXPECT_TRUE(plan->event.exclude_kernel);
  EXPECT_THAT(plan->notes, IsEmpty());
}

TEST(PlanBranchEvent, Zen3GetsItsOwnEventWithAFixedPeriod) {
  auto plan = PlanBranchEvent(kZen3, {.flags = PERF_SAMPLE_BRANCH_IND_CALL | PERF_SAMPLE_BRANCH_USER, .frequency = 1000}, AmdBrs, {.amd_brs = true});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->event.config, 0xc4u);
  EXPECT_EQ(plan->sampling.frequency, 0u);
  EXPECT_EQ(plan->sampling.period, 1'000'001u);
  EXPECT_EQ(plan->sampling.branch_sample_type, kAnyUser);
  EXPECT_TRUE(plan->kinds_in_software);
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("fixed period"), HasSubstr("every kind")));
}

TEST(PlanBranchEvent, Zen3TakesThePeriodAskedFor) {
  auto plan = PlanBranchEvent(kZen3, {.period = 5000}, AmdBrs, {.amd_brs = true});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->sampling.period, 5000u);
  EXPECT_FALSE(plan->kinds_in_software);
  EXPECT_THAT(plan->notes, IsEmpty());
}

TEST(PlanBranchEvent, AmdIsSampledWithoutPreciseModifier) {
  EventSpec precise = *ParseEvent("cycles:upp");
  auto plan = PlanBranchEvent(kZen4, {.event = precise, .frequency = 1000}, AmdLbrV2, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->event.precise, 0);
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("precise")));
}

TEST(PlanBranchEvent, RequiredFlagsAreNeverDropped) {
  EXPECT_THAT(PlanBranchEvent(kZen4, {.flags = kAnyUser | PERF_SAMPLE_BRANCH_CALL_STACK, .frequency = 1000}, AmdLbrV2, {.has_cpu_pmu = true}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("branch")));
}

TEST(PlanBranchEvent, NoPmuIsExplained) {
  auto none = [](const perf_event_attr&) { return ENOENT; };
  EXPECT_THAT(PlanBranchEvent(kIntel, {.frequency = 1000}, none, {.hypervisor = true}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no hardware PMU in this virtual machine")));
  EXPECT_THAT(PlanBranchEvent(kIntel, {.event = *ParseEvent("cpu-clock"), .frequency = 1000}, IntelLbr, {}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("only hardware events")));
}

// Held-open events count: BRS cannot do that and must not be tried.
TEST(PlanBranchEvent, CountingRequestsDoNotFallBackToBrs) {
  EXPECT_THAT(PlanBranchEvent(kZen3, {}, AmdBrs, {.amd_brs = true}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Zen 3")));
}

TEST(BranchFlagNames, PerfSpellings) {
  EXPECT_EQ(BranchFlagNames(kAnyUser | kBranchTypeSave), "u,any,save_type");
}

}  // namespace
}  // namespace brink
