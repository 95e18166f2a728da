// Paths to late wake-ups: stacks (or branches) of what had the CPU, folded, and compared with those of ordinary ones. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "latency/blame.h"

namespace brink::latency {

// "comm;outer;inner" of what had the CPU: from the branches where there are some, else from the stacks. "" where neither
// is known.
std::string PathOf(const SpikeReport& report);

// "cause;subject;path N": equal ones counted, most frequent first.
std::vector<std::string> FoldPaths(const std::vector<SpikeReport>& reports);

// How often each path came, under late wake-ups and under ordinary ones.
struct PathRow {
  std::string path;
  uint64_t late = 0, normal = 0;
};
struct PathDiff {
  uint64_t late = 0, normal = 0;  // wake-ups whose path is known
  std::vector<PathRow> rows;      // by the difference of the shares: what is typical of late ones first
  double LateShare(const PathRow& row) const { return late ? static_cast<double>(row.late) / static_cast<double>(late) : 0; }
  double NormalShare(const PathRow& row) const { return normal ? static_cast<double>(row.normal) / static_cast<double>(normal) : 0; }
};
// Of ordinary wake-ups only the counts by path are kept.
PathDiff DiffPaths(const std::vector<SpikeReport>& late, const std::map<std::string, uint64_t>& normal);

// "path N M" lines, ordinary before late, as difffolded.pl of the flame graph tools writes them.
std::string FoldedDiff(const PathDiff& diff);

}  // namespace brink::latency
