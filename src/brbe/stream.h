// Any source's branch stacks through the model: what a BRBE would have recorded, as Linux would have delivered it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"
#include "brbe/linux.h"
#include "brbe/model.h"

namespace brink::brbe {

struct StreamOptions {
  ModelConfig config;
  uint64_t brbfcr = 0x7E0000;
  uint64_t brbcr_el1 = 0xC0013B;
  uint64_t brbcr_el2 = 0x18;  // CC and MPRED need both copies
  bool vhe = false;           // kernel branches are EL2's, EL0 belongs to EL2 (TGE)
  bool quirks = true;
};

// "numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B[,brbcr_el2=0x18][,vhe][,v1p1][,noel2][,quirks=off]". With `vhe` brbcr is the
// EL2 register and the EL1 copy is the same with its enables cleared, as Linux writes it.
StatusOr<StreamOptions> ParseStreamOptions(std::string_view text);

// Whether every branch of user and kernel would be recorded: all six kinds, both levels, exceptions and returns.
bool RecordsEverything(const StreamOptions& options);

struct StreamCounters {
  uint64_t stacks = 0;
  uint64_t seen = 0;          // entries given
  uint64_t recorded = 0;      // entries delivered
  uint64_t unclassified = 0;  // of unknown kind: BRBE always knows, so they cannot be judged and are left out
  uint64_t not_branches = 0;  // transaction aborts, which BRBE does not record
};

// Applies the model to stacks, one buffer filling a stack: invalidated, fed oldest first, frozen, read.
class StreamModel {
 public:
  static StatusOr<StreamModel> Create(const StreamOptions& options);
  // Newest first in, newest first out. At most numrec entries.
  std::vector<BranchEntry> Apply(std::span<const BranchEntry> stack);
  const StreamCounters& counters() const { return counters_; }

 private:
  StreamModel(const StreamOptions& options, Model model) : options_(options), model_(std::move(model)) {}
  StreamOptions options_;
  Model model_;
  StreamCounters counters_;
};

std::string Describe(const StreamCounters& counters);

}  // namespace brink::brbe
