// P6, P7 and P9: the code between records, direct branches, chains of short pieces.
#include "cfi/checker.h"

#include <algorithm>

#include <absl/strings/str_format.h>

namespace brink::cfi {
namespace {

using decode::Flow;

constexpr size_t kGadgetInstructions = 20, kGadgetRun = 8;
constexpr uint64_t kMaxStraight = 1u << 16;

}  // namespace

// P7
void Checker::Direct() {
  if (kind_ != Kind::kCond && kind_ != Kind::kJump && kind_ != Kind::kCall) return;
  if (!from_.place.facts || !insn_) return Unknown(Policy::kDirectTarget, from_.place.facts ? Reason::kNotDecoded : from_.place.memory == MemoryKind::kFile ? Reason::kNoFile : Reason::kNoMap);
  const bool direct = insn_->flow == Flow::kCond || insn_->flow == Flow::kJump || insn_->flow == Flow::kCall;
  if (direct && insn_->target - from_.place.address == entry_->to - entry_->from) return Held(Policy::kDirectTarget);
  Violated(Policy::kDirectTarget, Severity::kMedium, direct ? "the file's instruction goes elsewhere: the code was changed" : "the file has no direct branch there: the code was changed");
}

// Between two records something is missing or in disorder: which calls are open is not known any more.
void Checker::Torn(std::string reason) {
  Violated(Policy::kStraightLine, Severity::kLow, std::move(reason));
  stack_.clear();
  led_ = true;  // perhaps
  led_at_ = 0;
}

// P6
void Checker::Straight() {
  if (!window_.contiguous || !previous_) return;
  const uint64_t begin = previous_->to, end = entry_->from;
  Side at = SideOf(begin);
  if (!at.place.facts) return Unknown(Policy::kStraightLine, at.place.memory == MemoryKind::kFile ? Reason::kNoFile : Reason::kNoMap);
  if (end < begin || end - begin > kMaxStraight) return Torn("the branch lies before the target of the one before it: records are missing");
  uint64_t address = at.place.address;
  const uint64_t last = address + (end - begin);
  size_t instructions = 1;
  while (address < last) {
    auto insn = at.place.facts->InsnAt(address);
    if (!insn) return Unknown(Policy::kStraightLine, Reason::kNotDecoded);
    if (insn->flow != Flow::kNext && insn->flow != Flow::kCond && insn->flow != Flow::kSyscall) {
      return Torn(absl::StrFormat("an unconditional transfer at %#x lies between two records", begin + (address - at.place.address)));
    }
    address += insn->length;
    ++instructions;
  }
  if (address != last) return Torn("the branch is not on an instruction that follows the target before it");
  Held(Policy::kStraightLine);
  if (Indirect(kind_) && instructions <= kGadgetInstructions && Indirect(previous_kind_)) ++run_;
  else run_ = 0;
  result_.gadget_run = std::max(result_.gadget_run, run_);
  longest_ = std::max(longest_, run_);
  previous_kind_ = kind_;
}

// P9: score only.
void Checker::Gadgets() {
  if (longest_ < kGadgetRun || window_.records.empty()) return;
  entry_ = &window_.records[0];
  index_ = 0;
  Violated(Policy::kGadgets, Severity::kLow, absl::StrFormat("%d indirect transfers in a row with at most %d instructions between them", longest_, kGadgetInstructions));
}

}  // namespace brink::cfi
