// A software model of BRBE: the registers, the buffer and the rules by which branches enter it.
//
// The caller plays the processor: it reports each taken branch, exception and exception return, and accesses the
// registers. The model keeps no thread, no clock and no file. One object, one thread.
//
// Where the architecture leaves something open the model chooses, and says so here: a freeze event while already
// paused changes nothing; the injection registers read 0 after BRB INJ (UNKNOWN); record registers without a record
// behind them, and any with a reserved BANK, read 0; with both TS fields 0 the timestamp stays as it was.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "brbe/record.h"

namespace brink::brbe {

// What surrounds the buffer and does not change by itself.
struct ModelConfig {
  int numrec = 64;  // 8, 16, 32 or 64
  bool has_el2 = true;
  bool has_el3 = true;
  bool v1p1 = false;  // FEAT_BRBEv1p1
  bool tme = false;   // FEAT_TME
};

// Controls outside BRBE that its rules read.
struct ModelControls {
  bool tge = false;           // HCR_EL2.TGE
  bool secure = false;        // below EL3
  uint8_t sbrbe = 3;          // MDCR_EL3.SBRBE
  bool e3brec = false, e3brew = false;
  uint8_t hpmn = 31;          // MDCR_EL2.HPMN: counters below it freeze by the EL1 copy
};

// One taken transfer as the processor makes it.
struct BranchEvent {
  uint8_t type = kDirect;  // BRBINF.TYPE
  uint8_t source_el = 0;
  uint8_t target_el = 0;   // differs for exceptions and exception returns only
  bool mispredicted = false;
  bool transaction = false;
  uint64_t source = 0;
  uint64_t target = 0;
  // Cycles since the previous event, recorded or not; nullopt = not known.
  std::optional<uint32_t> cycles = 0;
};

class Model {
 public:
  // INVALID_ARGUMENT for a number of records that BRBIDR0_EL1 cannot hold.
  static StatusOr<Model> Create(const ModelConfig& config);

  ModelControls& controls() { return controls_; }

  // Registers. Reads give what hardware would: reserved bits are 0.
  uint64_t brbcr_el1() const { return brbcr_el1_; }
  uint64_t brbcr_el2() const { return brbcr_el2_; }
  uint64_t brbfcr() const { return brbfcr_; }
  uint64_t brbidr0() const { return 0x5000u | static_cast<uint64_t>(config_.numrec); }
  uint64_t brbts() const { return brbts_; }
  void WriteBrbcrEl1(uint64_t value);
  void WriteBrbcrEl2(uint64_t value);
  void WriteBrbfcr(uint64_t value);
  // BRBINF<n>, BRBSRC<n>, BRBTGT<n> as seen through BRBFCR_EL1.BANK; n is 0..31.
  Record ReadRecord(unsigned n) const;

  void InvalidateAll();                       // BRB IALL
  void Inject(const Record& record);          // the *INJ registers written, then BRB INJ
  void Branch(const BranchEvent& event);      // a branch, exception or exception return
  void Unobserved() { cycles_known_ = false; }  // a branch the caller cannot describe: the next count is not known
  void TransactionFailed(uint8_t el);         // FEAT_TME: sets LASTFAILED, outside prohibited regions
  // PMU counter `counter` overflowed; `time` is what each clock shows.
  struct Clocks {
    uint64_t virtual_time = 0, guest_physical = 0, physical = 0;
  };
  void CounterOverflow(unsigned counter, const Clocks& clocks);
  void PmuSnapshot(const Clocks& clocks);     // FEAT_PMUv3_SS

  // Whether a branch at this level is recorded now, kinds apart ("not in a prohibited region").
  bool Allowed(uint8_t el) const;
  // All records, newest first, whatever BANK is; numrec of them.
  std::vector<Record> Records() const;

 private:
  explicit Model(const ModelConfig& config);
  bool Matches(uint8_t type) const;
  bool BothCopies(uint64_t bit) const;
  void WriteBrbcr(uint64_t* copy, uint64_t value);
  void Store(Record record);
  void Freeze(const Clocks& clocks);
  void CountCycles(const BranchEvent& event);
  void StampCycles(Record& record);
  void PlainBranch(const BranchEvent& event);
  void DebugState(const BranchEvent& event);
  void Exception(const BranchEvent& event);
  void ExceptionReturn(const BranchEvent& event);
  void StoreHalves(const BranchEvent& event, bool source, bool target, bool mispredicted);

  ModelConfig config_;
  ModelControls controls_;
  uint64_t brbcr_el1_ = 0, brbcr_el2_ = 0, brbfcr_ = 0, brbts_ = 0;
  std::vector<Record> ring_;  // newest at head_
  size_t head_ = 0;
  uint64_t cycles_ = 0;          // since the last record
  bool cycles_known_ = false;    // false after a prohibited region, after IALL and where an event had none
};

}  // namespace brink::brbe
