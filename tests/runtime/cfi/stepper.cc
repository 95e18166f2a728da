// cfi_stepper PROGRAM ARGS...: runs a program up to where it stops itself (SIGSTOP), from there on step by step, and judges
// the exact branches that led to each system call and to the end. A line of JSON a finding, and one at each call.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "cfi/process_map.h"
#include "decode/flow.h"
#include "kernel/proc_maps.h"
#include "ptrace/tracee.h"

namespace brink::cfi {
namespace {

constexpr size_t kDepth = 64, kMostSteps = 400'000;

class Stepper {
 public:
  int Run(char** argv) {
    setenv("ATTACK_STOP", "1", 1);
    setenv("ATTACK_ROUNDS", "2", 1);
    const pid_t child = fork();
    if (child == 0) {
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      execv(argv[0], argv);
      _exit(127);
    }
    pid_ = child;
    int status = 0;
    waitpid(child, &status, 0);
    ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
    const pid_t thread = WaitForStop();
    if (thread < 0) return 1;
    Step(thread);
    kill(child, SIGKILL);
    return 0;
  }

 private:
  // Until some thread stops itself.
  pid_t WaitForStop() {
    int status = 0;
    while (true) {
      const pid_t thread = waitpid(-1, &status, __WALL);
      if (thread < 0 || WIFEXITED(status) || WIFSIGNALED(status)) return -1;
      const int signal = WSTOPSIG(status);
      const bool born = seen_new_ && thread != pid_ && signal == SIGSTOP && !started_;
      if (signal == SIGTRAP && status >> 16) {
        seen_new_ = true;
      } else if (born) {
        started_ = true;  // a new thread's first stop
      } else if (signal == SIGSTOP) {
        return thread;
      }
      ::ptrace(PTRACE_CONT, thread, nullptr, signal == SIGTRAP || born ? 0 : signal);
    }
  }

  void Step(pid_t thread) {
    ptrace::Regs regs, after;
    ptrace::ProcessMemory memory(thread);
    int status = 0;
    for (size_t i = 0; i < kMostSteps; ++i) {
      if (!ptrace::ReadRegs(thread, &regs)) return Judge("end");
      uint8_t code[decode::kMaxInsnBytes] = {};
      const size_t n = memory.Read(regs.ip, code, sizeof code);
      if (n == 0) return Judge("code that cannot be read");
      const auto insn = decode::Decode({code, n}, regs.ip);
      const decode::Flow flow = insn ? insn->flow : decode::Flow::kOther;
      const size_t length = insn ? insn->length : 0;
      if (flow == decode::Flow::kSyscall) {
        Judge(("syscall " + std::to_string(CallOf(regs))).c_str());
        if (CallOf(regs) == SYS_exit_group || CallOf(regs) == SYS_exit) return;
      }
      ::ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr);
      if (waitpid(thread, &status, __WALL) < 0 || !WIFSTOPPED(status)) return Judge("end");
      if (WSTOPSIG(status) != SIGTRAP) return Judge(("signal " + std::to_string(WSTOPSIG(status))).c_str());
      if (!ptrace::ReadRegs(thread, &after)) return;
      // A lazy PLT slot's jump goes to the next instruction, and is one all the same.
      const bool fell = after.ip == regs.ip + length && (flow == decode::Flow::kCond || flow == decode::Flow::kOther);
      if (!length || flow == decode::Flow::kNext || flow == decode::Flow::kSyscall || fell || after.ip == regs.ip) continue;
      window_.push_front({{.from = regs.ip, .to = after.ip, .info = MakeInfo(decode::KindOf(flow))}});
      if (window_.size() > kDepth) window_.pop_back();
    }
  }

  static uint64_t CallOf(const ptrace::Regs& regs) {
#ifdef __aarch64__
    return regs.gpr[8];
#else
    return regs.gpr[0];
#endif
  }

  void Judge(const char* where) {
    if (auto maps = ReadMaps(pid_); maps.ok()) {
      for (const Mapping& m : *maps) {
        map_.spaces().Mmap({.pid = pid_, .start = m.start, .length = m.end - m.start, .page_offset = m.offset, .path = m.path.empty() ? "//anon" : m.path, .build_id = "", .kernel = false, .executable = m.executable});
      }
    }
    map_.Enter(pid_, false, false);
    std::vector<BranchEntry> records(window_.begin(), window_.end());
    Result result;
    Check({.records = records, .contiguous = true, .calls_and_returns = true, .future = true, .point = std::nullopt}, map_, &result);
    std::printf("{\"at\":\"%s\",\"window\":%zu,\"checked\":%llu}\n", where, records.size(), static_cast<unsigned long long>(result.checked));
    for (const Violation& v : result.violations) {
      std::printf("{\"at\":\"%s\",\"policy\":\"%s\",\"severity\":\"%s\",\"reason\":\"%s\"}\n", where, std::string(PolicyName(v.policy)).c_str(), std::string(SeverityName(v.severity)).c_str(), v.reason.c_str());
    }
  }

  pid_t pid_ = 0;
  bool seen_new_ = false, started_ = false;
  ProcessMap map_{ProcessMapOptions{}};
  std::deque<BranchEntry> window_;  // newest first
};

}  // namespace
}  // namespace brink::cfi

int main(int argc, char** argv) { return argc < 2 ? 2 : brink::cfi::Stepper().Run(argv + 1); }
