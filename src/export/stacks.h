// Distinct branch stacks (and, where asked, call chains) with counts, by Location: for formats made of whole stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "export/binary.h"
#include "export/text.h"
#include "report/program.h"

namespace brink::exporter {

// Why samples are not in a context-sensitive profile.
struct ChainCounts {
  uint64_t no_chain = 0;      // none was recorded, or its leaf is not the stack's end
  uint64_t broken = 0;        // calls and returns of the stack contradict the chain (longjmp, missing frames)
  uint64_t outside_leaf = 0;  // the end lies outside of the binary
  uint64_t far_leaf = 0;      // the end is 256 bytes or more behind the newest branch: an interrupt between
};

// Give it to LoadOptions::observe. A seam in a stack (a refused range) splits it in two, as its parts say nothing of the
// code between. With `chains` only the newest part is kept, and the chain is that of the stack's end: stacks that
// follow the sample (walk) replay their calls and returns on the chain of the sample.
class StackCollector : public report::StackObserver {
 public:
  StackCollector(report::Program* program, bool chains) : program_(*program), chains_(chains) {}
  void OnSample(const report::SampleView& sample) override;
  void OnStack(const report::SampleView& sample, const report::CleanStack& stack) override;

  // llvm-profgen --perfscript: link-time addresses without mappings, stacks with counts. `single`: every branch by
  // itself, for stacks that are not contiguous.
  OptimiserText Perfscript(const Binary& binary, bool single) const;
  // Hybrid form: a call chain before each stack. Needs `chains`.
  OptimiserText PerfscriptWithChains(const Binary& binary, ChainCounts* counts) const;

  const ChainCounts& counts() const { return counts_; }
  size_t distinct() const { return stacks_.size(); }

 private:
  using Branch = std::pair<Location, Location>;
  uint32_t BranchId(int32_t pid, const BranchEntry& entry);
  uint32_t PlaceId(int32_t pid, uint64_t address);
  void Count(std::vector<uint32_t>& words, size_t branches);
  // The chain of the stack's end: its addresses, leaf first. Empty when there is none.
  std::vector<uint64_t> ChainOf(const report::SampleView& sample, const report::CleanStack& stack);
  uint64_t Behind(int32_t pid, uint64_t call);

  report::Program& program_;
  const bool chains_;
  std::vector<Branch> branches_;
  std::vector<Location> places_;
  absl::flat_hash_map<Branch, uint32_t> branch_index_;
  absl::flat_hash_map<Location, uint32_t> place_index_;
  absl::flat_hash_map<Location, uint8_t> lengths_;  // of call instructions
  // Key: number of branches, their ids newest first, then ids of the chain's places.
  absl::flat_hash_map<std::u32string, uint64_t> stacks_;
  ChainCounts counts_;
};

// The user frames of a recorded chain, leaf first; kernel frames with `kernel`.
std::vector<uint64_t> FramesOf(std::span<const uint64_t> chain, bool kernel);

}  // namespace brink::exporter
