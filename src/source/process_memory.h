// Reads the memory of another process while it lives, code only where it is executable file text or anonymous code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"

namespace brink {

// Opened for a short while and thrown away: a process may end or exec at any moment, then reads fail. Mappings are those
// at the time of opening. Device memory is never read: areas that are not plain files or anonymous memory are left out.
class ProcessMemory {
 public:
  ProcessMemory(const std::string& proc_root, uint32_t tgid);
  bool ok() const { return mem_.valid() && !executable_.empty(); }
  bool Executable(uint64_t address) const;
  // The whole range or nothing; only within areas that may be read.
  bool Read(uint64_t address, void* to, size_t size) const;

 private:
  struct Area {
    uint64_t start, end;
  };
  static bool Within(const std::vector<Area>& areas, uint64_t address, size_t size);

  UniqueFd mem_;
  std::vector<Area> executable_, readable_;  // sorted, disjoint
};

}  // namespace brink
