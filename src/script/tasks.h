// Names and mappings of the recorded threads at each moment of a recording, by perf's rules: so that text equals perf's.
//
// In particular perf keeps the mappings of a process over exec (new ones cut the old ones down) and the name of a
// thread after its exit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>

#include "perfdata/records.h"

namespace brink::script {

class Tasks {
 public:
  // `maps`: follow mappings, too.
  explicit Tasks(bool maps);

  // Takes COMM, FORK and MMAP records in; others do nothing.
  void Observe(const perfdata::Record& record);

  // ":TID" where the recording gives no name. Valid until the next Observe.
  std::string_view Comm(uint32_t tid);
  // The offset in the mapped file of a user address, as perf shows it in call chains; the address itself where nothing
  // is mapped.
  uint64_t FileOffset(uint32_t pid, uint64_t address) const;

 private:
  struct Mapping {
    uint64_t end = 0;
    uint64_t start = 0;  // of the whole mapping, which may have been cut
    uint64_t pgoff = 0;
    bool identity = false;  // anonymous memory: no file to be an offset in
  };
  using Mappings = absl::btree_map<uint64_t, Mapping>;  // by start of what is left

  void Map(const perfdata::Record& record, const perfdata::Mmap& mmap);
  void Fork(const perfdata::Record& record, const perfdata::Task& task);

  // More threads or processes than this come only from a file that means harm; above it they have no names.
  static constexpr size_t kMaxLive = 1 << 18;
  template <typename Map, typename Value>
  static void Set(Map& map, uint32_t key, Value value) {
    if (map.size() < kMaxLive || map.contains(key)) map[key] = std::move(value);
  }

  bool maps_;
  absl::flat_hash_map<uint32_t, std::string> comms_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Mappings>> mappings_;  // by pid; shared after a fork until changed
  std::string unknown_;
};

}  // namespace brink::script
