// What user space does for a policy file: to the process that was meant, within limits, never to those that are spared.
#include "monitor/act.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/sync.h"
#include "kernel/proc_task.h"
#include "monitor/registers.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::cfi {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A process that waits for its end.
class Child {
 public:
  Child() : pid_(fork()) {
    while (pid_ == 0) pause();
    start_ns_ = ReadTaskStat(pid_)->start_ticks * 10'000'000;
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Alarm MakeAlarm(Severity severity = Severity::kHigh) const {
    Alarm alarm;
    alarm.pid = alarm.tid = pid_;
    alarm.start_ns = start_ns_;
    alarm.comm = "victim";
    alarm.severity = severity;
    alarm.time_ns = 61'000'000'000;
    alarm.violations = {{.policy = Policy::kReturnSite, .severity = severity, .reason = "made up"}};
    return alarm;
  }
  // Waits until it has ended or stopped.
  bool Ended() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WSTOPPED | WNOWAIT) == 0 && info.si_code == CLD_KILLED;
  }
  bool Alive() const { return kill(pid_, 0) == 0 && waitpid(pid_, nullptr, WNOHANG | WSTOPPED) == 0; }

 private:
  pid_t pid_;
  uint64_t start_ns_ = 0;
};

PolicyView Wants(Action action, Severity at = Severity::kHigh) {
  PolicyView view;
  view.action = action;
  view.action_at = at;
  return view;
}

std::string Result(Actor& actor, const PolicyView& view, Alarm alarm) {
  actor.Take(view, &alarm);
  return alarm.action_result;
}

TEST(Actor, EndsTheProcessThatWasMeant) {
  Child child;
  Actor actor({.act = true});
  EXPECT_EQ(Result(actor, Wants(Action::kKill), child.MakeAlarm()), "done");
  EXPECT_TRUE(child.Ended());
}

TEST(Actor, DoesNothingWithoutActOrBelowItsSeverityOrWhatIsSuppressed) {
  Child child;
  Actor dry({.act = false}), actor({.act = true});
  EXPECT_EQ(Result(dry, Wants(Action::kKill), child.MakeAlarm()), "dry run");
  EXPECT_EQ(Result(actor, Wants(Action::kKill), child.MakeAlarm(Severity::kMedium)), "");
  EXPECT_EQ(Result(actor, Wants(Action::kAlert), child.MakeAlarm()), "");
  Alarm suppressed = child.MakeAlarm();
  suppressed.suppressed_by = "known";
  EXPECT_EQ(Result(actor, Wants(Action::kKill), suppressed), "");
  EXPECT_TRUE(child.Alive());
}

TEST(Actor, SparesInitBrinkTheListAndWhoeverHasThePidNow) {
  Child child;
  Actor actor({.act = true, .spared = {"victim"}}), other({.act = true});
  EXPECT_EQ(Result(actor, Wants(Action::kKill), child.MakeAlarm()), "spared");
  Alarm alarm = child.MakeAlarm();
  alarm.pid = 1;
  EXPECT_EQ(Result(other, Wants(Action::kKill), alarm), "spared");
  alarm.pid = getpid();
  EXPECT_EQ(Result(other, Wants(Action::kKill), alarm), "spared");
  alarm = child.MakeAlarm();
  alarm.start_ns -= 1'000'000'000;  // an earlier process of this pid
  EXPECT_EQ(Result(other, Wants(Action::kKill), alarm), "gone before");
  EXPECT_TRUE(child.Alive());
}

TEST(Actor, AtMostSoManyAMinute) {
  Child one, two;
  Actor actor({.act = true, .per_minute = 1});
  EXPECT_EQ(Result(actor, Wants(Action::kKill), one.MakeAlarm()), "done");
  EXPECT_EQ(Result(actor, Wants(Action::kKill), two.MakeAlarm()), "limit of the minute");
  EXPECT_TRUE(two.Alive());
  Alarm later = two.MakeAlarm();
  later.time_ns += 60'000'000'000;
  EXPECT_EQ(Result(actor, Wants(Action::kStop), later), "done");
}

TEST(Actor, ASnapshotHasRegistersStackMappingsAndTheAlarm) {
  Child child;
  testing_support::TempDir dir;
  Actor actor({.snapshots = dir.path(), .per_minute = 1});
  Alarm alarm = child.MakeAlarm();
  const uint64_t here = 0x1122334455667788;  // the child has this stack too
  alarm.context.regs[kIpRegister] = 0x401000;
  alarm.context.regs[kSpRegister] = reinterpret_cast<uint64_t>(&here);
  alarm.context.stack[0] = here;
  alarm.context.stack_words = 1;
  const std::string path = Result(actor, Wants(Action::kSnapshot), alarm);
  ASSERT_THAT(path, StartsWith(dir.path()));
  auto text = ReadFile(path, 1 << 20);
  ASSERT_THAT(text, testing_support::IsOk());
  const auto kept = nlohmann::json::parse(*text);
  EXPECT_EQ(kept["schema"], "brink.cfi.snapshot.v1");
  EXPECT_EQ(kept["registers"].size(), size_t{BRINK_CFI_REGS});
  EXPECT_EQ(kept["registers"][kRegisters[kIpRegister]], "0x401000");
  EXPECT_EQ(kept["stack_at_check"][0], "0x1122334455667788");
  EXPECT_GE(kept["stack_now"].get<std::string>().size(), 16u);
  EXPECT_THAT(kept["maps"].get<std::string>(), HasSubstr("[stack]"));
  EXPECT_EQ(kept["alarm"]["policy_ids"][0], "P1");
  EXPECT_EQ(Result(actor, Wants(Action::kSnapshot), alarm), "limit of the minute");
  Actor nowhere({.act = true});
  EXPECT_EQ(Result(nowhere, Wants(Action::kSnapshot), alarm), "no --snapshots DIR");
}

// As long as it is the same process: of another one with its pid nothing is kept.
TEST(Actor, ASnapshotTakesNothingFromAnotherProcess) {
  Child child;
  Alarm alarm = child.MakeAlarm();
  alarm.start_ns -= 1'000'000'000;
  alarm.context.regs[kSpRegister] = reinterpret_cast<uint64_t>(&alarm);
  const auto kept = nlohmann::json::parse(SnapshotJson(alarm, Onlooker().At(alarm.pid, alarm.start_ns, alarm.context.regs[kSpRegister]), {}));
  EXPECT_TRUE(kept["stack_now"].is_null());
  EXPECT_TRUE(kept["maps"].is_null());
}

TEST(Actor, AtMostSoManySnapshots) {
  Child child;
  testing_support::TempDir dir;
  Actor actor({.snapshots = dir.path(), .most_snapshots = 1});
  EXPECT_THAT(Result(actor, Wants(Action::kSnapshot), child.MakeAlarm()), StartsWith(dir.path()));
  EXPECT_EQ(Result(actor, Wants(Action::kSnapshot), child.MakeAlarm()), "limit of the run");
}

// Whoever holds a page back holds back one look, not the alarms.
TEST(Onlooker, WaitsForNobody) {
  struct Gate {
    Mutex mutex;
    CondVar opened;
    bool open = false;
  };
  auto gate = std::make_shared<Gate>();
  Onlooker onlooker(std::chrono::milliseconds(20), [gate](int32_t, uint64_t, uint64_t) {
    MutexLock lock(gate->mutex);
    while (!gate->open) gate->opened.Wait(gate->mutex);
    return Look{.stack = "words", .maps = ""};
  });
  EXPECT_EQ(onlooker.At(1, 1, 0).stack, "");
  EXPECT_EQ(onlooker.At(1, 1, 0).stack, "") << "the first look is not over";
  {
    MutexLock lock(gate->mutex);
    gate->open = true;
  }
  gate->opened.NotifyAll();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::string stack;
  while (stack.empty() && std::chrono::steady_clock::now() < until) stack = onlooker.At(1, 1, 0).stack;
  EXPECT_EQ(stack, "words");
}

}  // namespace
}  // namespace brink::cfi
