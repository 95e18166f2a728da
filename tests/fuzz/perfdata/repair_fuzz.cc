// Any bytes as a recording to be repaired: it ends, and what it made complete is complete.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "perfdata/repair.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  char path[] = "/tmp/brink-fuzz-repair-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  close(fd);
  auto report = brink::perfdata::RepairFile(path);
  if (report.ok() && report->changed) {
    auto again = brink::perfdata::RepairFile(path);
    if (!again.ok() || again->changed) std::abort();
  }
  unlink(path);
  return 0;
}
