// The judgement of one window, for the sources that hold its rules (check_*.cc); callers use policies.h.
//
// A checker lives for one window on one thread. Records are taken oldest first; each rule gives exactly one answer (held,
// violated, excepted or unknown) to each record that it is asked about.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cfi/policies.h"

namespace brink::cfi {

// One side of a record with what is known there.
struct Side {
  Place place;
  const Function* function = nullptr;
  std::string_view name;
};

inline bool Indirect(Kind kind) { return kind == Kind::kRet || kind == Kind::kIndCall || kind == Kind::kIndJump; }
inline bool OneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view other : names) {
    if (other == name) return true;
  }
  return false;
}

// Functions whose transfers are legal although they look like no call's or return's.
inline bool IsUnwinder(std::string_view name) {
  return name.starts_with("_Unwind_") || name.starts_with("_ULx86_64_") || name.starts_with("_ULaarch64_") ||
         OneOf(name, {"unw_resume", "__libunwind_Registers_x86_64_jumpto", "__libunwind_Registers_arm64_jumpto", "uw_install_context_1"});
}
inline bool IsContext(std::string_view name) {
  return OneOf(name, {"swapcontext", "setcontext", "__start_context", "__swapcontext", "__setcontext", "co_switch", "co_swap"}) || name.find("jump_fcontext") != name.npos ||
         name.find("make_fcontext") != name.npos || name.find("switch_context") != name.npos;
}
inline bool IsThunk(std::string_view name) { return name.starts_with("__x86_indirect_thunk") || name.starts_with("__x86_return_thunk") || name.starts_with("__llvm_retpoline"); }
inline bool IsResolver(std::string_view name) { return name.starts_with("_dl_runtime_resolve") || name.starts_with("_dl_runtime_profile") || name.starts_with("_dl_tlsdesc"); }
// The name of the function that NAME.cold, NAME.part.0 and the like are parts of.
inline std::string_view Whole(std::string_view name) { return name.substr(0, name.find('.', 1)); }
inline std::string Named(const Side& side) { return side.name.empty() ? std::string("a function without a name") : std::string(side.name); }

class Checker {
 public:
  Checker(const Window& window, CodeMap& map, Result* result) : window_(window), map_(map), result_(*result) {}
  void Run();

 private:
  // policies.cc: the way through the window
  size_t OfThisImage();
  void Record(size_t index);
  void KernelEdge();
  void Violated(Policy policy, Severity severity, std::string reason);
  Side SideOf(uint64_t address);
  std::optional<decode::Insn> InsnAt(const Side& side);

  // check_return.cc
  bool Restorer();
  bool NoSignal() const;
  std::optional<Exception> ReturnException(bool call_preceded);
  bool Captured(uint64_t site);
  void Return();
  void Unwind(Exception exception);
  void Match(bool call_preceded);
  void Frame(const std::optional<decode::Insn>& call);
  void Push();

  // check_target.cc
  void Memory();
  bool Fetched() const;
  void NotCode();
  bool Askable(Policy policy);
  void Boundary();
  void CallTarget();
  void JumpTarget();
  void PltJump(const PltSlot& slot);

  // check_line.cc
  void Direct();
  void Straight();
  void Torn(std::string reason);
  void Gadgets();

  // check_point.cc
  void Learned(const CheckPoint& point);
  void Point(const CheckPoint& point);
  void Pivoted();
  void Unchanged(const CheckPoint& point);
  void CallSite(const CheckPoint& point);
  void Path(const CheckPoint& point);

  PolicyCounts& Counts(Policy policy) { return result_.policies[static_cast<size_t>(policy)]; }
  void Answered(Policy policy) {
    answered_ = true;
    target_answered_ |= policy <= Policy::kBoundary;
  }
  void Held(Policy policy) {
    ++Counts(policy).held;
    Answered(policy);
  }
  void Unknown(Policy policy, Reason reason) { ++Counts(policy).unknown[static_cast<size_t>(reason)]; }
  void Excepted(Policy policy, Exception exception) {
    ++Counts(policy).excepted;
    ++result_.exceptions[static_cast<size_t>(exception)];
    Answered(policy);
  }
  bool Go() const { return from_.place.facts && from_.place.facts->runtime() == Runtime::kGo; }

  struct Pending {
    uint64_t site;         // where the call returns to; 0: not known
    bool handler = false;  // entry of a signal's handler
  };

  const Window& window_;
  CodeMap& map_;
  Result& result_;
  std::vector<Pending> stack_;
  const BranchEntry* entry_ = nullptr;
  BranchEntry made_ = {};  // where a rule speaks of no record of the window; later rules may still name it
  const BranchEntry* previous_ = nullptr;  // of user code, with nothing between
  uint64_t reached_ = 0;                   // where the last record of user code led
  bool led_ = false;                       // the kernel has led the thread somewhere when `led_at_` calls were open, which are open still
  size_t led_at_ = 0;
  size_t index_ = 0;
  Side from_, to_;
  std::optional<decode::Insn> insn_;
  Kind kind_ = Kind::kUnknown, previous_kind_ = Kind::kUnknown;
  size_t run_ = 0, longest_ = 0, mismatches_ = 0;
  bool answered_ = false, target_answered_ = false, left_ = false;
};

}  // namespace brink::cfi
