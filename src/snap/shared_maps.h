// What the BPF objects of a session have in common.
#pragma once

#include <array>

#include "base/status.h"

struct bpf_map;
struct bpf_object;

namespace brink::snap {

// Maps that the objects of a session have in common, each by the object that had it first.
class SharedMaps {
 public:
  // Before load: gives `object` those of its maps that another object has.
  Status Reuse(bpf_object* object);
  // After load: `object` outlives the others' loads.
  void Offer(bpf_object* object);
  int groups_fd() const;

 private:
  static constexpr std::array kNames = {"snap_groups", "snap_cpu_events", "snap_task_events", "snap_next"};
  std::array<bpf_map*, kNames.size()> first_ = {};
};

}  // namespace brink::snap
