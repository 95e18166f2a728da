// jit-PID.dump: code, names and line numbers that a JIT compiler wrote down (tools/perf/Documentation/jitdump-specification.txt).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::symbol {

struct JitLine {
  uint64_t address = 0;
  uint32_t line = 0;
  uint32_t file = 0;  // index in JitDump::files
};

struct JitCode {
  uint64_t time_ns = 0;  // on the clock of the recording (CLOCK_MONOTONIC unless the runtime chose the TSC)
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t index = 0;        // the runtime's own id of this code
  std::string name;
  uint64_t code_offset = 0;  // where the machine code stands in the dump; 0 = not there
  std::vector<JitLine> lines;
};

struct JitDump {
  uint32_t pid = 0;
  uint32_t machine = 0;  // EM_*
  std::vector<JitCode> codes;  // in file order, moves applied as new entries
  std::vector<std::string> files;
  uint64_t damaged = 0;  // records skipped
};

// Either byte order. Kept are at most 150,000 codes and a million lines, the first; the rest is damage. A record cut short at the end (the writer is still running) ends the list silently.
StatusOr<JitDump> ParseJitDump(std::string_view bytes);

}  // namespace brink::symbol
