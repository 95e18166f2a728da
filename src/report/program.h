// An aggregate with its names: what tables, annotation and the HTML page are made from.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/aggregate.h"
#include "report/disasm.h"
#include "report/flame.h"
#include "report/loops.h"
#include "report/paths.h"
#include "symbol/symbolizer.h"

namespace brink::report {

using symbol::FunctionId;

// What the recording says about itself.
struct RecordingFacts {
  std::string path;
  std::vector<std::string> events;
  std::string hostname, os_release, command;
  uint64_t lost_records = 0, lost_samples = 0;
  uint64_t problem_count = 0;        // damage found while reading
  std::vector<std::string> problems; // one line each
  uint64_t first_time = 0, last_time = 0;
  bool branch_stacks = false;        // any event has the field
  double filtered_samples = 0;       // dropped by the report's own filters
  uint64_t cpu_ns = 0;               // time on CPU that the samples of clock events stand for; 0: no such event
  uint64_t most_frequent = 0;        // samples a second asked for, of the fastest event; 0 unknown
  std::vector<std::string> filter_lines;  // what --where and --brbe-model kept, one line each
};

// Samples of one cgroup.
struct GroupCount {
  uint64_t samples = 0, branches = 0;
};

struct Program {
  symbol::ObjectTable objects;
  symbol::AddressSpaces spaces{&objects};
  std::map<uint64_t, std::string> cgroups;  // id -> path, as far as the recording tells
  std::map<uint64_t, GroupCount> group_counts;  // by id; 0: samples that carry none
  std::unique_ptr<symbol::Symbolizer> symbolizer;
  RecordingFacts facts;
  Aggregate aggregate;
  std::vector<LoopStat> loops;
  std::vector<PathStat> paths;
  uint64_t path_windows = 0, paths_dropped = 0;
  std::vector<FlameNode> flame;  // empty: not asked for

  FunctionId FunctionAt(const Location& location) { return symbolizer->FunctionAt(location); }
  // "main+0x1c", "[libc.so.6]+0x2a4f0" when unresolved.
  std::string NameAt(const Location& location);
  std::string ObjectName(const Location& location) const { return objects[location.object].ShortName(); }
  // Kinds that the recording lacks, from the code where it can be found.
  void FillKinds();
  // Kind of the branch at `from`, whose target is or is not in the kernel; unknown where there is no code.
  Kind KindAt(const Location& from, bool to_kernel);
};

}  // namespace brink::report
