#include "snap/side_object.h"

#include <bpf/libbpf.h>

#include <cerrno>

#include "brink/abi/session.h"
#include "session/core.h"
#include "snap_side.skel.h"

namespace brink::snap {

StatusOr<std::unique_ptr<SideObject>> SideObject::Load(const TriggerObject::Share& share, SharedMaps& maps, const Options& options) {
  std::unique_ptr<SideObject> object(new SideObject);
  object->skeleton_ = snap_side_bpf__open();
  if (!object->skeleton_) return BpfLoadError(errno, "open the programs beside the triggers");
  auto& progs = object->skeleton_->progs;
  RETURN_IF_ERROR(share(object->skeleton_->obj));
  RETURN_IF_ERROR(maps.Reuse(object->skeleton_->obj));
  RETURN_IF_ERROR(SetRodata(object->skeleton_->obj, "snap_cfg", &options.config, sizeof(options.config)));
  bpf_program__set_autoload(progs.snap_group_made, true);
  for (bpf_program* program : {progs.snap_history_switch, progs.snap_history_enter, progs.snap_history_exit, progs.snap_history_end}) {
    bpf_program__set_autoload(program, options.history);
  }
  for (bpf_program* program : {progs.snap_member_forked, progs.snap_member_moved, progs.snap_member_renewed}) {
    bpf_program__set_autoload(program, options.members);
  }
  bpf_map__set_autocreate(object->skeleton_->maps.snap_members, options.members);
  bpf_program__set_autoload(progs.snap_history_irq, options.history && options.irqs);
  int error = snap_side_bpf__load(object->skeleton_);
  if (error) return BpfLoadError(-error, "load the programs beside the triggers");
  maps.Offer(object->skeleton_->obj);
  return object;
}

SideObject::~SideObject() {
  Detach();
  snap_side_bpf__destroy(skeleton_);
}

Status SideObject::Attach() {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->obj) {
    if (!bpf_program__autoload(program)) continue;
    bpf_link* link = bpf_program__attach(program);
    if (!link) return ErrnoError(errno, std::string("attach ") + bpf_program__name(program));
    links_.push_back(link);
  }
  return OkStatus();
}

int SideObject::members_fd() const { return bpf_map__autocreate(skeleton_->maps.snap_members) ? bpf_map__fd(skeleton_->maps.snap_members) : -1; }

void SideObject::Detach() {
  for (bpf_link* link : links_) bpf_link__destroy(link);
  links_.clear();
}

}  // namespace brink::snap
