// On-demand snapshots on branch hardware (a real one, or a guest with the plugin LBR): held events, calibration, trimming.
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "snapshot/calibrate.h"
#include "snapshot/held_events.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;

struct Case {
  HookKind kind;
  const char* feature;
  const char* hooked;  // function that the newest entry left must touch; "" where the hook is no function
};

void PrintTo(const Case& c, std::ostream* out) { *out << HookKindName(c.kind); }

class SnapshotHooks : public testing::TestWithParam<Case> {};

// What remains after trimming begins in the hooked code, and reaches back to the user branches before the system call.
TEST_P(SnapshotHooks, CalibrationLeavesTheTruePast) {
  SKIP_UNLESS("branch.snapshot");
  SKIP_UNLESS(GetParam().feature);
  auto calibration = Calibrate(GetParam().kind);
  ASSERT_THAT(calibration, IsOk());
  auto code = KernelCode::Read();
  ASSERT_THAT(code, IsOk());
  std::printf("%s: %d runs, burnt %d to %d of %d, %zu functions\n", std::string(HookKindName(GetParam().kind)).c_str(), calibration->runs,
              calibration->burnt_least, calibration->burnt_most, calibration->depth, calibration->path.functions().size());
  EXPECT_GE(calibration->runs, 8);
  EXPECT_GT(calibration->burnt_least, 0);
  EXPECT_LT(calibration->burnt_least, calibration->depth);
  int good = 0;
  for (const auto& stack : calibration->stacks) {
    size_t burnt = calibration->path.Burnt(stack, code->Lookup());
    if (burnt >= stack.size()) continue;
    const BranchEntry& newest = stack[burnt];
    auto from = code->Find(newest.from), to = code->Find(newest.to);
    bool clean = !(to && IsHookGlue(to->name)) && !(from && IsHookGlue(from->name));
    // An fexit's function was entered from its trampoline.
    if (*GetParam().hooked) {
      auto hooked = code->FindFunction(GetParam().hooked);
      clean = hooked && (hooked->Contains(newest.to) || hooked->Contains(newest.from));
    }
    good += clean;
    if (!clean || static_cast<int>(burnt) < calibration->burnt_most) {
      std::printf("  newest left: %s -> %s (%zu burnt)\n", from ? from->name.c_str() : "?", to ? to->name.c_str() : "?", burnt);
    }
  }
  // An interrupt between hook and helper may spoil a run here and there.
  EXPECT_GE(good * 10, calibration->runs * 8);
}

#if defined(__x86_64__)
constexpr char kGetppid[] = "__x64_sys_getppid";
#else
constexpr char kGetppid[] = "__arm64_sys_getppid";
#endif
INSTANTIATE_TEST_SUITE_P(All, SnapshotHooks,
                         testing::Values(Case{HookKind::kRawTp, "bpf.raw_tp", ""}, Case{HookKind::kTpBtf, "bpf.tp_btf", ""},
                                         Case{HookKind::kTracepoint, "bpf.tracepoint", ""}, Case{HookKind::kKprobe, "bpf.kprobe", kGetppid},
                                         Case{HookKind::kKprobeMulti, "bpf.kprobe_multi", kGetppid}, Case{HookKind::kFentry, "bpf.fentry", "bpf_fentry_test1"},
                                         Case{HookKind::kFexit, "bpf.fexit", "bpf_fentry_test1"}, Case{HookKind::kPerfEvent, "bpf.perf_event", ""}),
                         [](const auto& info) { return std::string(HookKindName(info.param.kind)); });

TEST(HeldEvents, OneACpuAndNoneTwice) {
  SKIP_UNLESS("branch.held_event");
  auto held = HeldEvents::Open(HeldFlags(TriggerSide::kUser));
  ASSERT_THAT(held, IsOk());
  EXPECT_FALSE(held->cpus().empty());
  EXPECT_TRUE(held->failed().empty());
  EXPECT_FALSE(held->both_privileges());
  auto again = held->Refresh();
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again, 0);
}

// Only where the test module is: no test takes a CPU from a machine that is used for something else.
TEST(HeldEvents, FollowHotplug) {
  SKIP_UNLESS("branch.held_event");
  if (::access("/dev/brink_lbr", F_OK) != 0) GTEST_SKIP() << "needs a guest with the branch module";
  auto held = HeldEvents::Open(HeldFlags(TriggerSide::kUser));
  ASSERT_THAT(held, IsOk());
  if (held->cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  auto turn = [](const char* to) {
    auto file = OpenFile("/sys/devices/system/cpu/cpu1/online", O_WRONLY);
    return file.ok() && WriteAll(file->get(), to, 1).ok();
  };
  ASSERT_TRUE(turn("0"));
  EXPECT_THAT(held->Refresh(), IsOk());
  EXPECT_EQ(held->cpus(), std::vector<int>{0});
  ASSERT_TRUE(turn("1"));
  auto opened = held->Refresh();
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(*opened, 1);
  EXPECT_EQ(held->cpus(), (std::vector<int>{0, 1}));
}

TEST(HeldEvents, WithoutHardwareTheReasonIsSaid) {
  if (testing_support::HasFeature("branch.held_event")) GTEST_SKIP() << "this machine has branch hardware";
  auto held = HeldEvents::Open(HeldFlags(TriggerSide::kUser));
  ASSERT_FALSE(held.ok());
  EXPECT_FALSE(Message(held.status()).empty());
}

TEST(Calibrate, WithoutHardwareTheReasonIsSaid) {
  if (testing_support::HasFeature("branch.held_event")) GTEST_SKIP() << "this machine has branch hardware";
  SKIP_UNLESS("bpf.raw_tp");
  EXPECT_FALSE(Calibrate(HookKind::kRawTp).ok());
}

}  // namespace
}  // namespace brink
