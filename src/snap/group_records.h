// Names of groups for a file: the kernel's records tell those of cgroup v2 only, and on other hosts containers differ in a v1 hierarchy.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace brink::snap {

class GroupRecords {
 public:
  static constexpr size_t kMost = 65536;
  // A PERF_RECORD_CGROUP as PerfRecordView has it, at the first sight of a group; empty later, and for those above kMost.
  std::vector<std::byte> AtFirstSight(uint64_t id, std::string_view path);

 private:
  std::unordered_set<uint64_t> seen_;
};

}  // namespace brink::snap
