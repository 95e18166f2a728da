// Profiles as text that optimisers read: BOLT, llvm-profgen, AutoFDO. Pure: traces in, text out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "export/binary.h"
#include "export/traces.h"

namespace brink::exporter {

// What was written and what could not be: told to the user.
struct Written {
  uint64_t branches = 0;      // executions
  uint64_t ranges = 0;
  uint64_t elsewhere = 0;     // executions with neither end in the binary
  uint64_t no_address = 0;    // in the binary, but no segment holds the place
  uint64_t rows = 0;
};

// Which lines perf2bolt understands.
//   old     B, F and f: all versions up to LLVM 19, still read by later ones
//   new     T: one line for a branch with the straight code behind it
//   latest  T and R with mispredictions
enum class BoltDialect { kOld, kNew, kLatest };
StatusOr<BoltDialect> ParseBoltDialect(std::string_view text);

struct OptimiserText {
  std::string text;
  Written written;
};

OptimiserText BoltText(std::span<const Trace> traces, const Binary& binary, BoltDialect dialect);
// llvm-profgen --unsymbolized-profile, flat.
OptimiserText UnsymbolizedText(std::span<const Trace> traces, const Binary& binary);
// create_llvm_prof and create_gcov, --profiler=text: file offsets. `ips`: sample addresses.
OptimiserText AutofdoText(std::span<const Trace> traces, std::span<const std::pair<Location, uint64_t>> ips, const Binary& binary);

// The address from which llvm-profgen counts: the page of the first executable segment.
uint64_t ProfgenBase(const elf::File& file);

}  // namespace brink::exporter
