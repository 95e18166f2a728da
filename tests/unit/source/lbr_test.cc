#include "source/lbr.h"

#include <cerrno>

#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::IsOk;
using testing_support::StatusIs;

int TakesAll(const perf_event_attr&) { return 0; }
int NoKernel(const perf_event_attr& attr) { return attr.branch_sample_type & PERF_SAMPLE_BRANCH_KERNEL ? EACCES : 0; }
int Zen3(const perf_event_attr& attr) {
  return attr.type == PERF_TYPE_RAW && attr.config == 0xc4 && !attr.freq && (attr.branch_sample_type & ~kBranchPlmAll) == PERF_SAMPLE_BRANCH_ANY ? 0 : EINVAL;
}

const CpuInfo kIntel{.vendor = CpuVendor::kIntel};

TEST(Lbr, DefaultsToAllBranchesOfUserAndKernel) {
  auto sampling = MakeLbrSampling({.frequency = 1000}, kIntel, TakesAll, {}, 32);
  ASSERT_THAT(sampling, IsOk());
  SourceTraits traits = sampling->source->traits();
  EXPECT_EQ(traits.branch_sample_type, PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | kBranchTypeSave | kBranchPrivSave);
  EXPECT_TRUE(traits.contiguous);
  EXPECT_EQ(traits.depth, 32u);
  EXPECT_EQ(traits.direction, BRINK_DIR_PAST);
  EXPECT_THAT(sampling->notes, IsEmpty());
}

TEST(Lbr, EventModifiersChooseThePrivilege) {
  auto sampling = MakeLbrSampling({.event = *ParseEvent("cycles:u"), .frequency = 1000}, kIntel, TakesAll, {}, 32);
  ASSERT_THAT(sampling, IsOk());
  EXPECT_FALSE(sampling->source->traits().branch_sample_type & PERF_SAMPLE_BRANCH_KERNEL);
}

TEST(Lbr, AKindFilterEndsContiguity) {
  auto sampling = MakeLbrSampling({.flags = PERF_SAMPLE_BRANCH_IND_CALL | PERF_SAMPLE_BRANCH_USER, .frequency = 1000}, kIntel, TakesAll, {}, 32);
  ASSERT_THAT(sampling, IsOk());
  EXPECT_FALSE(sampling->source->traits().contiguous);
}

TEST(Lbr, WithoutTheRightToTheKernelUserBranchesAndANote) {
  auto sampling = MakeLbrSampling({.frequency = 1000}, kIntel, NoKernel, {.setcap_line = "setcap x"}, 32);
  ASSERT_THAT(sampling, IsOk());
  EXPECT_TRUE(sampling->event.exclude_kernel);
  EXPECT_THAT(sampling->notes, ElementsAre(HasSubstr("user branches only")));
  EXPECT_THAT(MakeLbrSampling({.flags = PERF_SAMPLE_BRANCH_KERNEL, .frequency = 1000}, kIntel, NoKernel, {}, 32),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("--source lbr")));
}

TEST(Lbr, Zen3SamplesTakenBranchesByPeriod) {
  auto sampling = MakeLbrSampling({.frequency = 1000}, {.vendor = CpuVendor::kAmd, .amd_brs = true}, Zen3, {.amd_brs = true}, 16);
  ASSERT_THAT(sampling, IsOk());
  EXPECT_EQ(sampling->event.config, 0xc4u);
  EXPECT_EQ(sampling->event.period, 1'000'001u);
  EXPECT_THAT(sampling->notes, ElementsAre(HasSubstr("fixed period")));
}

TEST(Lbr, DepthIsAtMostTheHardwares) {
  auto deeper = MakeLbrSampling({.frequency = 1000, .depth = 64}, kIntel, TakesAll, {}, 32);
  ASSERT_THAT(deeper, IsOk());
  EXPECT_EQ(deeper->source->traits().depth, 32u);
  EXPECT_THAT(deeper->notes, ElementsAre(HasSubstr("records 32 branches")));
  auto less = MakeLbrSampling({.frequency = 1000, .depth = 8}, kIntel, TakesAll, {}, 32);
  ASSERT_THAT(less, IsOk());
  EXPECT_EQ(less->source->traits().depth, 8u);
}

}  // namespace
}  // namespace brink
