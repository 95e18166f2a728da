#include "stepper.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "base/check.h"
#include "disasm.h"

namespace brink::fidelity {
namespace {

using ptrace::TrapKind;

// Steps of one window; longer ones (rep strings of megabytes) are not judged.
constexpr uint32_t kMaxSteps = 400'000;

bool Same(const brink_branch& a, const brink_branch& b) {
  auto kind = [](const brink_branch& x) { return static_cast<const BranchEntry&>(x).kind(); };
  return a.from == b.from && a.to == b.to && kind(a) == kind(b);
}

}  // namespace

std::string Describe(const brink_branch& branch) {
  const auto& entry = static_cast<const BranchEntry&>(branch);
  return absl::StrFormat("%x -> %x %s", branch.from, branch.to, std::string(KindName(entry.kind())));
}

Stepper::What Stepper::Step(brink_branch* branch) {
  if (++steps_ > kMaxSteps) return What::kDisturbed;
  uint8_t bytes[decode::kMaxInsnBytes];
  size_t size = memory_.Read(regs_.ip, bytes, sizeof bytes);
  auto insn = decode::Decode({bytes, size}, regs_.ip);
  Note(regs_.ip);
  if (!insn || insn->flow == decode::Flow::kSyscall || insn->flow == decode::Flow::kOther) return What::kDisturbed;
  ptrace::Regs before = regs_;
  if (insn->exclusive && !insn->stores) {
    if (auto exclusive = ptrace::ScanExclusive(regs_.ip, memory_)) return StepExclusive(*exclusive, branch);
  }
  if (!StepOnce()) return What::kDisturbed;
  if (insn->pushes_flags) ptrace::HidePushedTrapFlag(tid_, regs_.sp());
  if (insn->flow == decode::Flow::kNext) {
    bool straight = regs_.ip == before.ip + insn->length || (insn->repeats && regs_.ip == before.ip);
    return straight ? What::kNoBranch : What::kDisturbed;
  }
  if (insn->flow == decode::Flow::kCond) {
    auto outcome = decode::Evaluate(*insn, before, memory_);
    BRINK_CHECK(outcome->next == regs_.ip);  // two decoders and one CPU: the condition table itself is tested here
    if (!outcome->branched) return What::kNoBranch;
  }
  *branch = {before.ip, regs_.ip, MakeInfo(decode::KindOf(insn->flow), Priv::kUser)};
  return What::kBranch;
}

// Nothing may stop the thread between the load and the store, or the program would not go the way that it goes alone.
Stepper::What Stepper::StepExclusive(const ptrace::Exclusive& exclusive, brink_branch* branch) {
  if (!ptrace::SetBreakpoints(tid_, exclusive.Ends())) return What::kDisturbed;
  const bool arrived = Go(PTRACE_CONT, TrapKind::kBreakpoint);
  if (!gone_) ptrace::ClearBreakpoint(tid_);
  if (!arrived || ticked_) return What::kDisturbed;
  if (regs_.ip == exclusive.end) return What::kNoBranch;
  for (const ptrace::Exclusive::Exit& exit : exclusive.exits) {
    if (exit.to != regs_.ip) continue;
    *branch = {exit.from, exit.to, MakeInfo(Kind::kCond, Priv::kUser)};
    return What::kBranch;
  }
  return What::kDisturbed;
}

std::string Stepper::Trail() {
  std::string out;
  for (uint64_t ip : trail_) absl::StrAppend(&out, "    ", DisassembleAt(ip, memory_), "\n");
  return out;
}

void Stepper::Note(uint64_t ip) {
  trail_.push_back(ip);
  if (trail_.size() > 60) trail_.pop_front();
}

bool Stepper::StepOnce() { return Go(PTRACE_SINGLESTEP, TrapKind::kStep); }

bool Stepper::Go(int request, TrapKind awaited) {
  ticked_ = false;
  while (true) {
    if (::ptrace(static_cast<__ptrace_request>(request), tid_, nullptr, nullptr) != 0) return false;
    int status = 0;
    if (::waitpid(tid_, &status, __WALL) != tid_ || !WIFSTOPPED(status)) {
      gone_ = true;
      return false;
    }
    int signal = WSTOPSIG(status);
    TrapKind kind = signal == SIGTRAP && status >> 16 == 0 ? ptrace::ClassifyTrap(tid_) : TrapKind::kForeign;
    if (kind == TrapKind::kTick || kind == TrapKind::kLateTick) {  // before the instruction
      ticked_ = true;
      continue;
    }
    if (kind == awaited || kind == TrapKind::kUnexplained) return ptrace::ReadRegs(tid_, &regs_);
    if (status >> 16 == 0) pending_signal_ = signal;
    return false;
  }
}

Verdict::Verdict(std::vector<brink_branch> branches, uint64_t end_ip, uint64_t start_ip)
    : branches_(std::move(branches)), end_ip_(end_ip) {
  Settle(start_ip);
}

void Verdict::See(Stepper::What what, const brink_branch& branch, uint64_t ip) {
  if (state_ != State::kOpen) return;
  if (what == Stepper::What::kDisturbed) {
    state_ = State::kDisturbed;
    return;
  }
  if (what == Stepper::What::kBranch) {
    if (at_ == branches_.size()) {
      state_ = State::kWrong;
      why_ = absl::StrFormat("after all %d branches the end %x was claimed, the CPU took %s\n", branches_.size(), end_ip_,
                             Describe(branch));
      return;
    }
    if (!Same(branch, branches_[at_])) {
      state_ = State::kWrong;
      why_ = absl::StrFormat("branch %d of %d: predicted %s, the CPU took %s\n", at_ + 1, branches_.size(),
                             Describe(branches_[at_]), Describe(branch));
      return;
    }
    ++at_;
  }
  Settle(ip);
}

// The straight line up to the end that was claimed belongs to the prediction.
void Verdict::Settle(uint64_t ip) {
  if (at_ == branches_.size() && ip == end_ip_) state_ = State::kTrue;
}

}  // namespace brink::fidelity
