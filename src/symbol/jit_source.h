// Code of one process that is in no file: found through its perf map and its jitdump, also from outside its container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "symbol/jitdump.h"
#include "symbol/perf_map.h"

namespace brink::symbol {

struct JitQuery {
  int32_t pid = -1;
  std::string map_dir = "/tmp";
  std::string proc = "/proc";  // "" = do not look at live processes
  std::string jitdump;         // path as the process mapped it, "" none
  size_t most_bytes = 64u << 20;   // read of a jitdump, its front; of a perf map a quarter of it, its end
};

struct JitLinePlace {
  std::string file;
  uint32_t line = 0;
};

struct JitCodes {
  std::vector<JitSymbol> symbols;  // sorted, disjoint; jitdump before perf map
  JitDump dump;
  std::string dump_bytes;          // for code
  uint16_t machine = 0;

  // Makes `symbols` of those of a perf map and of the dump's codes, which lose their names to them.
  void Place(std::vector<JitSymbol> map);
  const JitCode* CodeOf(uint64_t address) const;  // null: in no jitdump
  std::optional<JitLinePlace> LineAt(uint64_t address) const;
  StatusOr<std::string> CodeAt(uint64_t address, uint64_t size) const;
};

// Never fails: what cannot be found is absent. Looked for: /proc/PID/root + path with the process's own (innermost) pid,
// then the same names on this side. Of a process that runs, the files must belong to its user, to root or to us.
JitCodes ReadJitCodes(const JitQuery& query);

// The process's pid in its own pid namespace, from the NSpid line of /proc/PID/status; `pid` itself where unknown.
int32_t InnermostPid(const std::string& proc, int32_t pid);

}  // namespace brink::symbol
