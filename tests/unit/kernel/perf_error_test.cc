#include <cerrno>
#include <ctime>
#include <linux/capability.h>
#include <unistd.h>

#include "kernel/capability.h"
#include "kernel/perf_event.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::IsOk;
using testing_support::StatusIs;

EventSpec Event(const char* text) { return *ParseEvent(text); }

std::string Explain(int error, const char* event, SamplingSpec sampling, PerfTarget target, OpenContext context) {
  context.setcap_line = "setcap cap_bpf,cap_perfmon+ep /opt/brink";
  Status status = ExplainOpenError(error, MakeAttr(Event(event), sampling), target, event, context);
  EXPECT_EQ(ErrnoOf(status), error);
  EXPECT_EQ(Message(status).find('\n'), std::string::npos);
  return Message(status);
}

const SamplingSpec kBranches{.period = 1000, .branch_sample_type = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER};

TEST(ExplainOpenError, NoPmuInAVirtualMachine) {
  EXPECT_THAT(Explain(ENOENT, "cycles", {}, {.pid = 0}, {.hypervisor = true}),
              AllOf(HasSubstr("no hardware PMU in this virtual machine"), HasSubstr("-e cpu-clock")));
  EXPECT_THAT(Explain(ENOENT, "cpu-clock", {}, {.pid = 5, .cpu = 0, .flags = PERF_FLAG_PID_CGROUP}, {}), HasSubstr("subtree_control"));
  EXPECT_THAT(Explain(ENOENT, "r1234", {}, {.pid = 0}, {.has_cpu_pmu = true}), HasSubstr("does not have this event"));
}

TEST(ExplainOpenError, BranchStackOnASoftwareEvent) {
  EXPECT_THAT(Explain(EOPNOTSUPP, "cpu-clock", kBranches, {}, {}), AllOf(HasSubstr("only hardware events"), HasSubstr("--source walk")));
}

TEST(ExplainOpenError, PmuWithoutBranchRecordsOrInterrupt) {
  EXPECT_THAT(Explain(EOPNOTSUPP, "cycles", kBranches, {}, {.has_cpu_pmu = true, .hypervisor = true}), HasSubstr("virtual machine's PMU"));
  EXPECT_THAT(Explain(EOPNOTSUPP, "cycles", kBranches, {}, {.has_cpu_pmu = true}), HasSubstr("brink doctor"));
  EXPECT_THAT(Explain(EOPNOTSUPP, "cycles", {.period = 1}, {}, {.has_cpu_pmu = true}), HasSubstr("no overflow interrupt"));
}

TEST(ExplainOpenError, Zen3NeedsItsOwnEvent) {
  EXPECT_THAT(Explain(EINVAL, "cycles", kBranches, {}, {.has_cpu_pmu = true, .amd_brs = true}), HasSubstr("-e cpu/branch-brs/ -c"));
  EXPECT_THAT(Explain(EINVAL, "cycles", kBranches, {}, {.has_cpu_pmu = true}), Not(HasSubstr("branch-brs")));
}

TEST(ExplainOpenError, RateAboveTheLimit) {
  EXPECT_THAT(Explain(EINVAL, "cycles", {.frequency = 50'001}, {}, {.max_sample_rate = 50'000}), HasSubstr("above kernel.perf_event_max_sample_rate = 50000"));
}

// The level that is named is the highest at which the kernel lets the event pass (perf_allow_cpu, perf_allow_kernel).
TEST(ExplainOpenError, ParanoidLevelAndSetcapLine) {
  EXPECT_THAT(Explain(EACCES, "cycles", {}, {.pid = -1, .cpu = 0}, {.paranoid = 2}),
              AllOf(HasSubstr("perf_event_paranoid is 2, this needs 0"), HasSubstr("setcap cap_bpf,cap_perfmon+ep /opt/brink")));
  EXPECT_THAT(Explain(EACCES, "cycles", {}, {.pid = 77}, {.paranoid = 2}), AllOf(HasSubstr("needs 1"), HasSubstr(":u")));
  EXPECT_THAT(Explain(EACCES, "cycles:u", {}, {.pid = 77}, {.paranoid = 2}), HasSubstr("process 77 belongs to another user"));
  EXPECT_THAT(Explain(EACCES, "cycles:u", {}, {.pid = 77}, {.paranoid = 4}), HasSubstr("needs 2"));
  EXPECT_THAT(Explain(EACCES, "cycles", {}, {.pid = -1, .cpu = 0}, {.perfmon_capable = true}), HasSubstr("security module"));
  EXPECT_THAT(Explain(EACCES, "cycles", {}, {.pid = -1, .cpu = 0}, {.paranoid = 3, .perfmon_capable = true}),
              HasSubstr("sysctl kernel.perf_event_paranoid=2"));
}

TEST(ExplainOpenError, CpuOfflineOrNotServed) {
  EXPECT_THAT(Explain(ENODEV, "cycles", {}, {.cpu = 5}, {.online_cpus = "0-3"}), HasSubstr("CPU 5 is offline; online: 0-3"));
  EXPECT_THAT(Explain(ENODEV, "cycles", {}, {.cpu = 2}, {.online_cpus = "0-3"}), HasSubstr("does not serve CPU 2"));
}

TEST(ExplainOpenError, Limits) {
  EXPECT_THAT(Explain(EMFILE, "cycles", {}, {}, {}), HasSubstr("ulimit -n"));
  EXPECT_THAT(Explain(ESRCH, "cycles", {}, {.pid = 999}, {}), HasSubstr("no process or thread 999"));
  EXPECT_THAT(Explain(ENOSPC, "mem:0x1000/8:w", {}, {}, {}), HasSubstr("debug registers"));
}

TEST(CheckFrequency, NamesTheLimitAndAnAllowedValue) {
  EXPECT_THAT(CheckFrequency(100'001, Event("cycles"), 100'000), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("use -F 100000 or less")));
  EXPECT_THAT(CheckFrequency(100'000, Event("cycles"), 100'000), IsOk());
  EXPECT_THAT(CheckFrequency(200'000, Event("cpu-clock"), 400'000), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cpu-clock ends at 100000 Hz")));
  EXPECT_THAT(CheckFrequency(0, Event("cycles"), 100'000), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 Hz")));
}

TEST(MakeAttr, FillsFromEventAndSampling) {
  perf_event_attr attr = MakeAttr(Event("cycles:u"), {.frequency = 99, .branch_sample_type = PERF_SAMPLE_BRANCH_ANY, .pinned = true});
  EXPECT_EQ(attr.freq, 1u);
  EXPECT_EQ(attr.sample_freq, 99u);
  EXPECT_EQ(attr.exclude_kernel, 1u);
  EXPECT_EQ(attr.pinned, 1u);
  EXPECT_EQ(attr.disabled, 1u);
  EXPECT_EQ(attr.use_clockid, 1u);
  EXPECT_EQ(attr.clockid, CLOCK_MONOTONIC);
  EXPECT_TRUE(attr.sample_type & PERF_SAMPLE_BRANCH_STACK);
}

TEST(MakeAttr, BreakpointFieldsShareNothingWithConfig) {
  perf_event_attr attr = MakeAttr(Event("mem:0x1000/4:w"), {.period = 1});
  EXPECT_EQ(attr.bp_addr, 0x1000u);
  EXPECT_EQ(attr.bp_len, 4u);
  EXPECT_EQ(attr.sample_period, 1u);
}

// The real call: one's own software event is allowed to everyone at every paranoid level up to 2.
TEST(OpenPerfEvent, CountsAndFails) {
  auto fd = OpenPerfEvent(MakeAttr(Event("task-clock:u"), {.disabled = false}), {.pid = 0}, "task-clock:u");
  ASSERT_THAT(fd, IsOk());
  for (int i = 0; i < 1'000'000; ++i) asm volatile("" : "+r"(i));
  uint64_t count = 0;
  ASSERT_EQ(::read(fd->get(), &count, sizeof count), 8);
  EXPECT_GT(count, 0u);
  EXPECT_THAT(OpenPerfEvent(MakeAttr(Event("task-clock:u"), {}), {.pid = 0x3ffffffe}, "task-clock"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no process or thread")));
}

TEST(CapSet, AdminStandsForBoth) {
  CapSet none;
  EXPECT_FALSE(none.PerfmonCapable() || none.BpfCapable());
  EXPECT_TRUE(none.With(CAP_PERFMON).PerfmonCapable());
  EXPECT_FALSE(none.With(CAP_PERFMON).BpfCapable());
  EXPECT_TRUE(none.With(CAP_SYS_ADMIN).BpfCapable());
  EXPECT_TRUE(none.With(CAP_BPF).Without(CAP_BPF).empty());
  EXPECT_EQ(CapabilityName(CAP_SYSLOG), "cap_syslog");
}

TEST(Setcap, NamesThisBinary) {
  EXPECT_THAT(SetcapLine({CAP_SYSLOG}), AllOf(HasSubstr("setcap cap_bpf,cap_perfmon,cap_syslog+ep /"), HasSubstr(OwnBinaryPath())));
}

}  // namespace
}  // namespace brink
