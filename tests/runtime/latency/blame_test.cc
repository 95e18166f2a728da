// Causes that this machine can have; the guests' are in guest_blame_test.cc, the quota in quota_test.cc.
#include "runtime/latency/blame_fixture.h"
#include "runtime/latency/group.h"

namespace brink::latency {
namespace {

TEST_F(Blame, AHigherPriorityThreadIsNamed) {
  Expect({.kind = "busy", .brink_options = {"-p", "50", "-m"}}, [&](const SpikeReport& s) { return s.cause == Cause::kTask && s.subject == InjectorName(); });
}

TEST_F(Blame, ASoftirqIsNamed) {
  Expect({.kind = "softirq", .brink_options = {"-p", "50", "-m"}}, [&](const SpikeReport& s) { return s.cause == Cause::kSoftirq && s.subject == "softirq NET_RX"; });
}

TEST_F(Blame, PageFaultsAreSeen) {
  Expect({.kind = "faults", .brink_options = {"-p", "50", "-m"}}, [&](const SpikeReport& s) { return s.cause == Cause::kPageFaults && s.subject == InjectorName(); });
}

TEST_F(Blame, MemoryPressureIsSeen) {
  Group group("memory");
  if (!group.ok()) GTEST_SKIP() << "needs the memory controller";
  // Reclaim of clean pages is quick: a short period, so that a deadline falls near its beginning.
  Injection injection{.kind = "reclaim", .brink_options = {"-p", "50", "-m", "-i", "100"}, .more = {dir_.File("big"), group.path()}};
  injection.injector_join = [&] { group.Join(); };
  Expect(injection, [&](const SpikeReport& s) { return s.cause == Cause::kReclaim && s.subject == InjectorName(); });
}

// Descriptors of a process that link to something named `kind`.
int CountFds(pid_t pid, const std::string& kind) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + Number(pid) + "/fd", error)) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path(), gone).string().find(kind) != std::string::npos;
  }
  return count;
}

class WatchBlame : public Blame {
 protected:
  void MeasureHolder(const std::string& kind) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    Process injector({INJECT, kind, Number(kSpikes), Number(cpu_), dir_.File("times")}, dir_.File("inject"), [&] { ::dup2(pipe[0], 0); });
    long waiter = 0, holder = 0;
    for (int i = 0; i < 4000 && !holder; ++i) {
      ::usleep(5000);
      std::sscanf(Text("inject").c_str(), "waiter %ld holder %ld", &waiter, &holder);
    }
    ASSERT_NE(holder, 0) << Text("inject");
    Process brink({BrinkBinary(), "latency", "watch", "-t", Number(waiter), "--blocked-above", "3000", "--save", dir_.File("r")}, dir_.File("out"));
    // The ring's epoll is made when everything is attached.
    for (int i = 0; i < 4000 && CountFds(brink.pid(), "eventpoll") == 0; ++i) ::usleep(5000);
    ASSERT_GT(CountFds(brink.pid(), "eventpoll"), 0) << Text("out");
    ASSERT_EQ(::write(pipe[1], "\n", 1), 1);
    ASSERT_EQ(injector.End(0), 0) << Text("inject");
    ::close(pipe[0]);
    ::close(pipe[1]);
    Take(&brink, 0);  // it ends with the waiter
    if (HasFatalFailure()) return;
    holder_ = "holder (pid " + Number(holder) + ")";
  }
  bool NamesHolder(const SpikeReport& spike) const {
    return spike.cause == Cause::kLockHolder && spike.subject == holder_ && spike.verdict.find("stopped (SIGSTOP)") != std::string::npos;
  }
  std::string holder_;
};

TEST_F(WatchBlame, TheStoppedHolderOfAMutexIsNamed) {
  Expect([&] { MeasureHolder("mutex"); }, [&](const SpikeReport& s) { return NamesHolder(s); });
}

TEST_F(WatchBlame, TheStoppedHolderOfAPriorityInheritingMutexIsNamed) {
  Expect([&] { MeasureHolder("pi-mutex"); }, [&](const SpikeReport& s) { return NamesHolder(s); });
}

TEST_F(Blame, BusyLoopsSeeWhoTookTheirTime) {
  auto round = [&] {
    Process brink({BrinkBinary(), "latency", "busy", "-C", Number(cpu_), "-D", "600", "-f", "50", "--blame=300", "--save", dir_.File("r")}, dir_.File("out"));
    ASSERT_TRUE(WaitForThread(brink.pid(), "brink-busy\n")) << Text("out");
    Inject({.kind = "busy"});
    if (IsSkipped() || HasFatalFailure()) return;
    Take(&brink);
  };
  Expect(round, [&](const SpikeReport& s) { return s.cause == Cause::kTask && s.subject == InjectorName(); });
}

}  // namespace
}  // namespace brink::latency
