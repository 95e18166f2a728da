// The programs beside the triggers: names of groups that are made, and what feeds the history.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "brink/abi/snap.h"
#include "snap/trigger_object.h"

namespace brink::snap {

// Loaded, and from Attach on hooked up, for as long as this lives. Not thread safe.
class SideObject {
 public:
  struct Options {
    bool history = false, irqs = false;
    brink_snap_config config = {};  // which hierarchy
  };
  static StatusOr<std::unique_ptr<SideObject>> Load(const TriggerObject::Share& share, SharedMaps& maps, const Options& options);
  ~SideObject();
  Status Attach();
  void Detach();

 private:
  SideObject() = default;
  snap_bpf* skeleton_ = nullptr;
  std::vector<bpf_link*> links_;
};

}  // namespace brink::snap
