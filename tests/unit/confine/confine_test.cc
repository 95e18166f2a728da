#include "confine/confine.h"

#include <arpa/inet.h>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "confine/broker.h"
#include "support/process.h"

namespace brink {
namespace {

constexpr int kNotInForce = 77;

// Runs `act` in a child confined by `confine`; its result is the child's exit status, or -signal.
int InChild(const std::function<Status()>& confine, const std::function<int()>& act) {
  pid_t child = fork();
  if (child == 0) {
    if (!confine().ok()) _exit(kNotInForce);
    _exit(act());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int ErrnoIf(bool failed) { return failed ? errno : 0; }

#define SKIP_IF_NOT_IN_FORCE(result, what) \
  if ((result) == kNotInForce) GTEST_SKIP() << what << " is not in force here (an older kernel, or a sanitizer's build)"

class ConfineTest : public testing::Test {
 protected:
  testing_support::TempDir dir_;
};

TEST_F(ConfineTest, AttackersSystemCallsKill) {
  const std::pair<const char*, std::function<int()>> kCases[] = {
      {"execve", [] { return execl("/bin/true", "true", nullptr); }},
      {"fork", [] { return fork() == 0 ? 1 : 2; }},
      {"ptrace", [] { return static_cast<int>(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
      {"bpf", [] { return static_cast<int>(syscall(SYS_bpf, 0, nullptr, 0)); }},
      {"perf_event_open", [] { return static_cast<int>(syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0)); }},
      {"socket", [] { return socket(AF_INET, SOCK_STREAM, 0); }},
      {"kill", [] { return kill(getppid(), 0); }},
      {"unshare", [] { return static_cast<int>(syscall(SYS_unshare, 0)); }},
      {"process_vm_writev", [] { return static_cast<int>(syscall(SYS_process_vm_writev, getppid(), nullptr, 0, nullptr, 0, 0)); }},
  };
  for (const auto& [name, act] : kCases) {
    int result = InChild(LimitSystemCalls, act);
    SKIP_IF_NOT_IN_FORCE(result, "seccomp");
    // The C library's fork is clone without CLONE_THREAD: refused, not deadly.
    if (std::string_view(name) == "fork") {
      EXPECT_EQ(result, 2) << name;
    } else {
      EXPECT_EQ(result, -SIGSYS) << name;
    }
  }
}

TEST_F(ConfineTest, MemoryThatIsCodeAndOtherProcessesThreadsAreRefused) {
  int code = InChild(LimitSystemCalls, [] { return ErrnoIf(mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED); });
  SKIP_IF_NOT_IN_FORCE(code, "seccomp");
  EXPECT_EQ(code, ENOSYS);
  EXPECT_EQ(InChild(LimitSystemCalls, [] { return ErrnoIf(syscall(SYS_tgkill, getppid(), getppid(), 0) != 0); }), ENOSYS);
  char byte = 'x';
  EXPECT_EQ(InChild(LimitSystemCalls, [&] { return ErrnoIf(ioctl(0, TIOCSTI, &byte) != 0); }), ENOSYS);
}

TEST_F(ConfineTest, ACollectorKeepsItsCallsAndLosesTheRest) {
  auto call = [](long number) { return [number] { return ErrnoIf(syscall(number, 0, 0, 0, 0, 0, 0) < 0); }; };
  int kept = InChild(LimitCollector, call(SYS_bpf));
  SKIP_IF_NOT_IN_FORCE(kept, "seccomp");
  EXPECT_GE(kept, 0) << "bpf() must go on to the kernel";
  EXPECT_EQ(InChild(LimitCollector, [] { return ErrnoIf(kill(getpid(), 0) != 0); }), 0);
  for (long number : {SYS_execve, SYS_ptrace, SYS_setns, SYS_mount, SYS_finit_module, SYS_setresuid}) {
    EXPECT_EQ(InChild(LimitCollector, call(number)), -SIGSYS) << number;
  }
  EXPECT_EQ(InChild(LimitCollector, [] { return socket(AF_INET, SOCK_STREAM, 0); }), -SIGSYS);
}

TEST_F(ConfineTest, ReadingThreadsAndAbortStillWork) {
  int result = InChild(LimitSystemCalls, [] {
    int sum = 0;
    std::thread worker([&] { sum = ReadFile("/proc/self/status").ok() ? 5 : 6; });
    worker.join();
    return sum;
  });
  SKIP_IF_NOT_IN_FORCE(result, "seccomp");
  EXPECT_EQ(result, 5);
  EXPECT_EQ(InChild(LimitSystemCalls, []() -> int { abort(); }), -SIGABRT);
}

TEST_F(ConfineTest, OnlyTheFolderOfAnOutputCanBeWritten) {
  std::string out = dir_.path() + "/out/file", other = dir_.path() + "/other";
  ASSERT_EQ(mkdir((dir_.path() + "/out").c_str(), 0700), 0);
  ASSERT_EQ(close(creat(other.c_str(), 0600)), 0);
  auto limit = [&] { return LimitFiles({out}); };
  int made = InChild(limit, [&] { return ErrnoIf(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600) < 0); });
  SKIP_IF_NOT_IN_FORCE(made, "landlock");
  EXPECT_EQ(made, 0);
  EXPECT_EQ(InChild(limit, [&] { return ErrnoIf(open(other.c_str(), O_WRONLY) < 0); }), EACCES);
  EXPECT_EQ(InChild(limit, [&] { return ErrnoIf(unlink(other.c_str()) != 0); }), EACCES);
  EXPECT_EQ(InChild(limit, [&] { return ErrnoIf(open((other + "2").c_str(), O_WRONLY | O_CREAT, 0600) < 0); }), EACCES);
  EXPECT_EQ(InChild(limit, [&] { return ErrnoIf(open(other.c_str(), O_RDONLY) < 0); }), 0) << "reading is not limited";
}

TEST_F(ConfineTest, TheBrokerOpensFilesOfOtherProcessesForReadingOnly) {
  const std::string pid = std::to_string(getpid());
  EXPECT_TRUE(OpenForeign("/proc/" + pid + "/root/etc/passwd").ok());
  for (const char* path : {"/etc/passwd", "/proc/self/root/etc/passwd", "/proc/1/mem", "/proc/1/root/", "/proc/1/map_files/../mem", "/proc/1x/root/a", "/proc//root/a"}) {
    EXPECT_FALSE(OpenForeign(path).ok()) << path;
  }
  EXPECT_FALSE(OpenForeign("/proc/" + pid + "/root/etc").ok()) << "a folder";
  EXPECT_FALSE(OpenForeign("/proc/" + pid + "/root/proc/" + pid + "/root/etc/passwd").ok()) << "through a magic link";
  EXPECT_FALSE(OpenForeign("/proc/" + pid + "/root/dev/null").ok()) << "a device";
}

TEST_F(ConfineTest, AConfinedProcessReadsAnothersFilesThroughTheBroker) {
  // A process of its own domain: after Confine, /proc/PARENT/root is refused by landlock and asked for at the broker.
  const std::string path = "/proc/" + std::to_string(getpid()) + "/root/etc/passwd";
  int result = InChild([] { return OkStatus(); }, [&] {
    Confinement layers = Confine({.outputs = {}});
    if (!layers.landlock.in_force) return kNotInForce;
    if (open(path.c_str(), O_RDONLY) >= 0) return 1;  // the kernel itself must refuse, or this shows nothing
    auto scratch = OpenFile("/tmp", O_TMPFILE | O_RDWR);  // where a stream is kept
    if (!scratch.ok() || write(scratch->get(), "x", 1) != 1) return 3;
    auto content = ReadFile(path);
    return content.ok() && content->find("root:") != std::string::npos ? 0 : 2;
  });
  SKIP_IF_NOT_IN_FORCE(result, "landlock");
  EXPECT_EQ(result, 0);
}

TEST_F(ConfineTest, LinksOfOthersAreNotWrittenThrough) {
  if (geteuid() != 0) GTEST_SKIP() << "giving a link away takes root";
  std::string target = dir_.path() + "/target", link = dir_.path() + "/link";
  ASSERT_EQ(close(creat(target.c_str(), 0600)), 0);
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  EXPECT_TRUE(OpenFile(link, O_WRONLY | O_CREAT | O_TRUNC).ok()) << "our own";
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  auto refused = OpenFile(link, O_WRONLY | O_CREAT | O_TRUNC);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(Message(refused.status()).find("link that another user made"), std::string::npos) << Message(refused.status());
  EXPECT_TRUE(OpenFile("/dev/stdout", O_WRONLY | O_CREAT).ok());
}

TEST_F(ConfineTest, CanBeSwitchedOff) {
  int result = InChild([] { return OkStatus(); }, [] {
    setenv("BRINK_CONFINE", "off", 1);
    Confinement layers = Confine({.outputs = {}});
    return !layers.capabilities.in_force && !layers.landlock.in_force && !layers.seccomp.in_force && layers.seccomp.reason == "BRINK_CONFINE=off" ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace brink
