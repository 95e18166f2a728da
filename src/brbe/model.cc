#include "brbe/model.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "brbe/registers.h"

namespace brink::brbe {
namespace {

uint64_t Writable(const char* name) { return FindRegister(name)->FieldMask(); }

}  // namespace

StatusOr<Model> Model::Create(const ModelConfig& config) {
  if (config.numrec != 8 && config.numrec != 16 && config.numrec != 32 && config.numrec != 64) {
    return InvalidArgument(absl::StrFormat("BRBIDR0_EL1.NUMREC is 8, 16, 32 or 64, not %d", config.numrec));
  }
  return Model(config);
}

Model::Model(const ModelConfig& config) : config_(config), ring_(static_cast<size_t>(config.numrec)) {}

// The first record after cycle counting comes on has no known count.
void Model::WriteBrbcr(uint64_t* copy, uint64_t value) {
  const bool before = BothCopies(kCrCc);
  *copy = value;
  if (!before && BothCopies(kCrCc)) cycles_known_ = false;
}

void Model::WriteBrbcrEl1(uint64_t value) {
  static const uint64_t mask = Writable("BRBCR_EL1");
  WriteBrbcr(&brbcr_el1_, value & mask);
}

void Model::WriteBrbcrEl2(uint64_t value) {
  static const uint64_t mask = Writable("BRBCR_EL2");
  WriteBrbcr(&brbcr_el2_, value & mask);
}

void Model::WriteBrbfcr(uint64_t value) {
  static const uint64_t mask = Writable("BRBFCR_EL1");
  // Nor has the first after a pause.
  if (brbfcr_ & ~value & kFcrPaused) cycles_known_ = false;
  brbfcr_ = value & (config_.tme ? mask : mask & ~kFcrLastFailed);
}

Record Model::ReadRecord(unsigned n) const {
  const unsigned bank = brbfcr_ >> kFcrBankShift & 3;
  const size_t index = n + 32 * bank;
  if (n >= 32 || bank > 1 || index >= ring_.size()) return {};
  return ring_[(head_ + index) % ring_.size()];
}

std::vector<Record> Model::Records() const {
  std::vector<Record> records;
  for (size_t i = 0; i < ring_.size(); ++i) records.push_back(ring_[(head_ + i) % ring_.size()]);
  return records;
}

void Model::InvalidateAll() {
  std::fill(ring_.begin(), ring_.end(), Record{});
  cycles_known_ = false;
}

void Model::Store(Record record) {
  head_ = (head_ + ring_.size() - 1) % ring_.size();
  ring_[head_] = record;
}

void Model::Inject(const Record& record) {
  Record clean = record;
  clean.reserved = 0;
  Store(clean);
}

bool Model::Allowed(uint8_t el) const {
  if (brbfcr_ & kFcrPaused) return false;
  if (el == 3) return config_.has_el3 && config_.v1p1 && controls_.e3brec != controls_.e3brew;
  if (config_.has_el3) {
    if (controls_.sbrbe == 0) return false;
    if (controls_.secure && controls_.sbrbe == 1) return false;
  }
  switch (el) {
    case 2: return config_.has_el2 && (brbcr_el2_ & kCrExBre);
    case 1: return brbcr_el1_ & kCrExBre;
    default: return config_.has_el2 && controls_.tge ? brbcr_el2_ & kCrE0Bre : brbcr_el1_ & kCrE0Bre;
  }
}

bool Model::Matches(uint8_t type) const {
  uint64_t bit = 0;
  switch (type) {
    case kDirect: bit = kFcrDirect; break;
    case kIndirect: bit = kFcrIndirect; break;
    case kDirectCall: bit = kFcrDirCall; break;
    case kIndirectCall: bit = kFcrIndCall; break;
    case kReturn: bit = kFcrRtn; break;
    case kConditional: bit = kFcrCondDir; break;
    default: return false;
  }
  const bool matches = brbfcr_ & bit, exclude = brbfcr_ & kFcrEnI;
  return matches != exclude;
}

bool Model::BothCopies(uint64_t bit) const { return (brbcr_el1_ & bit) && (!config_.has_el2 || (brbcr_el2_ & bit)); }

// The counter runs over branches that are not recorded; a region without recording, or an event of unknown length,
// makes what it shows worthless until the next record.
void Model::CountCycles(const BranchEvent& event) {
  if (!Allowed(event.source_el)) cycles_known_ = false;
  if (!event.cycles) {
    cycles_known_ = false;
  } else {
    cycles_ += *event.cycles;
  }
}

void Model::StampCycles(Record& record) {
  if (BothCopies(kCrCc) && cycles_known_) {
    record.cc = EncodeCc(cycles_);
  } else {
    record.ccu = true;
  }
  cycles_ = 0;
  cycles_known_ = BothCopies(kCrCc);
}

void Model::Branch(const BranchEvent& event) {
  CountCycles(event);
  if (event.type == kDebugHalt || event.type == kDebugExit) {
    DebugState(event);
  } else if (IsException(event.type)) {
    Exception(event);
  } else if (event.type == kExceptionReturn) {
    ExceptionReturn(event);
  } else {
    PlainBranch(event);
  }
  if (!Allowed(event.target_el) || event.type == kDebugHalt) cycles_known_ = false;
}

// Debug state is a prohibited region: entering leaves the source half, leaving it the target half.
void Model::DebugState(const BranchEvent& event) {
  const bool entering = event.type == kDebugHalt;
  if (!entering) cycles_known_ = false;
  StoreHalves(event, entering && Allowed(event.source_el), !entering && Allowed(event.target_el), false);
}

void Model::PlainBranch(const BranchEvent& event) {
  if (!Allowed(event.source_el) || !Matches(event.type)) return;
  StoreHalves(event, true, true, event.mispredicted);
}

void Model::Exception(const BranchEvent& event) {
  switch (event.target_el) {
    case 3:
      if (!config_.v1p1 || controls_.e3brec == controls_.e3brew) return;
      break;
    case 2:
      if (!(brbcr_el2_ & kCrException)) return;
      break;
    default:
      if (!(brbcr_el1_ & kCrException)) return;
  }
  StoreHalves(event, Allowed(event.source_el), Allowed(event.target_el), false);
}

void Model::ExceptionReturn(const BranchEvent& event) {
  switch (event.source_el) {
    case 3:
      if (!config_.v1p1 || controls_.e3brec == controls_.e3brew) return;
      break;
    case 2:
      if (!(brbcr_el2_ & kCrErtn)) return;
      break;
    default:
      if (!(brbcr_el1_ & kCrErtn)) return;
  }
  StoreHalves(event, Allowed(event.source_el), Allowed(event.target_el), event.mispredicted);
}

void Model::StoreHalves(const BranchEvent& event, bool source, bool target, bool mispredicted) {
  if (!source && !target) return;
  Record record;
  record.valid = static_cast<Valid>((source ? 2 : 0) | (target ? 1 : 0));
  record.type = event.type;
  if (source) record.source = event.source;
  if (target) {
    record.target = event.target;
    record.el = event.target_el;
  }
  record.mpred = source && mispredicted && BothCopies(kCrMpred);
  record.transaction = config_.tme && event.transaction;
  record.last_failed = config_.tme && (brbfcr_ & kFcrLastFailed);
  brbfcr_ &= ~kFcrLastFailed;
  StampCycles(record);
  Store(record);
}

void Model::TransactionFailed(uint8_t el) {
  if (config_.tme && Allowed(el)) brbfcr_ |= kFcrLastFailed;
}

void Model::Freeze(const Clocks& clocks) {
  if (brbfcr_ & kFcrPaused) return;
  brbfcr_ |= kFcrPaused;
  cycles_known_ = false;
  unsigned ts = config_.has_el2 ? brbcr_el2_ >> kCrTsShift & 3 : 0;
  if (ts == 0) ts = brbcr_el1_ >> kCrTsShift & 3;
  if (ts == 1) brbts_ = clocks.virtual_time;
  if (ts == 2) brbts_ = clocks.guest_physical;
  if (ts == 3) brbts_ = clocks.physical;
}

void Model::CounterOverflow(unsigned counter, const Clocks& clocks) {
  const bool el1 = !config_.has_el2 || counter < controls_.hpmn;
  if ((el1 ? brbcr_el1_ : brbcr_el2_) & kCrFzp) Freeze(clocks);
}

void Model::PmuSnapshot(const Clocks& clocks) {
  if (BothCopies(kCrFzpss)) Freeze(clocks);
}

}  // namespace brink::brbe
