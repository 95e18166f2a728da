// The CPU's own way through one window of a stopped thread, instruction by instruction.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/branch.h"
#include "ptrace/exclusive.h"
#include "ptrace/tracee.h"

namespace brink::fidelity {

// "FROM -> TO KIND"
std::string Describe(const brink_branch& branch);

class Stepper {
 public:
  Stepper(pid_t tid, const ptrace::Regs& regs) : tid_(tid), regs_(regs), memory_(tid) {}

  enum class What {
    kBranch,
    kNoBranch,
    kDisturbed,  // a signal, a system call or the end of the thread: what follows is not the program's alone
  };
  // One instruction; `branch` is what it took.
  What Step(brink_branch* branch);

  uint64_t ip() const { return regs_.ip; }
  // A signal that came in between and is still to be delivered; 0 = none.
  int pending_signal() const { return pending_signal_; }
  bool gone() const { return gone_; }
  // The last instructions, one a line.
  std::string Trail();

 private:
  void Note(uint64_t ip);
  // Resumes until the next trap of ours: a step, or with PTRACE_CONT a breakpoint.
  bool StepOnce();
  bool Go(int request, ptrace::TrapKind awaited);
  What StepExclusive(const ptrace::Exclusive& exclusive, brink_branch* branch);

  pid_t tid_;
  ptrace::Regs regs_;
  ptrace::ProcessMemory memory_;
  std::deque<uint64_t> trail_;
  uint32_t steps_ = 0;
  int pending_signal_ = 0;
  bool gone_ = false;
  bool ticked_ = false;  // a clock event came during the last Go
};

// Holds what was predicted against what the CPU does, one instruction after the other.
class Verdict {
 public:
  enum class State { kOpen, kTrue, kWrong, kDisturbed };

  Verdict(std::vector<brink_branch> branches, uint64_t end_ip, uint64_t start_ip);
  // After each step: where the thread stands now, and the branch if one was taken.
  void See(Stepper::What what, const brink_branch& branch, uint64_t ip);
  State state() const { return state_; }
  // kWrong: which branch differs (from 0), and how.
  size_t at() const { return at_; }
  const std::string& why() const { return why_; }

 private:
  void Settle(uint64_t ip);

  std::vector<brink_branch> branches_;
  uint64_t end_ip_;
  size_t at_ = 0;
  State state_ = State::kOpen;
  std::string why_;
};

}  // namespace brink::fidelity
