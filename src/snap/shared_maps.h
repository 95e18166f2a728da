// What the BPF objects of a session have in common.
#pragma once

#include "base/status.h"

struct bpf_object;

namespace brink::snap {

// Maps that the triggers of a session have in common, by the object that came first.
class SharedMaps {
 public:
  // Before load: gives `object` the maps of the first object, if there is one.
  Status Reuse(bpf_object* object);
  // After load of the first.
  void Offer(bpf_object* object);
  int groups_fd() const;

 private:
  bpf_object* first_ = nullptr;
};

}  // namespace brink::snap
