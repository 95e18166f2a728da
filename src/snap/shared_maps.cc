#include "snap/shared_maps.h"

#include <bpf/libbpf.h>

#include <string>

namespace brink::snap {

Status SharedMaps::Reuse(bpf_object* object) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    bpf_map* theirs = bpf_object__find_map_by_name(object, kNames[i]);
    if (!theirs || !first_[i]) continue;
    int error = bpf_map__reuse_fd(theirs, bpf_map__fd(first_[i]));
    if (error) return ErrnoError(-error, std::string("share the map ") + kNames[i]);
  }
  return OkStatus();
}

void SharedMaps::Offer(bpf_object* object) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (!first_[i]) first_[i] = bpf_object__find_map_by_name(object, kNames[i]);
  }
}

int SharedMaps::groups_fd() const { return first_[0] ? bpf_map__fd(first_[0]) : -1; }

}  // namespace brink::snap
