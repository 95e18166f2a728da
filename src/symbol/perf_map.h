// /tmp/perf-PID.map: "START SIZE name" lines in hexadecimal, written by JIT compilers while they run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brink::symbol {

struct JitSymbol {
  uint64_t start = 0;
  uint64_t size = 0;
  std::string name;
  uint32_t code = 0;  // 1 + index of a jitdump's code; 0: of no jitdump
};

struct PerfMap {
  std::vector<JitSymbol> symbols;  // sorted, disjoint: a later line wins over what it overlaps
  uint64_t damaged = 0;            // lines that made no sense
};

// Lines may be cut short at the end (the writer is still running). Names are kept up to 4 KiB, of lines the last 200,000.
PerfMap ParsePerfMap(std::string_view text);

// Makes `symbols`, given in the order in which code was written, sorted and disjoint: the last one wins.
std::vector<JitSymbol> LatestWins(std::vector<JitSymbol> symbols);

}  // namespace brink::symbol
