#include "snap/shared_maps.h"

#include <bpf/libbpf.h>

namespace brink::snap {
namespace {

constexpr const char* kSharedMaps[] = {"snap_groups", "snap_cpu_events", "snap_task_events", "snap_next"};

}  // namespace

Status SharedMaps::Reuse(bpf_object* object) {
  if (!first_) return OkStatus();
  for (const char* name : kSharedMaps) {
    bpf_map* theirs = bpf_object__find_map_by_name(object, name);
    bpf_map* ours = bpf_object__find_map_by_name(first_, name);
    if (!theirs || !ours) continue;
    int error = bpf_map__reuse_fd(theirs, bpf_map__fd(ours));
    if (error) return ErrnoError(-error, std::string("share the map ") + name);
  }
  return OkStatus();
}

void SharedMaps::Offer(bpf_object* object) {
  if (!first_) first_ = object;
}

int SharedMaps::groups_fd() const {
  bpf_map* map = first_ ? bpf_object__find_map_by_name(first_, "snap_groups") : nullptr;
  return map ? bpf_map__fd(map) : -1;
}

}  // namespace brink::snap
