#include "ptrace/step_windows.h"

#include <sys/ptrace.h>

#include <utility>

namespace brink::ptrace {

using decode::Flow;

void Stepper::Look(Thread& thread) {
  uint8_t bytes[decode::kMaxInsnBytes];
  ProcessMemory memory(thread.tid);
  size_t size = memory.Read(thread.regs.ip, bytes, sizeof bytes);
  thread.insn = decode::Decode({bytes, size}, thread.regs.ip);
  thread.exclusive.reset();
  if (thread.insn && thread.insn->exclusive && !thread.insn->stores) thread.exclusive = ScanExclusive(thread.regs.ip, memory);
}

void Stepper::Go(Thread& thread, int signal) {
  thread.phase = Thread::Phase::kStep;
  if (signal) thread.exclusive.reset();  // a handler comes first
  if (thread.exclusive && SetBreakpoints(thread.tid, thread.exclusive->Ends())) {
    thread.breakpoint_set = true;
    return Resume(thread, PTRACE_CONT);
  }
  thread.exclusive.reset();
  Resume(thread, PTRACE_SINGLESTEP, signal);
}

void Stepper::Disarm(Thread& thread) {
  if (thread.breakpoint_set) ClearBreakpoint(thread.tid);
  thread.breakpoint_set = false;
}

bool Stepper::ArriveBehind(Thread& thread, const Exclusive& exclusive) {
  if (thread.regs.ip == exclusive.end) return true;
  for (const Exclusive::Exit& exit : exclusive.exits) {
    if (exit.to != thread.regs.ip) continue;
    recorder_->Add(&thread.window, exit.from, exit.to, Kind::kCond);
    return true;
  }
  return false;
}

bool Stepper::Arrive(Thread& thread) {
  const decode::CpuRegs before = thread.regs;
  recorder_->Count(kStops);
  ++thread.window.stops;
  if (!ReadRegs(thread.tid, &thread.regs)) return false;  // where it arrived is not known
  if (auto exclusive = std::exchange(thread.exclusive, std::nullopt)) return ArriveBehind(thread, *exclusive);
  if (!thread.insn) return thread.regs.ip - before.ip <= decode::kMaxInsnBytes;
  const decode::Insn& insn = *thread.insn;
  uint64_t next = before.ip + insn.length;
  if (insn.pushes_flags && !(before.flags & decode::kTrapFlag)) HidePushedTrapFlag(thread.tid, thread.regs.sp());
  if (insn.flow == Flow::kNext) {
    return thread.regs.ip == next || (insn.repeats && thread.regs.ip == before.ip);
  }
  if (insn.flow == Flow::kOther || insn.flow == Flow::kSyscall) return false;
  if (insn.flow == Flow::kCond) {
    ProcessMemory memory(thread.tid);
    auto outcome = decode::Evaluate(insn, before, memory);
    if (outcome->next != thread.regs.ip) {
      recorder_->Count(kDiffers);
      return false;
    }
    if (!outcome->branched) return true;
  }
  recorder_->Add(&thread.window, before.ip, thread.regs.ip, decode::KindOf(insn.flow));
  return true;
}

// Whether the span that was asked for is over. A return ends it when it has taken the entry's own return address off the
// stack.
bool StepWindows::SpanEnds(const Thread& thread) const {
  const FollowConfig& config = recorder_->config();
  if (config.until) return thread.regs.ip == config.until;
  if (!config.until_return || thread.window.branches.empty() || thread.regs.sp() <= thread.window.sp) return false;
  const BranchEntry last{thread.window.branches.back()};
  return last.to == thread.regs.ip && last.kind() == Kind::kRet;
}

void StepWindows::Advance(Thread& thread) {
  if (recorder_->Full(thread.window)) return Finish(thread, BRINK_STOP_FULL, thread.regs.ip);
  if (thread.window.stops > 0 && SpanEnds(thread)) return Finish(thread, BRINK_STOP_FULL, thread.regs.ip);
  if (thread.window.stops >= recorder_->config().max_stops) return Finish(thread, BRINK_STOP_BUDGET, thread.regs.ip);
  stepper_.Look(thread);
  if (!thread.insn) return Finish(thread, BRINK_STOP_FAULT, thread.regs.ip);
  if (thread.insn->flow == Flow::kSyscall) return Finish(thread, BRINK_STOP_SYSCALL, thread.regs.ip);
  if (thread.insn->flow == Flow::kOther) return Finish(thread, BRINK_STOP_UNSUPPORTED, thread.regs.ip);
  stepper_.Go(thread);
}

void StepWindows::OnTrap(Thread& thread, TrapKind kind) {
  stepper_.Disarm(thread);
  if (!Open(thread) || kind == TrapKind::kHandler) {
    Resume(thread, PTRACE_CONT);
    return;
  }
  uint64_t ip = thread.regs.ip;
  if (stepper_.Arrive(thread)) Advance(thread);
  else Finish(thread, BRINK_STOP_SIGNAL, ip);
}

// The tick came on top of the trap flag; the instruction has not run yet.
void StepWindows::OnBusyTick(Thread& thread) { stepper_.Go(thread); }

// PTRACE_CONT and PTRACE_DETACH take the trap flag off.
void StepWindows::Undo(Thread& thread) {
  stepper_.Disarm(thread);
  thread.phase = Thread::Phase::kFree;
}

}  // namespace brink::ptrace
