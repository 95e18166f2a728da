#include "cfi/policies.h"

#include <algorithm>

#include "cfi/checker.h"

namespace brink::cfi {
namespace {

bool Kernel(uint64_t address) { return address >> 63 && (address & ~uint64_t{0xfff}) != 0xffffffffff600000; }

}  // namespace

void Checker::Run() {
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

// The records since the thread executed another program, whose first instruction the kernel enters: what hardware
// recorded before is of code that is not mapped any more. A live window begins where the kernel says.
size_t Checker::OfThisImage() {
  if (window_.point) return window_.records.size();
  for (size_t i = 0; i < window_.records.size(); ++i) {
    const BranchEntry& entry = window_.records[i];
    if (!Kernel(entry.from) || Kernel(entry.to) || entry.to == 0) continue;
    const Place place = map_.At(entry.to);
    if (place.facts && place.address && place.facts->start() == place.address) return i + 1;
  }
  return window_.records.size();
}

void Checker::Record(size_t index) {
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

void Checker::KernelEdge() {
  if (!Kernel(entry_->to) && !led_) {
    led_ = true;
    led_at_ = stack_.size();
  }
  // Into a function's entry: a signal's handler, which returns by way of the restorer. Unless the thread was there
  // already: a page that was not in memory, an interrupt. Where no record is before it, that is not known.
  if (!Kernel(entry_->to) && reached_ && entry_->to != reached_) {
    Side to = SideOf(entry_->to);
    if (to.place.facts && to.place.facts->IsEntry(to.place.address) == Known::kYes) stack_.push_back({0, true});
  }
  previous_ = nullptr;
}

void Checker::Violated(Policy policy, Severity severity, std::string reason) {
  ++Counts(policy).violated;
  Answered(policy);
  result_.violations.push_back({policy, severity, index_, entry_->from, entry_->to, kind_, std::move(reason)});
}

Side Checker::SideOf(uint64_t address) {
  Side side{.place = map_.At(address)};
  if (side.place.facts) side.function = side.place.facts->Find(side.place.address);
  if (side.function) side.name = side.place.facts->NameOf(*side.function);
  return side;
}

std::optional<decode::Insn> Checker::InsnAt(const Side& side) {
  return side.place.facts ? side.place.facts->InsnAt(side.place.address) : std::nullopt;
}

void Check(const Window& window, CodeMap& map, Result* result) { Checker(window, map, result).Run(); }

}  // namespace brink::cfi
