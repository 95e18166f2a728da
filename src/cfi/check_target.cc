// P3, P4, P5 and P8: where indirect branches go.
#include "cfi/checker.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <absl/strings/str_format.h>

namespace brink::cfi {
namespace {

bool IsLongjmp(std::string_view name) { return name.find("longjmp") != name.npos; }

// On A64: the guard is taken off x30, then off the stack pointer, and the code jumps through x30, which no compiler does.
bool IsJumpOfLongjmpA64(std::span<const uint8_t> code) {
  constexpr uint32_t kLink = 30, kNone = 32;
  bool link = false, moved = false, jumps = false;
  uint32_t stack = kNone;
  for (size_t i = 0; i + 4 <= code.size(); i += 4) {
    uint32_t word;
    std::memcpy(&word, &code[i], sizeof word);
    const uint32_t to = word & 31;
    if ((word & 0xffe0fc00) == 0xca000000 && to == kLink) link = true;  // eor x30, xN, xM
    else if ((word & 0xffe0fc00) == 0xca000000 && link) stack = to;
    else if ((word & 0xfffffc1f) == 0x9100001f && stack != kNone) moved |= (word >> 5 & 31) == stack;  // mov sp, xN
    jumps = word == 0xd61f03c0;  // the last one: br x30
  }
  return moved && jumps;
}

// longjmp's last part has no name in a stripped C library: it is known by the three registers (frame, stack, target)
// that it takes the pointer guard off, `xor %fs:0x30, REG`, before it jumps.
bool IsJumpOfLongjmp(const Side& side) {
  if (IsLongjmp(side.name)) return true;
  if (!side.name.empty() || !side.function) return false;
  constexpr size_t kReach = 256;
  const uint64_t start = std::max(side.function->start, side.place.address > kReach ? side.place.address - kReach : 0);
  if (side.place.facts->machine() == decode::Machine::kA64) return IsJumpOfLongjmpA64(side.place.facts->Code(start, side.place.address - start + 4));
  const auto code = side.place.facts->Code(start, side.place.address - start);
  int unguarded = 0;
  for (size_t i = 0; i + 9 <= code.size(); ++i) {
    unguarded += code[i] == 0x64 && (code[i + 1] & 0xfb) == 0x48 && code[i + 2] == 0x33 && (code[i + 3] & 0xc7) == 0x04 && code[i + 4] == 0x25 && code[i + 5] == 0x30 && !code[i + 6] && !code[i + 7] && !code[i + 8];
  }
  return unguarded >= 3;
}

}  // namespace

// P8
void Checker::Memory() {
  switch (to_.place.memory) {
    case MemoryKind::kFile: return Held(Policy::kMemory);
    case MemoryKind::kVdso: return Excepted(Policy::kMemory, Exception::kVdso);
    case MemoryKind::kJit: return Excepted(Policy::kMemory, Exception::kJit);
    case MemoryKind::kUprobes: return Excepted(Policy::kMemory, Exception::kUprobe);
    case MemoryKind::kAnonymous: return Violated(Policy::kMemory, Severity::kMedium, "the target is anonymous executable memory that nothing explains");
    case MemoryKind::kNotCode: return Fetched() ? Unknown(Policy::kMemory, Reason::kNoMap) : NotCode();
    // The BPF program could not execute there. That it could not look (another thread was changing the mappings) looks the
    // same, so it counts only here, where no mapping is known that would permit it.
    case MemoryKind::kUnknown: return index_ == 0 && window_.point && window_.point->not_code ? NotCode() : Unknown(Policy::kMemory, Reason::kNoMap);
  }
}

// A walk ahead has read code at every target but its newest, by the kernel's own mappings, and says where it was denied.
// That no mapping is known here then means that nobody has told of it: what tells of mappings can be lost, and that it was
// is told later.
bool Checker::Fetched() const { return window_.point && window_.future && !(index_ == 0 && window_.point->not_code); }

void Checker::NotCode() {
  // Go's scheduler jumps to what it reads of a goroutine, which another thread may be taking at the same time: a walk ahead
  // reads it too early.
  if (Go() && window_.point && window_.future) return Excepted(Policy::kMemory, Exception::kGo);
  Violated(Policy::kMemory, Severity::kHigh, entry_->to < 0x1000 ? "the target is the zero page" : "the target is no executable mapping: stack, heap or nothing");
}

// What keeps P1, P3, P4 and P5 from being asked; counted once for `policy`.
bool Checker::Askable(Policy policy) {
  if (to_.place.facts) return true;
  const bool code = to_.place.memory == MemoryKind::kFile || to_.place.memory == MemoryKind::kVdso;
  if (to_.place.memory == MemoryKind::kJit) Excepted(policy, Exception::kJit);
  else if (to_.place.memory == MemoryKind::kUprobes) Excepted(policy, Exception::kUprobe);
  else Unknown(policy, code ? Reason::kNoFile : Reason::kNoMap);
  return false;
}

// P5
void Checker::Boundary() {
  if (!Askable(Policy::kBoundary)) return;
  switch (to_.place.facts->IsBoundary(to_.place.address)) {
    case Known::kYes: return Held(Policy::kBoundary);
    case Known::kUnknown: return Unknown(Policy::kBoundary, to_.function ? Reason::kNotDecoded : Reason::kNoFunction);
    case Known::kNo: return Violated(Policy::kBoundary, Severity::kHigh, "the target is in the middle of an instruction of " + Named(to_));
  }
}

// P3
void Checker::CallTarget() {
  if (!Askable(Policy::kCallTarget)) return;
  Facts& facts = *to_.place.facts;
  const Known entry = facts.IsEntry(to_.place.address);
  if (entry == Known::kUnknown) return Unknown(Policy::kCallTarget, Reason::kNoFunction);
  if (entry == Known::kNo) {
    if (Go()) return Excepted(Policy::kCallTarget, Exception::kGo);
    return Violated(Policy::kCallTarget, Severity::kMedium, "the indirect call goes into the middle of " + Named(to_));
  }
  if (facts.ibt() && !facts.FindPlt(to_.place.address) && facts.HasEndbr(to_.place.address) == Known::kNo && facts.IsTaken(to_.place.address) == Known::kNo) {
    return Violated(Policy::kCallTarget, Severity::kMedium, Named(to_) + " begins without a landing pad although its file has them for indirect targets");
  }
  if (facts.IsTaken(to_.place.address) == Known::kNo) return Violated(Policy::kCallTarget, Severity::kLow, "no pointer to " + Named(to_) + " is in its file");
  Held(Policy::kCallTarget);
}

// P4
void Checker::JumpTarget() {
  const bool longjmp = IsJumpOfLongjmp(from_), elsewhere = longjmp || IsUnwinder(from_.name) || IsContext(from_.name);
  if (!Askable(Policy::kJumpTarget)) return;
  Facts& facts = *to_.place.facts;
  if (from_.place.facts) {
    if (const PltSlot* slot = from_.place.facts->FindPlt(from_.place.address); slot && !slot->name.empty()) return PltJump(*slot);
  }
  if (from_.function && from_.place.module == to_.place.module && from_.function == to_.function) return Held(Policy::kJumpTarget);
  if (IsUnwinder(from_.name) && facts.IsPad(to_.place.address) != Known::kNo) return stack_.clear(), Excepted(Policy::kJumpTarget, Exception::kUnwinder);
  const bool call_preceded = elsewhere && facts.CallBefore(to_.place.address).has_value();
  if (longjmp && call_preceded) return stack_.clear(), Excepted(Policy::kJumpTarget, Exception::kLongjmp);
  if (longjmp && from_.place.module != to_.place.module) return stack_.clear(), Violated(Policy::kJumpTarget, Severity::kMedium, "the jump buffer leads behind no call, into " + Named(to_));
  const Known entry = facts.IsEntry(to_.place.address);
  if (IsContext(from_.name) && (call_preceded || entry == Known::kYes)) return stack_.clear(), Excepted(Policy::kJumpTarget, Exception::kContext);
  if (IsResolver(from_.name) && entry == Known::kYes) return Excepted(Policy::kJumpTarget, Exception::kLazyBinding);
  if (entry == Known::kYes) {
    // A tail call through a pointer, which must be somewhere.
    if (facts.IsTaken(to_.place.address) != Known::kNo) return Held(Policy::kJumpTarget);
    return Violated(Policy::kJumpTarget, Severity::kLow, "no pointer to " + Named(to_) + " is in its file");
  }
  if (entry == Known::kUnknown || !from_.function) return Unknown(Policy::kJumpTarget, Reason::kNoFunction);
  if (Go()) return stack_.clear(), Excepted(Policy::kJumpTarget, Exception::kGo);
  // Parts of one function: NAME and NAME.cold.
  if (!from_.name.empty() && Whole(from_.name) == Whole(to_.name)) return Held(Policy::kJumpTarget);
  Violated(Policy::kJumpTarget, Severity::kMedium, absl::StrFormat("the jump leaves %s for the middle of %s", Named(from_), Named(to_)));
}

void Checker::PltJump(const PltSlot& slot) {
  if (to_.place.loader && (IsResolver(to_.name) || to_.name.empty())) return Excepted(Policy::kJumpTarget, Exception::kLazyBinding);
  if (to_.place.module == from_.place.module && (to_.place.facts->FindPlt(to_.place.address) || to_.place.facts->IsPltHead(to_.place.address))) {
    return Excepted(Policy::kJumpTarget, Exception::kLazyBinding);
  }
  // A program that is not position-independent has one address for a function of a library: its own slot for it.
  const PltSlot* theirs = to_.place.facts->FindPlt(to_.place.address);
  if (theirs && theirs->name == slot.name) return Held(Policy::kJumpTarget);
  switch (to_.place.facts->Defines(slot.name, to_.place.address)) {
    case Known::kYes: return Held(Policy::kJumpTarget);
    case Known::kUnknown: return Unknown(Policy::kJumpTarget, Reason::kElsewhere);
    case Known::kNo: return Violated(Policy::kJumpTarget, Severity::kMedium, absl::StrFormat("the slot of %s leads to %s", slot.name, Named(to_)));
  }
}

}  // namespace brink::cfi
