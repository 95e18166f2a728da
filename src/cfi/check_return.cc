// P1 and P2: where returns go.
#include "cfi/checker.h"

#include <algorithm>

#include <absl/strings/str_format.h>

namespace brink::cfi {
namespace {

using decode::Flow;

// The loop in which a retpoline keeps a wrong guess: `pause` or `lfence` behind the call that is never returned to.
bool Captures(std::span<const uint8_t> code) { return code.size() >= 3 && ((code[0] == 0xf3 && code[1] == 0x90) || (code[0] == 0x0f && code[1] == 0xae && code[2] == 0xe8)); }

}  // namespace

bool Checker::Restorer() { return to_.place.facts->IsRestorer(to_.place.address); }

// A live window says whether a signal can have led here: the hardware records the kernel's way to a handler, and no walk
// ahead goes through one. Where a call is open since the kernel led the thread anywhere, only a forged frame wants the
// restorer.
bool Checker::NoSignal() const {
  if (!window_.point || stack_.empty() || (led_ && stack_.size() >= led_at_)) return false;
  return std::none_of(stack_.begin(), stack_.end(), [](const Pending& p) { return p.handler; });
}

// The exception that a return's source or target stands for, if one.
std::optional<Exception> Checker::ReturnException(bool call_preceded) {
  if (to_.place.memory == MemoryKind::kUprobes) return Exception::kUprobe;
  const bool entry = to_.place.facts && to_.place.facts->IsEntry(to_.place.address) == Known::kYes;
  if (to_.place.facts && Restorer()) return NoSignal() ? std::nullopt : std::optional(Exception::kSignal);
  if (IsUnwinder(from_.name) && to_.place.facts && to_.place.facts->IsPad(to_.place.address) == Known::kYes) return Exception::kUnwinder;
  if (IsContext(from_.name) && (entry || call_preceded)) return Exception::kContext;
  if (IsResolver(from_.name) && entry) return Exception::kLazyBinding;
  if (IsThunk(from_.name) && entry) return Exception::kThunk;
  if (Go()) return Exception::kGo;
  return std::nullopt;
}

bool Checker::Captured(uint64_t site) {
  const Place place = map_.At(site);
  return place.facts && Captures(place.facts->Code(place.address, 3));
}

// P1 and P2
void Checker::Return() {
  if (!Askable(Policy::kReturnSite)) {
    // On arm64 that is the way out of a signal's handler, wherever the handler is; on x86-64 nothing returns there.
    const bool inside = from_.place.memory == MemoryKind::kVdso, x86 = from_.place.facts && from_.place.facts->machine() == decode::Machine::kX86;
    const bool leaves = to_.place.memory == MemoryKind::kVdso && !inside && !x86;
    // A call by code that is not decoded has no site to compare: it is answered by the next return, and not left open.
    const bool other = !stack_.empty() && (stack_.back().site || stack_.back().handler) && stack_.back().site != entry_->to;
    if (leaves) Unknown(Policy::kReturnMatch, Reason::kNoFile), Unwind(Exception::kSignal);
    else if (stack_.empty()) Unknown(Policy::kReturnMatch, Reason::kBelowWindow);
    else if (other && to_.place.memory == MemoryKind::kUnknown) Unknown(Policy::kReturnMatch, Reason::kNoMap);  // it may be such code too
    else if (other && to_.place.memory == MemoryKind::kJit) Excepted(Policy::kReturnMatch, Exception::kJit);  // code that pushes an address and jumps to a function (qemu's)
    else Match(false);
    return;
  }
  // A thunk's own call is never returned to: it put its return's target there instead.
  while (!stack_.empty() && stack_.back().site != entry_->to && stack_.back().site && Captured(stack_.back().site)) stack_.pop_back();
  const auto call = to_.place.facts->CallBefore(to_.place.address);
  const auto exception = ReturnException(call.has_value());
  if (call) Held(Policy::kReturnSite);
  else if (exception) Excepted(Policy::kReturnSite, *exception);
  else Violated(Policy::kReturnSite, Severity::kMedium, "no call instruction ends at the target, in " + Named(to_));
  if (exception && !(call && !stack_.empty() && stack_.back().site == entry_->to)) {
    Excepted(Policy::kReturnMatch, *exception);
    return Unwind(*exception);
  }
  if (!window_.calls_and_returns) return Unknown(Policy::kReturnMatch, Reason::kFiltered);
  if (stack_.empty()) return Frame(call);
  Match(call.has_value());
}

// A signal's return goes back to what was interrupted; the others leave no order behind.
void Checker::Unwind(Exception exception) {
  if (exception == Exception::kSignal) {
    left_ = true;
    while (!stack_.empty() && !stack_.back().handler) stack_.pop_back();
    if (!stack_.empty()) stack_.pop_back();
    return;
  }
  stack_.clear();
}

void Checker::Match(bool call_preceded) {
  if (!window_.calls_and_returns) return Unknown(Policy::kReturnMatch, Reason::kFiltered);
  const Pending top = stack_.back();
  if (top.site == entry_->to || (top.site == 0 && !top.handler)) {
    stack_.pop_back();
    led_ &= stack_.size() >= led_at_;
    return top.site ? Held(Policy::kReturnMatch) : Unknown(Policy::kReturnMatch, Reason::kNotDecoded);
  }
  ++mismatches_;
  const bool deeper = std::any_of(stack_.begin(), stack_.end(), [&](const Pending& p) { return p.site == entry_->to; });
  Violated(Policy::kReturnMatch, Severity::kMedium,
           deeper ? "the return skips frames: it goes to an outer call's site" : absl::StrFormat("the return goes %s, not to %#x behind the call that is open", call_preceded ? "behind another call" : "elsewhere", top.site));
  stack_.clear();
}

// Below the window's start: the function that holds the return's site must call the function that returns.
void Checker::Frame(const std::optional<decode::Insn>& call) {
  if (!call || call->flow != Flow::kCall || !from_.function || from_.place.module != to_.place.module) return Unknown(Policy::kReturnMatch, Reason::kBelowWindow);
  Facts& facts = *to_.place.facts;
  const Function* callee = facts.Find(call->target);
  if (!callee || facts.FindPlt(call->target)) return Unknown(Policy::kReturnMatch, Reason::kElsewhere);
  if (callee == from_.function) return Held(Policy::kReturnMatch);
  // A part of it, or another function that it ended in by a jump.
  const std::string_view name = facts.NameOf(*callee);
  // A thunk stands for a call or return through a register: of whom is not known.
  if (IsThunk(name) || IsThunk(from_.name)) return Unknown(Policy::kReturnMatch, Reason::kElsewhere);
  if ((!name.empty() && Whole(from_.name) == Whole(name)) || facts.TailJumps(*callee) != Known::kNo) return Unknown(Policy::kReturnMatch, Reason::kElsewhere);
  ++mismatches_;
  Violated(Policy::kReturnMatch, Severity::kMedium, absl::StrFormat("the call before the target is of %s, which never jumps to %s", name.empty() ? "another function" : std::string(name), Named(from_)));
}

void Checker::Push() {
  if (stack_.size() >= window_.records.size()) return;
  stack_.push_back({insn_ ? entry_->from + insn_->length : 0, false});
}

}  // namespace brink::cfi
