#include "kernel/perf_parse.h"

#include <filesystem>
#include <fstream>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "kernel/perf_pmu.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::IsOk;
using testing_support::StatusIs;
using testing_support::TempDir;

// A sysfs and tracefs of our own: an Intel-like core PMU, an uncore PMU and one tracepoint.
class FakeRoots : public testing::Test {
 protected:
  FakeRoots() {
    roots_.sysfs = dir_.File("sys");
    roots_.tracefs = {dir_.File("tracing")};
    Put("sys/bus/event_source/devices/cpu/type", "4\n");
    Put("sys/bus/event_source/devices/cpu/format/event", "config:0-7\n");
    Put("sys/bus/event_source/devices/cpu/format/umask", "config:8-15,40-43\n");
    Put("sys/bus/event_source/devices/cpu/format/ldlat", "config1:0-15\n");
    Put("sys/bus/event_source/devices/cpu/format/inv", "config:23\n");
    Put("sys/bus/event_source/devices/cpu/events/branch-brs", "event=0xc4\n");
    Put("sys/bus/event_source/devices/cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
    Put("sys/bus/event_source/devices/cpu/events/mem-loads.unit", "x\n");
    Put("sys/bus/event_source/devices/uncore/type", "11\n");
    Put("sys/bus/event_source/devices/uncore/cpumask", "0,2\n");
    Put("sys/bus/event_source/devices/uncore/format/event", "config:0-7\n");
    Put("tracing/events/sched/sched_switch/id", "314\n");
  }

  void Put(const std::string& name, const std::string& text) {
    std::filesystem::path path = dir_.File(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  StatusOr<EventSpec> Parse(std::string_view text) { return ParseEvent(text, roots_); }

  TempDir dir_;
  KernelRoots roots_;
};

TEST_F(FakeRoots, GenericNames) {
  auto cycles = Parse("cycles");
  ASSERT_THAT(cycles, IsOk());
  EXPECT_EQ(cycles->type, uint32_t{PERF_TYPE_HARDWARE});
  EXPECT_EQ(cycles->config, 0u);
  EXPECT_TRUE(cycles->is_hardware());
  auto clock = Parse(" cpu-clock ");
  ASSERT_THAT(clock, IsOk());
  EXPECT_EQ(clock->type, uint32_t{PERF_TYPE_SOFTWARE});
  EXPECT_TRUE(clock->is_clock());
  auto cache = Parse("dTLB-store-misses");
  ASSERT_THAT(cache, IsOk());
  EXPECT_EQ(cache->type, uint32_t{PERF_TYPE_HW_CACHE});
  EXPECT_EQ(cache->config, 3u | 1u << 8 | 1u << 16);
}

TEST_F(FakeRoots, UserModifierExcludesKernelAndHypervisor) {
  auto event = Parse("cycles:u");
  ASSERT_THAT(event, IsOk());
  EXPECT_FALSE(event->exclude_user);
  EXPECT_TRUE(event->exclude_kernel);
  EXPECT_TRUE(event->exclude_hv);
}

TEST_F(FakeRoots, PreciseModifiersCount) {
  auto event = Parse("cycles:ppk");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->precise, 2);
  EXPECT_TRUE(event->exclude_user);
  EXPECT_THAT(Parse("cycles:pppp"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("three p")));
}

TEST_F(FakeRoots, RawNumberIsHexadecimal) {
  auto event = Parse("r01C4");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->type, uint32_t{PERF_TYPE_RAW});
  EXPECT_EQ(event->config, 0x1c4u);
}

TEST_F(FakeRoots, PmuTermsFollowTheFormatFiles) {
  auto event = Parse("cpu/event=0xcd,umask=0x301,ldlat=30,inv/u");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->type, 4u);
  EXPECT_EQ(event->config, 0xcdull | 0x01ull << 8 | 1ull << 23 | 0x3ull << 40);
  EXPECT_EQ(event->config1, 30u);
  EXPECT_TRUE(event->exclude_kernel);
  EXPECT_EQ(event->pmu, "cpu");
}

TEST_F(FakeRoots, EventAliasExpandsToItsTerms) {
  auto event = Parse("cpu/mem-loads,period=4000/");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->config, 0x1cdu);
  EXPECT_EQ(event->config1, 3u);
  EXPECT_EQ(event->period, 4000u);
  auto bare = Parse("branch-brs");
  ASSERT_THAT(bare, IsOk());
  EXPECT_EQ(bare->config, 0xc4u);
  EXPECT_EQ(bare->type, 4u);
}

TEST_F(FakeRoots, UncorePmuNamesItsCpus) {
  auto event = Parse("uncore/event=1/");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->cpus, (std::vector<int>{0, 2}));
}

TEST_F(FakeRoots, BadTermsSayWhatThereIs) {
  EXPECT_THAT(Parse("cpu/evnt=1/"), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'evnt'"), HasSubstr("umask"), HasSubstr("mem-loads"))));
  EXPECT_THAT(Parse("cpu/event=0x1ff/"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not fit")));
  EXPECT_THAT(Parse("gpu/event=1/"), StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("'gpu'"), HasSubstr("uncore"))));
  EXPECT_THAT(Parse("cpu/event=1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("closing '/'")));
  EXPECT_THAT(Parse("../event=1/"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no PMU")));
}

TEST_F(FakeRoots, Tracepoints) {
  auto event = Parse("sched:sched_switch");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->type, uint32_t{PERF_TYPE_TRACEPOINT});
  EXPECT_EQ(event->config, 314u);
  auto user = Parse("sched:sched_switch:k");
  ASSERT_THAT(user, IsOk());
  EXPECT_TRUE(user->exclude_user);
  EXPECT_THAT(Parse("sched:no_such"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such tracepoint")));
  roots_.tracefs = {dir_.File("nowhere")};
  EXPECT_THAT(Parse("sched:sched_switch"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("mount -t tracefs")));
}

TEST_F(FakeRoots, Breakpoints) {
  auto event = Parse("mem:0x1000/4:rw");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->type, uint32_t{PERF_TYPE_BREAKPOINT});
  EXPECT_EQ(event->bp_type, uint32_t{HW_BREAKPOINT_RW});
  EXPECT_EQ(event->config1, 0x1000u);
  EXPECT_EQ(event->config2, 4u);
  auto exec = Parse("mem:0x401001:x:u");
  ASSERT_THAT(exec, IsOk());
  EXPECT_EQ(exec->config2, 8u);
  EXPECT_TRUE(exec->exclude_kernel);
  EXPECT_THAT(Parse("mem:0x1001/4:w"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("multiple of the length")));
  EXPECT_THAT(Parse("mem:0x1000:r"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("use rw")));
  EXPECT_THAT(Parse("mem:0x1000/3:w"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1, 2, 4 or 8")));
}

TEST_F(FakeRoots, UnknownNamesProposeTheNearest) {
  EXPECT_THAT(Parse("cycels"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean 'cycles'")));
  EXPECT_THAT(Parse(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(Parse("a\033[2J"), StatusIs(absl::StatusCode::kInvalidArgument, testing::Not(HasSubstr("\033"))));
}

TEST_F(FakeRoots, ListSplitsOutsideOfTerms) {
  auto events = ParseEventList("cycles:u,cpu/event=1,umask=2/,mem:0x10/8:w,cpu-clock", roots_);
  ASSERT_THAT(events, IsOk());
  ASSERT_EQ(events->size(), 4u);
  EXPECT_EQ((*events)[1].config, 0x201u);
  EXPECT_EQ((*events)[2].config1, 0x10u);
  EXPECT_TRUE((*events)[3].is_clock());
}

TEST_F(FakeRoots, CorePmusOfOrdinaryAndHybridMachines) {
  EXPECT_EQ(CorePmus(roots_), std::vector<std::string>{"cpu"});
  Put("sys/bus/event_source/devices/cpu_atom/type", "10\n");
  Put("sys/bus/event_source/devices/cpu_core/type", "4\n");
  std::filesystem::remove_all(dir_.File("sys/bus/event_source/devices/cpu"));
  EXPECT_EQ(CorePmus(roots_), (std::vector<std::string>{"cpu_core", "cpu_atom"}));
  EXPECT_THAT(CorePmus(KernelRoots{.sysfs = dir_.File("none")}), IsEmpty());
}

TEST(ApplyFormat, SpreadsBitsOverRanges) {
  ConfigWords words;
  ASSERT_THAT(ApplyFormat("config1:0-3,60-63", 0xab, &words), IsOk());
  EXPECT_EQ(words.config1, 0xa00000000000000bull);
  ConfigWords whole;
  ASSERT_THAT(ApplyFormat("config:0-63", ~0ull, &whole), IsOk());
  EXPECT_EQ(whole.config, ~0ull);
  EXPECT_THAT(ApplyFormat("config:9-3", 1, &words), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("impossible")));
  EXPECT_THAT(ApplyFormat("config9:0-3", 1, &words), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("config9")));
}

}  // namespace
}  // namespace brink
