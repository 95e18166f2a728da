#include "latency/config.h"

#include "latency/cpu_set.h"
#include "latency/scheduler.h"

#include <cerrno>

#include "support/status_matchers.h"

namespace brink::latency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;
constexpr auto kUsage = absl::StatusCode::kInvalidArgument;

Machine Eight() {
  Machine machine;
  machine.online = {0, 1, 2, 3, 4, 5, 6, 7};
  machine.allowed = {0, 1, 2, 3};
  machine.vendor = "AMD";
  return machine;
}

std::vector<int> Cpus(const Config& config) {
  std::vector<int> cpus;
  for (const ThreadConfig& thread : config.threads) cpus.push_back(thread.cpu);
  return cpus;
}

std::vector<int64_t> Intervals(const Config& config) {
  std::vector<int64_t> us;
  for (const ThreadConfig& thread : config.threads) us.push_back(thread.interval_ns / 1000);
  return us;
}

std::vector<int> Priorities(const Config& config) {
  std::vector<int> priorities;
  for (const ThreadConfig& thread : config.threads) priorities.push_back(thread.priority);
  return priorities;
}

TEST(CpuSet, TakesLibnumasGrammar) {
  Machine m = Eight();
  EXPECT_THAT(*ParseCpuSet("3-5,0", m.online, m.allowed), ElementsAre(0, 3, 4, 5));
  EXPECT_THAT(*ParseCpuSet("0-7:3", m.online, m.allowed), ElementsAre(0, 3, 6));
  EXPECT_THAT(*ParseCpuSet("!1-2", m.online, m.allowed), ElementsAre(0, 3));
  EXPECT_THAT(*ParseCpuSet("all", m.online, m.allowed), testing::SizeIs(8));
  std::vector<int> odd = {1, 3, 5};
  EXPECT_THAT(*ParseCpuSet("+0,2", m.online, odd), ElementsAre(1, 5));
  EXPECT_THAT(*ParseCpuSet("!+0", m.online, odd), ElementsAre(3, 5));
}

TEST(CpuSet, RefusesWhatIsNoSet) {
  Machine m = Eight();
  for (const char* text : {"", "!", "x", "1-", "5-3", "1,,2", "0-3:0", "99999999", "-1"}) EXPECT_THAT(ParseCpuSet(text, m.online, m.allowed), StatusIs(kUsage, HasSubstr("CPU set"))) << text;
  EXPECT_THAT(ParseCpuSet("8", m.online, m.allowed), StatusIs(kUsage, HasSubstr("CPU 8 is not online")));
  EXPECT_THAT(ParseCpuSet("+4", m.online, m.allowed), StatusIs(kUsage, HasSubstr("beyond the 4 allowed")));
  EXPECT_THAT(ParseCpuSet("!0-7", m.online, m.allowed), StatusIs(kUsage, HasSubstr("no CPU is left")));
}

TEST(Resolve, DefaultsAreCyclictests) {
  auto config = Resolve({}, Eight());
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(Cpus(*config), ElementsAre(-1));
  EXPECT_THAT(Intervals(*config), ElementsAre(1000));
  EXPECT_EQ(config->policy, Policy::kOther);
  EXPECT_EQ(config->unit_ns, 1000);
  EXPECT_EQ(config->loops, 0u);
  EXPECT_EQ(config->duration_ns, 0);
  EXPECT_EQ(config->clock, CLOCK_MONOTONIC);
  EXPECT_EQ(config->power, Power::kDmaLatency);
}

TEST(Resolve, ThreadsAreNotPinnedWithoutAffinity) {
  // cyclictest before 2.5 pinned them.
  auto config = Resolve({.threads = 2, .threads_given = true}, Eight());
  EXPECT_THAT(Cpus(*config), ElementsAre(-1, -1));
}

TEST(Resolve, AffinityGoesRoundTheSet) {
  auto config = Resolve({.affinity = "5,2", .threads = 3, .threads_given = true}, Eight());
  EXPECT_THAT(Cpus(*config), ElementsAre(2, 5, 2));
  EXPECT_THAT(config->main_cpus, ElementsAre(2, 5));
  EXPECT_THAT(Cpus(*Resolve({.affinity = "", .threads_given = true}, Eight())), ElementsAre(0, 1, 2, 3));
}

TEST(Resolve, MainAffinityLeavesTheThreadsAlone) {
  // It once pinned all threads.
  auto config = Resolve({.main_affinity = "3", .threads = 2, .threads_given = true}, Eight());
  EXPECT_THAT(config->main_cpus, ElementsAre(3));
  EXPECT_THAT(Cpus(*config), ElementsAre(-1, -1));
}

TEST(Resolve, ThreadCountZeroIsOneACpu) {
  EXPECT_THAT(Resolve({.threads = 0, .threads_given = true}, Eight())->threads, testing::SizeIs(4));
  EXPECT_THAT(Resolve({.threads_given = true}, Eight())->threads, testing::SizeIs(4));
  EXPECT_THAT(Resolve({.threads = -1, .threads_given = true}, Eight()), StatusIs(kUsage, HasSubstr("-t")));
}

TEST(Resolve, SmpIgnoresAffinityAndThreadsInAnyOrder) {
  auto config = Resolve({.affinity = "0", .smp = true, .threads = 7, .threads_given = true}, Eight());
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(Cpus(*config), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(config->warnings, ElementsAre("-a ignored due to smp mode", "-t ignored due to smp mode"));
}

TEST(Resolve, DistanceAddsUpAndAHistogramTurnsItOff) {
  EXPECT_THAT(Intervals(*Resolve({.distance_us = 250, .interval_us = 2000, .threads = 3, .threads_given = true}, Eight())), ElementsAre(2000, 2250, 2500));
  EXPECT_THAT(Intervals(*Resolve({.histogram = 10, .threads = 2, .threads_given = true}, Eight())), ElementsAre(1000, 1000));
  EXPECT_THAT(Resolve({.distance_us = 250, .histogram = 10}, Eight())->warnings, ElementsAre(HasSubstr("distance is ignored")));
}

TEST(Resolve, HistogramsAreCapped) { EXPECT_EQ(Resolve({.histogram = 5'000'000}, Eight())->histogram, 1'000'000); }

TEST(Resolve, AnIntervalOfZeroIsRefused) {
  // cyclictest spins for ever.
  EXPECT_THAT(Resolve({.interval_us = 0}, Eight()), StatusIs(kUsage, HasSubstr("-i")));
  EXPECT_THAT(Resolve({.interval_us = -5}, Eight()), StatusIs(kUsage, HasSubstr("-i")));
}

TEST(Resolve, PriorityMeansFifoForAllThreadsAlike) {
  auto config = Resolve({.priority = 80, .threads = 2, .threads_given = true}, Eight());
  EXPECT_EQ(config->policy, Policy::kFifo);
  EXPECT_THAT(Priorities(*config), ElementsAre(80, 80));
  EXPECT_THAT(Resolve({.priority = 100}, Eight()), StatusIs(kUsage, HasSubstr("0..99")));
}

TEST(Resolve, PrioritiesSpreadDownwards) {
  EXPECT_THAT(Priorities(*Resolve({.prio_spread = true, .priority = 80, .threads = 3, .threads_given = true}, Eight())), ElementsAre(80, 79, 78));
  auto config = Resolve({.prio_spread = true, .threads = 3, .threads_given = true}, Eight());
  EXPECT_THAT(Priorities(*config), ElementsAre(4, 3, 2));
  EXPECT_EQ(config->policy, Policy::kFifo);
}

TEST(Resolve, PoliciesByName) {
  EXPECT_EQ(Resolve({.policy = "batch"}, Eight())->policy, Policy::kBatch);
  EXPECT_EQ(Resolve({.policy = "idle"}, Eight())->policy, Policy::kIdle);
  auto rr = Resolve({.policy = "rr"}, Eight());
  EXPECT_EQ(rr->policy, Policy::kRr);
  EXPECT_THAT(Priorities(*rr), ElementsAre(2));
  EXPECT_THAT(rr->notes, ElementsAre("defaulting realtime priority to 2"));
  EXPECT_EQ(Resolve({.priority = 5, .policy = "other"}, Eight())->policy, Policy::kFifo);
  EXPECT_EQ(Resolve({.priority = 5, .policy = "rr"}, Eight())->policy, Policy::kRr);
  EXPECT_THAT(Resolve({.policy = "nonsense"}, Eight()), StatusIs(kUsage, HasSubstr("nonsense")));
}

TEST(Resolve, DeadlinePolicyTakesRuntimeAndPeriod) {
  auto config = Resolve({.policy = "deadline:200:1ms"}, Eight());
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->policy, Policy::kDeadline);
  EXPECT_EQ(config->dl_runtime_ns, 200'000);
  EXPECT_EQ(config->dl_period_ns, 1'000'000);
  EXPECT_THAT(Resolve({.policy = "deadline:2ms:1ms"}, Eight()), StatusIs(kUsage, HasSubstr("exceeds its period")));
  EXPECT_THAT(Resolve({.priority = 3, .policy = "deadline"}, Eight()), StatusIs(kUsage, HasSubstr("-p")));
}

TEST(Resolve, AlignmentsExcludeEachOther) {
  EXPECT_THAT(Resolve({.aligned_us = 0, .sec_aligned_us = 0}, Eight()), StatusIs(kUsage, HasSubstr("exclude")));
  EXPECT_TRUE(Resolve({.aligned_us = 100}, Eight())->aligned);
  EXPECT_EQ(Resolve({.sec_aligned_us = 100}, Eight())->align_offset_ns, 100'000);
}

TEST(Resolve, SleepModes) {
  EXPECT_EQ(Resolve({.relative = true}, Eight())->sleep, Sleep::kRelative);
  EXPECT_EQ(Resolve({.nanosleep = true}, Eight())->sleep, Sleep::kNanosleep);
  EXPECT_EQ(Resolve({.posix_timers = true}, Eight())->sleep, Sleep::kPosixTimer);
  auto both = Resolve({.nanosleep = true, .posix_timers = true}, Eight());
  EXPECT_EQ(both->sleep, Sleep::kNanosleep);
  EXPECT_THAT(both->warnings, ElementsAre(HasSubstr("-x is dropped")));
}

TEST(Resolve, OscopeNeedsVerbose) {
  EXPECT_THAT(Resolve({.oscope = 3}, Eight()), StatusIs(kUsage, HasSubstr("only meaningful, if verbose")));
  EXPECT_EQ(Resolve({.verbose = true, .oscope = 3}, Eight())->oscope, 3u);
}

TEST(Resolve, SpikeNodesHoldInAnyOrder) {
  EXPECT_EQ(Resolve({.spike = 10, .spike_nodes = 7}, Eight())->spike_nodes, 7u);
  EXPECT_EQ(Resolve({.spike = 10}, Eight())->spike_nodes, 1024u);
}

TEST(Resolve, PowerManagement) {
  EXPECT_EQ(Resolve({.default_system = true}, Eight())->power, Power::kSystem);
  EXPECT_EQ(Resolve({.laptop = true}, Eight())->power, Power::kSystem);
  EXPECT_EQ(Resolve({.dma_latency_us = -3}, Eight())->dma_latency_us, 0);
  auto idle = Resolve({.deepest_idle_state = -1}, Eight());
  EXPECT_EQ(idle->power, Power::kIdleStates);
  EXPECT_EQ(idle->deepest_idle_state, -1);
}

TEST(Resolve, SmiNeedsPinnedThreadsAndIntelOrAStandIn) {
  EXPECT_THAT(Resolve({.smi = true}, Eight()), StatusIs(kUsage, HasSubstr("-a or -S")));
  EXPECT_THAT(Resolve({.affinity = "0", .smi = true}, Eight()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not supported on this processor")));
  EXPECT_THAT(Resolve({.affinity = "0", .smi = true, .msr_root = "/tmp/msr"}, Eight()), IsOk());
  Machine intel = Eight();
  intel.genuine_intel = true, intel.family = 6;
  EXPECT_THAT(Resolve({.smp = true, .smi = true}, intel), IsOk());
}

TEST(Resolve, NanosecondsChangeTheUnitOfLimits) {
  auto config = Resolve({.break_us = 40, .nsecs = true, .fail_above_us = 100}, Eight());
  EXPECT_EQ(config->unit_ns, 1);
  EXPECT_EQ(config->break_value, 40);
  EXPECT_EQ(*config->fail_above_ns, 100'000);
}

TEST(Duration, TakesUnitsInAnyCase) {
  EXPECT_EQ(*ParseDurationSeconds("90"), 90);
  EXPECT_EQ(*ParseDurationSeconds("2m"), 120);
  EXPECT_EQ(*ParseDurationSeconds("1H"), 3600);
  EXPECT_EQ(*ParseDurationSeconds("1d"), 86400);
  EXPECT_EQ(*ParseDurationSeconds("0"), 0);
  for (const char* text : {"1x", "m", "-1", "1.5", "99999999999"}) EXPECT_THAT(ParseDurationSeconds(text), StatusIs(kUsage, HasSubstr("no duration"))) << text;
}

TEST(Clock, NamesAndNumbers) {
  EXPECT_EQ(*ParseClock("1"), CLOCK_REALTIME);
  EXPECT_EQ(*ParseClock("monotonic"), CLOCK_MONOTONIC);
  EXPECT_EQ(*ParseClock("aux7"), 23);
  for (const char* text : {"2", "aux8", "aux", "", "REALTIME"}) EXPECT_THAT(ParseClock(text), StatusIs(kUsage, HasSubstr("-c"))) << text;
}

TEST(ExplainRefusal, NamesTheCause) {
  SchedulerRequest fifo{.policy = Policy::kFifo, .priority = 80};
  RtFacts cgroup{.cap_sys_nice = true, .cpu_cgroup = "/docker/x", .rt_runtime_us = 0};
  EXPECT_THAT(ExplainRefusal(fifo, EPERM, cgroup), testing::AllOf(HasSubstr("SCHED_FIFO priority 80"), HasSubstr("/docker/x has cpu.rt_runtime_us 0")));
  RtFacts user{.rtprio_hard = 10};
  EXPECT_THAT(ExplainRefusal(fifo, EPERM, user), HasSubstr("RLIMIT_RTPRIO is 10"));
  RtFacts off{.cap_sys_nice = true, .sysctl_runtime_us = 0};
  EXPECT_THAT(ExplainRefusal(fifo, EPERM, off), HasSubstr("kernel.sched_rt_runtime_us is 0"));
  SchedulerRequest deadline{.policy = Policy::kDeadline, .runtime_ns = 100, .period_ns = 1000};
  RtFacts pinned{.cap_sys_nice = true, .pinned = true};
  EXPECT_THAT(ExplainRefusal(deadline, EPERM, pinned), HasSubstr("may not be pinned"));
  EXPECT_THAT(ExplainRefusal(deadline, EBUSY, pinned), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace brink::latency
