// The texts that `cgroup`, `container` and `pod` of an expression compare with, by cgroup id.
//
// A container has several names and a test is true when one of them fits: label, name, id, short id; a pod NS/NAME, NAME
// and uid. A group that is no container has the empty name; a group that is not known has none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/node_hash_map.h>

#include "container/resolver.h"

namespace brink {

class CgroupNames {
 public:
  struct Names {
    std::vector<std::string_view> path, container, pod;  // empty: not known
  };

  // `live`: ids that nobody taught are looked up on this host. Of a recording only its own CGROUP records count: the
  // same number is another group after a restart.
  CgroupNames(ResolverOptions options, bool live) : resolver_(std::move(options)), live_(live) {}

  void Learn(uint64_t id, std::string_view path);
  // Valid until the next call of Learn or Of.
  const Names& Of(uint64_t id);
  // Groups of samples that had none or an unknown one.
  uint64_t unknown() const { return unknown_; }

 private:
  struct Entry {
    std::vector<std::string> texts;  // what the views point to
    Names names;
  };
  static void Fill(const ContainerInfo& info, Entry* entry);

  static constexpr size_t kMaxKept = 16384;
  ContainerResolver resolver_;
  bool live_;
  absl::flat_hash_map<uint64_t, std::string> taught_;
  absl::node_hash_map<uint64_t, Entry> entries_;
  Names none_;
  uint64_t unknown_ = 0;
};

}  // namespace brink
