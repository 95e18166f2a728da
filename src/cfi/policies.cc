#include "cfi/policies.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "cfi/baseline.h"

namespace brink::cfi {
namespace {

using decode::Flow;

constexpr size_t kGadgetInstructions = 20, kGadgetRun = 8;
constexpr uint64_t kMaxStraight = 1u << 16;
// mov $15,%rax; syscall
constexpr uint8_t kRestorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

bool Kernel(uint64_t address) { return address >> 63 && (address & ~uint64_t{0xfff}) != 0xffffffffff600000; }
bool Indirect(Kind kind) { return kind == Kind::kRet || kind == Kind::kIndCall || kind == Kind::kIndJump; }

bool OneOf(std::string_view name, std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), name) != names.end(); }
bool IsLongjmp(std::string_view name) { return name.find("longjmp") != name.npos; }
bool IsUnwinder(std::string_view name) { return name.starts_with("_Unwind_") || name.starts_with("_ULx86_64_") || OneOf(name, {"unw_resume", "__libunwind_Registers_x86_64_jumpto", "uw_install_context_1"}); }
bool IsContext(std::string_view name) {
  return OneOf(name, {"swapcontext", "setcontext", "__start_context", "__swapcontext", "__setcontext", "co_switch", "co_swap"}) || name.find("jump_fcontext") != name.npos ||
         name.find("make_fcontext") != name.npos || name.find("switch_context") != name.npos;
}
bool IsThunk(std::string_view name) { return name.starts_with("__x86_indirect_thunk") || name.starts_with("__x86_return_thunk") || name.starts_with("__llvm_retpoline"); }
bool IsResolver(std::string_view name) { return name.starts_with("_dl_runtime_resolve") || name.starts_with("_dl_runtime_profile") || name.starts_with("_dl_tlsdesc"); }

// The loop in which a retpoline keeps a wrong guess: `pause` or `lfence` behind the call that is never returned to.
bool Captures(std::span<const uint8_t> code) { return code.size() >= 3 && ((code[0] == 0xf3 && code[1] == 0x90) || (code[0] == 0x0f && code[1] == 0xae && code[2] == 0xe8)); }

// One side of a record with what is known there.
struct Side {
  Place place;
  const Function* function = nullptr;
  std::string_view name;
};

class Checker {
 public:
  Checker(const Window& window, CodeMap& map, Result* result) : window_(window), map_(map), result_(*result) {}

  void Run() {
    result_.violations.clear();
    result_.severity = Severity::kInfo;
    const size_t records = OfThisImage();
    result_.forgotten += window_.records.size() - records;
    for (size_t i = records; i-- > 0;) Record(i);
    Gadgets();
    if (window_.point) Point(*window_.point);
    if (mismatches_ >= 2) {
      for (Violation& v : result_.violations) {
        if (v.policy == Policy::kReturnMatch) v.severity = Severity::kHigh;
      }
    }
    for (const Violation& v : result_.violations) result_.severity = std::max(result_.severity, v.severity);
  }

 private:
  // The records since the thread executed another program, whose first instruction the kernel enters: what hardware
  // recorded before is of code that is not mapped any more. A live window begins where the kernel says.
  size_t OfThisImage() {
    if (window_.point) return window_.records.size();
    for (size_t i = 0; i < window_.records.size(); ++i) {
      const BranchEntry& entry = window_.records[i];
      if (!Kernel(entry.from) || Kernel(entry.to) || entry.to == 0) continue;
      const Place place = map_.At(entry.to);
      if (place.facts && place.address && place.facts->start() == place.address) return i + 1;
    }
    return window_.records.size();
  }

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
  void Violated(Policy policy, Severity severity, std::string reason) {
    ++Counts(policy).violated;
    Answered(policy);
    result_.violations.push_back({policy, severity, index_, entry_->from, entry_->to, kind_, std::move(reason)});
  }

  Side SideOf(uint64_t address) {
    Side side{.place = map_.At(address)};
    if (side.place.facts) side.function = side.place.facts->Find(side.place.address);
    if (side.function) side.name = side.place.facts->NameOf(*side.function);
    return side;
  }

  std::optional<decode::Insn> InsnAt(const Side& side) {
    if (!side.place.facts) return std::nullopt;
    auto code = side.place.facts->Code(side.place.address, decode::kMaxInsnBytes);
    return code.empty() ? std::nullopt : decode::Decode(code, side.place.address);
  }

  void Record(size_t index) {
    entry_ = &window_.records[index];
    index_ = index;
    if (entry_->from == 0 || (entry_->to == 0 && !window_.future)) {
      if (!entry_->from && !entry_->to) return;
      // Half a record: what was called or returned there is not known.
      stack_.clear();
      previous_ = nullptr;
      reached_ = 0;
      return;
    }
    if (Kernel(entry_->from) || Kernel(entry_->to)) return KernelEdge();
    reached_ = entry_->to;
    ++result_.edges;
    answered_ = target_answered_ = left_ = false;
    from_ = SideOf(entry_->from);
    to_ = SideOf(entry_->to);
    insn_ = InsnAt(from_);
    kind_ = entry_->kind();
    if (kind_ == Kind::kUnknown && insn_) kind_ = decode::KindOf(insn_->flow);
    Straight();
    Direct();
    if (Indirect(kind_)) {
      Memory();
      Boundary();
    }
    if (kind_ == Kind::kRet) Return();
    if (kind_ == Kind::kIndCall) CallTarget();
    if (kind_ == Kind::kIndJump) JumpTarget();
    if (kind_ == Kind::kCall || kind_ == Kind::kIndCall) Push();
    if (Indirect(kind_) && window_.point && window_.point->baseline) Learned(*window_.point);
    result_.checked += answered_;
    if (Indirect(kind_) && from_.place.facts && to_.place.facts && from_.place.facts->has_unwind() && to_.place.facts->has_unwind()) {
      ++result_.unwind_edges;
      result_.unwind_unknown += !target_answered_;
    }
    // A signal's return ends in the kernel.
    previous_ = left_ ? nullptr : entry_;
  }

  void KernelEdge() {
    // Into a function's entry: a signal's handler, which returns by way of the restorer. Unless the thread was there
    // already: a page that was not in memory, an interrupt.
    if (!Kernel(entry_->to) && entry_->to != reached_) {
      Side to = SideOf(entry_->to);
      if (to.place.facts && to.place.facts->IsEntry(to.place.address) == Known::kYes) stack_.push_back({0, true});
    }
    previous_ = nullptr;
  }

  // P8
  void Memory() {
    switch (to_.place.memory) {
      case MemoryKind::kFile: return Held(Policy::kMemory);
      case MemoryKind::kVdso: return Excepted(Policy::kMemory, Exception::kVdso);
      case MemoryKind::kJit: return Excepted(Policy::kMemory, Exception::kJit);
      case MemoryKind::kUprobes: return Excepted(Policy::kMemory, Exception::kUprobe);
      case MemoryKind::kAnonymous: return Violated(Policy::kMemory, Severity::kMedium, "the target is anonymous executable memory that nothing explains");
      case MemoryKind::kNotCode: return NotCode();
      // The BPF program could not execute there. That it could not look (another thread was changing the mappings) looks the
      // same, so it counts only here, where no mapping is known that would permit it.
      case MemoryKind::kUnknown: return index_ == 0 && window_.point && window_.point->not_code ? NotCode() : Unknown(Policy::kMemory, Reason::kNoMap);
    }
  }
  void NotCode() {
    Violated(Policy::kMemory, Severity::kHigh, entry_->to < 0x1000 ? "the target is the zero page" : "the target is no executable mapping: stack, heap or nothing");
  }

  // What keeps P1, P3, P4 and P5 from being asked; counted once for `policy`.
  bool Askable(Policy policy) {
    if (to_.place.facts) return true;
    const bool code = to_.place.memory == MemoryKind::kFile || to_.place.memory == MemoryKind::kVdso;
    if (to_.place.memory == MemoryKind::kJit) Excepted(policy, Exception::kJit);
    else if (to_.place.memory == MemoryKind::kUprobes) Excepted(policy, Exception::kUprobe);
    else Unknown(policy, code ? Reason::kNoFile : Reason::kNoMap);
    return false;
  }

  bool Go() const { return from_.place.facts && from_.place.facts->runtime() == Runtime::kGo; }

  // P5
  void Boundary() {
    if (!Askable(Policy::kBoundary)) return;
    switch (to_.place.facts->IsBoundary(to_.place.address)) {
      case Known::kYes: return Held(Policy::kBoundary);
      case Known::kUnknown: return Unknown(Policy::kBoundary, to_.function ? Reason::kNotDecoded : Reason::kNoFunction);
      case Known::kNo: return Violated(Policy::kBoundary, Severity::kHigh, "the target is in the middle of an instruction of " + Named(to_));
    }
  }

  static std::string Named(const Side& side) { return side.name.empty() ? std::string("a function without a name") : std::string(side.name); }

  bool Restorer() {
    auto code = to_.place.facts->Code(to_.place.address, sizeof kRestorer);
    return code.size() == sizeof kRestorer && std::memcmp(code.data(), kRestorer, sizeof kRestorer) == 0;
  }

  // The exception that a return's source or target stands for, if one.
  std::optional<Exception> ReturnException(bool call_preceded) {
    if (to_.place.memory == MemoryKind::kUprobes) return Exception::kUprobe;
    const bool entry = to_.place.facts && to_.place.facts->IsEntry(to_.place.address) == Known::kYes;
    if (to_.place.facts && Restorer()) return Exception::kSignal;
    if (IsUnwinder(from_.name) && to_.place.facts && to_.place.facts->IsPad(to_.place.address) == Known::kYes) return Exception::kUnwinder;
    if (IsContext(from_.name) && (entry || call_preceded)) return Exception::kContext;
    if (IsResolver(from_.name) && entry) return Exception::kLazyBinding;
    if (IsThunk(from_.name) && entry) return Exception::kThunk;
    if (Go()) return Exception::kGo;
    return std::nullopt;
  }

  bool Captured(uint64_t site) {
    const Place place = map_.At(site);
    return place.facts && Captures(place.facts->Code(place.address, 3));
  }

  // P1 and P2
  void Return() {
    if (!Askable(Policy::kReturnSite)) {
      if (stack_.empty()) Unknown(Policy::kReturnMatch, Reason::kBelowWindow);
      else if (to_.place.memory == MemoryKind::kJit && stack_.back().site != entry_->to) Excepted(Policy::kReturnMatch, Exception::kJit);  // code that pushes an address and jumps to a function (qemu's)
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
  void Unwind(Exception exception) {
    if (exception == Exception::kSignal) {
      left_ = true;
      while (!stack_.empty() && !stack_.back().handler) stack_.pop_back();
      if (!stack_.empty()) stack_.pop_back();
      return;
    }
    stack_.clear();
  }

  void Match(bool call_preceded) {
    if (!window_.calls_and_returns) return Unknown(Policy::kReturnMatch, Reason::kFiltered);
    const Pending top = stack_.back();
    if (top.site == entry_->to || (top.site == 0 && !top.handler)) {
      stack_.pop_back();
      return top.site ? Held(Policy::kReturnMatch) : Unknown(Policy::kReturnMatch, Reason::kNotDecoded);
    }
    ++mismatches_;
    const bool deeper = std::any_of(stack_.begin(), stack_.end(), [&](const Pending& p) { return p.site == entry_->to; });
    Violated(Policy::kReturnMatch, Severity::kMedium,
             deeper ? "the return skips frames: it goes to an outer call's site" : absl::StrFormat("the return goes %s, not to %#x behind the call that is open", call_preceded ? "behind another call" : "elsewhere", top.site));
    stack_.clear();
  }

  // Below the window's start: the function that holds the return's site must call the function that returns.
  void Frame(const std::optional<decode::Insn>& call) {
    if (!call || call->flow != Flow::kCall || !from_.function || from_.place.module != to_.place.module) return Unknown(Policy::kReturnMatch, Reason::kBelowWindow);
    Facts& facts = *to_.place.facts;
    const Function* callee = facts.Find(call->target);
    if (!callee || facts.FindPlt(call->target)) return Unknown(Policy::kReturnMatch, Reason::kElsewhere);
    if (callee == from_.function) return Held(Policy::kReturnMatch);
    // A part of it, or another function that it ended in by a jump.
    const std::string_view name = facts.NameOf(*callee);
    if ((!name.empty() && Whole(from_.name) == Whole(name)) || facts.TailJumps(*callee) != Known::kNo) return Unknown(Policy::kReturnMatch, Reason::kElsewhere);
    ++mismatches_;
    Violated(Policy::kReturnMatch, Severity::kMedium, absl::StrFormat("the call before the target is of %s, which never jumps to %s", name.empty() ? "another function" : std::string(name), Named(from_)));
  }

  void Push() {
    if (stack_.size() >= window_.records.size()) return;
    stack_.push_back({insn_ ? entry_->from + insn_->length : 0, false});
  }

  // P3
  void CallTarget() {
    if (!Askable(Policy::kCallTarget)) return;
    Facts& facts = *to_.place.facts;
    const Known entry = facts.IsEntry(to_.place.address);
    if (entry == Known::kUnknown) return Unknown(Policy::kCallTarget, Reason::kNoFunction);
    if (entry == Known::kNo) {
      if (Go()) return Excepted(Policy::kCallTarget, Exception::kGo);
      return Violated(Policy::kCallTarget, Severity::kMedium, "the indirect call goes into the middle of " + Named(to_));
    }
    if (facts.ibt() && !facts.FindPlt(to_.place.address) && facts.HasEndbr(to_.place.address) == Known::kNo && facts.IsTaken(to_.place.address) == Known::kNo) {
      return Violated(Policy::kCallTarget, Severity::kMedium, Named(to_) + " begins without endbr64 although its file has them for indirect targets");
    }
    if (facts.IsTaken(to_.place.address) == Known::kNo) return Violated(Policy::kCallTarget, Severity::kLow, "no pointer to " + Named(to_) + " is in its file");
    Held(Policy::kCallTarget);
  }

  // longjmp's last part has no name in a stripped C library: it is known by the three registers (frame, stack, target)
  // that it takes the pointer guard off, `xor %fs:0x30, REG`, before it jumps.
  static bool IsJumpOfLongjmp(const Side& side) {
    if (IsLongjmp(side.name)) return true;
    if (!side.name.empty() || !side.function) return false;
    constexpr size_t kReach = 256;
    const uint64_t start = std::max(side.function->start, side.place.address > kReach ? side.place.address - kReach : 0);
    const auto code = side.place.facts->Code(start, side.place.address - start);
    int unguarded = 0;
    for (size_t i = 0; i + 9 <= code.size(); ++i) {
      unguarded += code[i] == 0x64 && (code[i + 1] & 0xfb) == 0x48 && code[i + 2] == 0x33 && (code[i + 3] & 0xc7) == 0x04 && code[i + 4] == 0x25 && code[i + 5] == 0x30 && !code[i + 6] && !code[i + 7] && !code[i + 8];
    }
    return unguarded >= 3;
  }

  // The name of the function that NAME.cold, NAME.part.0 and the like are parts of.
  static std::string_view Whole(std::string_view name) { return name.substr(0, name.find('.', 1)); }

  // P4
  void JumpTarget() {
    const bool longjmp = IsJumpOfLongjmp(from_), elsewhere = longjmp || IsUnwinder(from_.name) || IsContext(from_.name);
    if (!Askable(Policy::kJumpTarget)) return;
    Facts& facts = *to_.place.facts;
    if (from_.place.facts) {
      if (const PltSlot* slot = from_.place.facts->FindPlt(from_.place.address)) return PltJump(*slot);
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

  void PltJump(const PltSlot& slot) {
    if (to_.place.loader && (IsResolver(to_.name) || to_.name.empty())) return Excepted(Policy::kJumpTarget, Exception::kLazyBinding);
    if (to_.place.module == from_.place.module && to_.place.facts->FindPlt(to_.place.address)) return Excepted(Policy::kJumpTarget, Exception::kLazyBinding);
    // A program that is not position-independent has one address for a function of a library: its own slot for it.
    const PltSlot* theirs = to_.place.facts->FindPlt(to_.place.address);
    if (theirs && theirs->name == slot.name) return Held(Policy::kJumpTarget);
    switch (to_.place.facts->Defines(slot.name, to_.place.address)) {
      case Known::kYes: return Held(Policy::kJumpTarget);
      case Known::kUnknown: return Unknown(Policy::kJumpTarget, Reason::kElsewhere);
      case Known::kNo: return Violated(Policy::kJumpTarget, Severity::kMedium, absl::StrFormat("the slot of %s leads to %s", slot.name, Named(to_)));
    }
  }

  // P7
  void Direct() {
    if (kind_ != Kind::kCond && kind_ != Kind::kJump && kind_ != Kind::kCall) return;
    if (!from_.place.facts || !insn_) return Unknown(Policy::kDirectTarget, from_.place.facts ? Reason::kNotDecoded : from_.place.memory == MemoryKind::kFile ? Reason::kNoFile : Reason::kNoMap);
    const bool direct = insn_->flow == Flow::kCond || insn_->flow == Flow::kJump || insn_->flow == Flow::kCall;
    if (direct && insn_->target - from_.place.address == entry_->to - entry_->from) return Held(Policy::kDirectTarget);
    Violated(Policy::kDirectTarget, Severity::kMedium, direct ? "the file's instruction goes elsewhere: the code was changed" : "the file has no direct branch there: the code was changed");
  }

  // P6
  void Straight() {
    if (!window_.contiguous || !previous_) return;
    const uint64_t begin = previous_->to, end = entry_->from;
    Side at = SideOf(begin);
    if (!at.place.facts) return Unknown(Policy::kStraightLine, at.place.memory == MemoryKind::kFile ? Reason::kNoFile : Reason::kNoMap);
    if (end < begin || end - begin > kMaxStraight) return Violated(Policy::kStraightLine, Severity::kLow, "the branch lies before the target of the one before it: records are missing");
    uint64_t address = at.place.address;
    const uint64_t last = address + (end - begin);
    size_t instructions = 1;
    while (address < last) {
      auto code = at.place.facts->Code(address, decode::kMaxInsnBytes);
      auto insn = code.empty() ? std::nullopt : decode::Decode(code, address);
      if (!insn) return Unknown(Policy::kStraightLine, Reason::kNotDecoded);
      if (insn->flow != Flow::kNext && insn->flow != Flow::kCond && insn->flow != Flow::kSyscall) {
        return Violated(Policy::kStraightLine, Severity::kLow, absl::StrFormat("an unconditional transfer at %#x lies between two records", begin + (address - at.place.address)));
      }
      address += insn->length;
      ++instructions;
    }
    if (address != last) return Violated(Policy::kStraightLine, Severity::kLow, "the branch is not on an instruction that follows the target before it");
    Held(Policy::kStraightLine);
    if (Indirect(kind_) && instructions <= kGadgetInstructions && Indirect(previous_kind_)) ++run_;
    else run_ = 0;
    result_.gadget_run = std::max(result_.gadget_run, run_);
    longest_ = std::max(longest_, run_);
    previous_kind_ = kind_;
  }

  // P9: score only.
  void Gadgets() {
    if (longest_ < kGadgetRun || window_.records.empty()) return;
    entry_ = &window_.records[0];
    index_ = 0;
    Violated(Policy::kGadgets, Severity::kLow, absl::StrFormat("%d indirect transfers in a row with at most %d instructions between them", longest_, kGadgetInstructions));
  }

  // P12: new edges of files that were learned.
  void Learned(const CheckPoint& point) {
    if (!from_.place.facts || !to_.place.facts) return Unknown(Policy::kLearned, Reason::kNoFile);
    const std::string &from = from_.place.facts->build_id(), &to = to_.place.facts->build_id();
    if (!point.baseline->Knows(from)) return Unknown(Policy::kLearned, Reason::kNotLearned);
    if (point.baseline->HasEdge(from, from_.place.address, to, to_.place.address)) return Held(Policy::kLearned);
    Violated(Policy::kLearned, point.sensitive ? Severity::kMedium : Severity::kInfo, absl::StrFormat("this edge from %s to %s was not seen while learning", Named(from_), Named(to_)));
  }

  // What is asked once a window: P10, P11, P13.
  void Point(const CheckPoint& point) {
    const BranchEntry here = {{.from = point.call_site, .to = point.call_site, .info = 0}};
    entry_ = window_.records.empty() ? &here : &window_.records.back();
    index_ = window_.records.empty() ? 0 : window_.records.size() - 1;
    kind_ = window_.records.empty() ? Kind::kSyscall : entry_->kind();
    switch (point.stack) {
      case StackPlace::kUnknown: Unknown(Policy::kStack, Reason::kNoMap); break;
      case StackPlace::kOwn: case StackPlace::kSignal: case StackPlace::kVisited: ++Counts(Policy::kStack).held; break;
      case StackPlace::kStrange: Violated(Policy::kStack, Severity::kInfo, "the stack pointer is where this thread has never been"); break;
      case StackPlace::kData: Pivoted(); break;
    }
    if (!point.code.empty()) Unchanged(point);
    if (point.call_site) CallSite(point);
    if (point.baseline && point.sensitive && point.call_site) Path(point);
  }

  // Alone a coroutine; with a broken edge the means of a chain.
  void Pivoted() {
    for (Violation& v : result_.violations) {
      if (v.severity == Severity::kMedium) v.severity = Severity::kHigh;
    }
    Violated(Policy::kStack, Severity::kLow, "the stack pointer is in the heap or in a file's data, where this thread has never been");
  }

  // P7, of the code ahead of the window: is it the file's? Breakpoints of debuggers and uprobes are.
  void Unchanged(const CheckPoint& point) {
    const Side end = SideOf(point.end);
    const auto file = end.place.facts ? end.place.facts->Code(end.place.address, point.code.size()) : std::span<const uint8_t>();
    size_t differ = 0;
    for (size_t i = 0; i < file.size(); ++i) differ += file[i] != point.code[i] && point.code[i] != 0xcc;
    if (!differ) return;
    made_ = {{.from = point.end, .to = point.end, .info = 0}};
    entry_ = &made_;
    kind_ = Kind::kUnknown;
    Violated(Policy::kDirectTarget, Severity::kMedium, "the code ahead is not the file's: " + Named(end) + " was changed");
  }

  // P11
  void CallSite(const CheckPoint& point) {
    const Side site = SideOf(point.call_site - 2);
    const auto code = site.place.facts ? site.place.facts->Code(site.place.address, 2) : std::span<const uint8_t>();
    made_ = {{.from = point.call_site - 2, .to = point.call_site, .info = 0}};
    entry_ = &made_;
    kind_ = Kind::kSyscall;
    switch (site.place.memory) {
      case MemoryKind::kUnknown: return Unknown(Policy::kCallSite, Reason::kNoMap);
      case MemoryKind::kVdso: return Excepted(Policy::kCallSite, Exception::kVdso);
      case MemoryKind::kJit: return Excepted(Policy::kCallSite, Exception::kJit);
      case MemoryKind::kUprobes: return Excepted(Policy::kCallSite, Exception::kUprobe);
      case MemoryKind::kAnonymous: return Violated(Policy::kCallSite, Severity::kMedium, "the system call is made by anonymous code that nothing explains");
      case MemoryKind::kNotCode: return Unknown(Policy::kCallSite, Reason::kNoMap);  // mapped and unmapped between
      case MemoryKind::kFile: break;
    }
    if (code.size() < 2) return Unknown(Policy::kCallSite, Reason::kNoFile);
    if (code[0] != 0x0f || code[1] != 0x05) return Unknown(Policy::kCallSite, Reason::kNotDecoded);  // int 0x80, sysenter
    if (site.place.facts->IsBoundary(site.place.address) == Known::kNo) {
      return Violated(Policy::kCallSite, Severity::kHigh, "the system call instruction lies in the middle of another instruction of " + Named(site));
    }
    ++Counts(Policy::kCallSite).held;
  }

  // P13: the first returns below the window's start, as they were learned for this call.
  void Path(const CheckPoint& point) {
    const Side site = SideOf(point.call_site);
    if (!site.place.facts || !point.baseline->Knows(site.place.facts->build_id())) return Unknown(Policy::kPath, Reason::kNotLearned);
    auto name = PathOf(window_, map_);
    if (!name) return Unknown(Policy::kPath, Reason::kBelowWindow);
    if (point.baseline->HasPath(point.call, *name)) return void(++Counts(Policy::kPath).held);
    Violated(Policy::kPath, Severity::kMedium, "this way back from the call was not seen while learning");
  }

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
  size_t index_ = 0;
  Side from_, to_;
  std::optional<decode::Insn> insn_;
  Kind kind_ = Kind::kUnknown, previous_kind_ = Kind::kUnknown;
  size_t run_ = 0, longest_ = 0, mismatches_ = 0;
  bool answered_ = false, target_answered_ = false, left_ = false;
};

}  // namespace

void Check(const Window& window, CodeMap& map, Result* result) { Checker(window, map, result).Run(); }

}  // namespace brink::cfi
