// Makes a recording whose writer was killed complete again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace brink::perfdata {

struct RepairOptions {
  // Raw build id of a mapped file, "" when unknown: for recordings whose MMAP2 records carry none. May be empty.
  std::function<std::string(const std::string& path)> build_id_of;
};

struct RepairReport {
  bool changed = false;         // false: the recording was complete
  uint64_t records = 0;         // whole ones, compressed ones counted as one
  uint64_t samples = 0;
  uint64_t salvaged_bytes = 0;  // whole records behind the size that the header gave
  uint64_t dropped_bytes = 0;   // at the end, less than a record
  uint64_t build_ids = 0;
};

// Finds the last whole record, writes the data size and the feature sections that follow from the records (build ids,
// event names, branch stack, sample times, clock, compression) and cuts the rest off, in place. The host's name, CPU
// and command line cannot be known any more and stay out. A complete recording is left alone.
//
// Errors: FAILED_PRECONDITION while it is still being written, or for a recording of the other byte order; DATA_LOSS
// for a file that is no recording or holds no record.
StatusOr<RepairReport> RepairFile(const std::string& path, const RepairOptions& options = {});

}  // namespace brink::perfdata
