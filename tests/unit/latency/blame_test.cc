#include "latency/blame.h"

#include <cstring>

#include <gmock/gmock.h>

#include "latency/actions.h"
#include "latency/blame_session.h"
#include "latency/paths.h"
#include "latency/throttle.h"
#include "support/status_matchers.h"

namespace brink::latency {
namespace {

using testing::HasSubstr;
constexpr int64_t kUs = 1000, kMs = 1'000'000;
constexpr int64_t kD = 1'000 * kMs;  // the deadline

brink_lat_event Event(uint32_t kind, uint32_t id, int64_t start, int64_t end, const char* comm = "") {
  brink_lat_event event = {};
  event.kind = kind, event.id = id, event.aux = id, event.count = 1;
  event.start = static_cast<uint64_t>(start), event.end = static_cast<uint64_t>(end), event.busy = event.end - event.start;
  std::strncpy(event.comm, comm, sizeof event.comm - 1);
  return event;
}

// Interrupt, wake-up and switch-in as offsets from the deadline; the clock is read 10 us behind the switch.
Evidence Late(int64_t irq, int64_t waking, int64_t in) {
  Evidence e;
  e.deadline = kD, e.now = kD + in + 10 * kUs, e.tid = 50, e.policy = Policy::kFifo, e.own.cpu = 1;
  e.slot.irq = static_cast<uint64_t>(kD + irq), e.slot.waking = static_cast<uint64_t>(kD + waking);
  e.slot.first_in = e.slot.last_in = static_cast<uint64_t>(kD + in);
  e.slot.wait = static_cast<uint64_t>(in - waking);
  e.slot.switches = 1;
  return e;
}

int64_t RowSum(const SpikeReport& report) {
  int64_t sum = 0;
  for (const BlameLine& line : report.lines) sum += line.ns;
  return sum;
}

// Names addresses 1, 2, ... of a list.
Names Numbered(std::vector<std::string> list) {
  return {[list](uint64_t address) { return address && address <= list.size() ? list[address - 1] : ""; }, {}, {}};
}

void SetStack(brink_lat_capture* capture, size_t frames, uint32_t tgid) {
  capture->when = static_cast<uint64_t>(kD + 1);
  capture->tid = capture->tgid = tgid;
  capture->kernel_bytes = static_cast<int32_t>(frames * 8);
  for (size_t i = 0; i < frames; ++i) capture->kernel_stack[i] = i + 1;
  std::strcpy(capture->comm, "victim");
}

TEST(Split, AddsUpToTheLateness) {
  Evidence e = Late(3 * kUs, 5 * kUs, 5000 * kUs);
  Parts parts = SplitLateness(e.deadline, e.now, e.slot);
  EXPECT_EQ(parts.timer_late, 3 * kUs);
  EXPECT_EQ(parts.interrupt, 2 * kUs);
  EXPECT_EQ(parts.wait, 4995 * kUs);
  EXPECT_EQ(parts.user, 10 * kUs);
  EXPECT_EQ(parts.sum(), e.now - e.deadline);
}

TEST(Split, AnInterruptThatBeganBeforeTheDeadlineIsNotLate) {
  Evidence e = Late(-20 * kUs, 5 * kUs, 8 * kUs);
  Parts parts = SplitLateness(e.deadline, e.now, e.slot);
  EXPECT_EQ(parts.timer_late, 0);
  EXPECT_EQ(parts.interrupt, 5 * kUs);
  EXPECT_EQ(parts.sum(), e.now - e.deadline);
}

TEST(Split, EarlyWakingAndOddTimesStillAddUp) {
  for (int64_t waking : {-50 * kUs, int64_t{0}, 30 * kUs}) {
    for (int64_t wait : {int64_t{0}, 40 * kUs, 90'000 * kUs}) {
      Evidence e = Late(waking - kUs, waking, 60 * kUs);
      e.slot.wait = static_cast<uint64_t>(wait);
      e.slot.blocked = 7777777;
      Parts parts = SplitLateness(e.deadline, e.now, e.slot);
      EXPECT_EQ(parts.sum(), e.now - e.deadline) << waking << " " << wait;
      EXPECT_GE(std::min({parts.timer_late, parts.interrupt, parts.wait, parts.blocked, parts.user}), 0);
    }
  }
}

TEST(Split, WithoutASleepAllIsTheThreadsOwn) {
  Evidence e = Late(0, 0, 10 * kUs);
  e.slot = {};
  EXPECT_EQ(SplitLateness(e.deadline, e.now, e.slot).user, 20 * kUs);
  EXPECT_EQ(Explain(e, {}).cause, Cause::kLastCycle);
}

TEST(Explain, ATaskThatHadTheCpuIsNamed) {
  Evidence e = Late(2 * kUs, 3 * kUs, 5003 * kUs);
  e.own.events = {Event(BRINK_LAT_TASK, 7, kD - kMs, kD + 5003 * kUs, "busy"), Event(BRINK_LAT_HARDIRQ, BRINK_LAT_VEC_TIMER, kD + kMs, kD + kMs + 4 * kUs)};
  SpikeReport report = Explain(e, {});
  EXPECT_EQ(report.cause, Cause::kTask);
  EXPECT_EQ(report.subject, "busy (pid 7)");
  EXPECT_THAT(report.verdict, HasSubstr("4996.0 us"));
  EXPECT_EQ(RowSum(report), report.lateness_ns);
}

TEST(Explain, ASoftirqIsTakenOffTheTaskThatItBorrowed) {
  Evidence e = Late(2 * kUs, 3 * kUs, 5003 * kUs);
  e.own.events = {Event(BRINK_LAT_TASK, 7, kD - kMs, kD + 5003 * kUs, "sender"), Event(BRINK_LAT_SOFTIRQ, 3, kD - 10 * kUs, kD + 4900 * kUs)};
  SpikeReport report = Explain(e, {});
  EXPECT_EQ(report.cause, Cause::kSoftirq);
  EXPECT_EQ(report.subject, "softirq NET_RX");
  EXPECT_EQ(RowSum(report), report.lateness_ns);
}

TEST(Explain, FaultsAndReclaimSayWhatTheTaskDid) {
  Evidence e = Late(2 * kUs, 3 * kUs, 5003 * kUs);
  e.own.events = {Event(BRINK_LAT_TASK, 7, kD, kD + 5003 * kUs, "toucher")};
  e.own.events[0].faults = 2000;
  EXPECT_EQ(Explain(e, {}).cause, Cause::kPageFaults);
  e.own.events[0].reclaim_us = 3000;
  EXPECT_EQ(Explain(e, {}).cause, Cause::kReclaim);
}

TEST(Explain, RunnableBesideAnIdleCpuIsAQuota) {
  Evidence e = Late(2 * kUs, 3 * kUs, 40'000 * kUs);
  e.policy = Policy::kOther;
  e.own.events = {Event(BRINK_LAT_TASK, 0, kD + 3 * kUs, kD + 40'000 * kUs)};
  EXPECT_EQ(Explain(e, {}).cause, Cause::kQuota);
}

TEST(Explain, SilenceOfEveryCpuIsOutside) {
  Evidence e = Late(5000 * kUs, 5002 * kUs, 5010 * kUs);
  e.beat_ns = kBeatNs;
  e.own.events = {Event(BRINK_LAT_HARDIRQ, 0, kD - 3 * kUs, kD - kUs), Event(BRINK_LAT_HARDIRQ, 0, kD + 5000 * kUs, kD + 5003 * kUs)};
  e.others = {{0, {Event(BRINK_LAT_HARDIRQ, 0, kD - 9 * kUs, kD - 8 * kUs), Event(BRINK_LAT_HARDIRQ, 0, kD + 5001 * kUs, kD + 5004 * kUs)}}};
  EXPECT_EQ(Explain(e, {}).cause, Cause::kOutside);
  // A beat of the other CPU in the middle: this kernel was alive.
  e.others[0].events.insert(e.others[0].events.begin() + 1, Event(BRINK_LAT_HARDIRQ, 0, kD + 2500 * kUs, kD + 2503 * kUs));
  SetStack(&e.waking, 3, 9);
  EXPECT_EQ(Explain(e, Numbered({"sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt", "guilty_function"})).cause, Cause::kInterruptsOff);
}

TEST(Explain, InterruptsOffNamesTheInterruptedFunction) {
  Evidence e = Late(5000 * kUs, 5002 * kUs, 5010 * kUs);
  SetStack(&e.waking, 5, 9);
  SpikeReport report = Explain(e, Numbered({"hrtimer_interrupt", "asm_sysvec_apic_timer_interrupt", "_raw_spin_unlock_irqrestore", "guilty_function", "ksys_write"}));
  EXPECT_EQ(report.cause, Cause::kInterruptsOff);
  EXPECT_EQ(report.subject, "guilty_function");
  EXPECT_THAT(report.kernel_stack, testing::ElementsAre("_raw_spin_unlock_irqrestore", "guilty_function", "ksys_write"));
}

TEST(Explain, AnInterruptOfUserCodeWasNeverHeldOff) {
  Evidence e = Late(5000 * kUs, 5002 * kUs, 5010 * kUs);
  SetStack(&e.waking, 2, 9);
  EXPECT_EQ(Explain(e, Numbered({"hrtimer_interrupt", "asm_sysvec_apic_timer_interrupt"})).cause, Cause::kOutside);
}

// What is neither a part nor a cause is told as a remark.
TEST(Explain, RemarksTellIdleFrequencySmiStealTicksSendersAndThePreviousInterrupt) {
  Evidence e = Late(5000 * kUs, 5002 * kUs, 5010 * kUs);
  e.beat_ns = kBeatNs;
  e.smi = 2, e.stolen_ns = 10 * kMs;
  e.slot.migrations = 1;
  e.slot.woken = e.slot.waking + 50 * kUs;
  SetStack(&e.waking, 3, 9);
  e.waking.when = e.slot.waking, e.waking.previous_when = e.waking.when - 6'000 * kUs;
  e.waking.previous_branches = 1, e.waking.previous[0] = {.from = 3, .to = 2};
  e.own.events = {Event(BRINK_LAT_FREQ, 1'200'000, kD - kMs, kD - kMs), Event(BRINK_LAT_IDLE_STATE, 3, kD - 4 * kMs, kD + 10 * kUs), Event(BRINK_LAT_HARDIRQ, BRINK_LAT_VEC_TIMER, kD + 5000 * kUs, kD + 5003 * kUs)};
  CpuLog other{0, {Event(BRINK_LAT_IPI, 1, kD + kMs, kD + kMs, "shooter"), Event(BRINK_LAT_IPI, 7, kD + kMs, kD + kMs, "elsewhere"), Event(BRINK_LAT_HARDIRQ, 0, kD + 2500 * kUs, kD + 2501 * kUs)}};
  other.events[0].work = 3, other.events[0].count = 4, other.events[0].aux = 77;
  e.others = {other};
  e.branches_asked = true;
  // Kernel addresses have their upper half in numbers; these are small and named as the task's.
  Names names = Numbered({"sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt", "guilty_function"});
  SpikeReport report = Explain(e, names);
  std::string text = SpikeText(report);
  for (const char* part : {"system management interrupts since the wake-up before: 2", "stolen by the hypervisor about then: 10000.0 us", "migrated 1 times", "frequency changed to 1200 MHz",
                           "left idle state 3, in which it had been for 4010.0 us", "timer interrupts of this CPU meanwhile: 1 of 5 (one every 1000 us), 4 missed",
                           "interrupted by shooter (thread 77) on CPU 0, guilty_function: 4 times", "reached its CPU's queue 50.0 us after", "the timer interrupt before came 6000.0 us earlier",
                           "branches before the timer interrupt 6000.0 us earlier"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("elsewhere")));
  EXPECT_EQ(report.previous_branches.size(), 1u);
}

TEST(Explain, TheIdleCpuAnswersLate) {
  Evidence e = Late(400 * kUs, 402 * kUs, 410 * kUs);
  SetStack(&e.waking, 2, 0);
  EXPECT_EQ(Explain(e, Numbered({"asm_sysvec_apic_timer_interrupt", "default_idle"})).cause, Cause::kIdleExit);
}

TEST(Explain, BranchesComeWithTheirReasonWhereThereAreNone) {
  Evidence e = Late(5000 * kUs, 5002 * kUs, 5010 * kUs);
  SetStack(&e.waking, 2, 9);
  e.branches_missing = "no hardware";
  EXPECT_EQ(Explain(e, {}).branches_missing, "no hardware");
  e.branches_asked = true;
  e.waking.branches = 2;
  e.waking.entries[0] = {.from = 1, .to = 2};
  e.waking.entries[1] = {.from = 3, .to = 1};
  SpikeReport report = Explain(e, {{}, [](uint32_t, uint64_t address) { return std::string(1, static_cast<char>('a' + address)); }, {}});
  EXPECT_THAT(report.branches, testing::ElementsAre("b -> c", "d -> b"));
}

TEST(Shares, JoinedEventsCountInProportion) {
  CpuLog log{0, {Event(BRINK_LAT_HARDIRQ, 0, 0, 1000)}};
  log.events[0].busy = 100;
  std::vector<Share> shares = SharesOf(log, 500, 2000);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].ns, 50);
}

TEST(CopyLog, LeavesOutWhatIsOlderOrOverwritten) {
  auto cpu = std::make_unique<brink_lat_cpu>();
  std::memset(cpu.get(), 0, sizeof *cpu);
  for (int64_t i = 0; i < 700; ++i) cpu->events[i % BRINK_LAT_EVENTS] = Event(BRINK_LAT_TASK, 1, i * 10, i * 10 + 9);
  cpu->head = 700;
  EXPECT_EQ(CopyLog(*cpu, 0).size(), static_cast<size_t>(BRINK_LAT_EVENTS));
  std::vector<brink_lat_event> recent = CopyLog(*cpu, 6'900);
  ASSERT_EQ(recent.size(), 10u);
  EXPECT_EQ(recent.front().start, 6'900u);
}

TEST(Fold, CountsEqualPaths) {
  SpikeReport a;
  a.cause = Cause::kTask, a.subject = "x", a.occupant = "hog", a.kernel_stack = {"inner", "outer"};
  SpikeReport b = a;
  b.branches = {"f -> g", "e -> f"};
  EXPECT_THAT(FoldPaths({a, a, b}), testing::ElementsAre("task;x;hog;outer;inner 2", "task;x;hog;e;f 1"));
  // Separators within a name would make two frames of one.
  a.kernel_stack = {"lambda(int;\n)"};
  EXPECT_EQ(PathOf(a), "hog;lambda(int::)");
  a.kernel_stack.clear();
  EXPECT_EQ(PathOf(a), "");
}

TEST(Fold, TheDifferencePutsWhatIsTypicalOfLateOnesFirst) {
  SpikeReport guilty, common;
  guilty.occupant = "hog", guilty.kernel_stack = {"spin"};
  common.occupant = "idle", common.kernel_stack = {"halt"};
  PathDiff diff = DiffPaths({guilty, guilty, guilty, common, SpikeReport()}, {{"idle;halt", 18}, {"hog;spin", 1}, {"other;work", 1}});
  EXPECT_EQ(diff.late, 4u);
  EXPECT_EQ(diff.normal, 20u);
  ASSERT_EQ(diff.rows.size(), 3u);
  EXPECT_EQ(diff.rows[0].path, "hog;spin");
  EXPECT_DOUBLE_EQ(diff.LateShare(diff.rows[0]), 0.75);
  EXPECT_DOUBLE_EQ(diff.NormalShare(diff.rows[0]), 0.05);
  EXPECT_EQ(diff.rows[2].path, "idle;halt");
  EXPECT_EQ(FoldedDiff(diff), "hog;spin 1 3\nother;work 1 0\nidle;halt 18 1\n");
}

TEST(Throttle, ReadsBothHierarchiesForms) {
  EXPECT_EQ(ParseThrottled("nr_periods 10\nnr_throttled 3\nthrottled_time 12345\n"), 3);
  EXPECT_EQ(ParseThrottled("usage_usec 10\n"), -1);
  EXPECT_EQ(ParseSteal("cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 9 0 0\nintr 5\n"), (std::vector<int64_t>{80'000'000, 90'000'000}));
}

TEST(Actions, AreParsedAndRefused) {
  using testing_support::IsOk;
  EXPECT_THAT(ThresholdActions::Parse({"continue", "signal:10:4711", "exec:cat", "trace", "stop"}), IsOk());
  EXPECT_THAT(ThresholdActions::Parse({"signal", "signal:12", "signal:12:parent"}), IsOk());
  for (const char* word : {"", "halt", "signal:", "signal:x", "signal:99:1", "signal:10:0", "signal:10:1:2", "exec:"}) EXPECT_FALSE(ThresholdActions::Parse({word}).ok()) << word;
  auto actions = ThresholdActions::Parse({"signal:10:2147483647", "stop"});
  ASSERT_THAT(actions, IsOk());
  actions->Run({});
  EXPECT_FALSE(actions->stop()) << "the first action that fails ends the list";
}

}  // namespace
}  // namespace brink::latency
