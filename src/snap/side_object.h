// The programs beside the triggers: names of groups that are made, processes that come into groups, and what feeds the history.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "brink/abi/snap.h"
#include "snap/trigger_object.h"

struct snap_side_bpf;

namespace brink::snap {

// Loaded, and from Attach on hooked up, for as long as this lives. Not thread safe.
class SideObject {
 public:
  struct Options {
    bool history = false, irqs = false;
    bool members = false;           // told of as they come, through members_fd
    brink_snap_config config = {};  // which hierarchy, and which groups are wanted
  };
  static StatusOr<std::unique_ptr<SideObject>> Load(const TriggerObject::Share& share, SharedMaps& maps, const Options& options);
  ~SideObject();
  Status Attach();
  void Detach();
  // The ring of brink_snap_member; -1 where they are not asked for.
  int members_fd() const;

 private:
  SideObject() = default;
  snap_side_bpf* skeleton_ = nullptr;
  std::vector<bpf_link*> links_;
};

}  // namespace brink::snap
