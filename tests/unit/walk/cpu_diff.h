// Random instructions, run by the real CPU and by lifter and core on the same random state, and compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace brink::walk_test {

struct DiffOptions {
  uint64_t seed = 1;
  uint64_t cases = 100'000;  // comparisons to make
  enum class Family { kInteger, kVector, kString } family = Family::kInteger;
};

struct DiffResult {
  uint64_t cases = 0;        // compared whole
  uint64_t instructions = 0; // different encodings
  uint64_t stopped = 0;      // the walker stopped (unknown address, fault, ...): allowed, nothing compared
  uint64_t faulted = 0;      // both sides faulted
  uint64_t shortened = 0;    // the walker ended at a fault of what a mask leaves out: allowed
  uint64_t known = 0;        // of `cases`: inputs wholly known and no result unknown
  uint64_t wrong = 0;
  char first_wrong[2048] = {};
  // Mnemonics by number: cases, and cases with an unknown result although every input was known.
  uint32_t by_mnemonic[2048] = {};
  uint32_t vague[2048] = {};
};

// Runs in a child process. The result's text fields are filled on a difference.
DiffResult RunDiff(const DiffOptions& options);

}  // namespace brink::walk_test
