#include "session/core.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "base/strings.h"
#include "kernel/capability.h"
#include "tasks.skel.h"

namespace brink {
namespace {

thread_local std::string last_message;

int KeepMessage(enum libbpf_print_level level, const char* format, va_list args) {
  if (level != LIBBPF_WARN) return 0;
  // A verifier's log comes as one text, and its reason at the end.
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(nullptr, 0, format, args);
  std::string text(n > 0 ? static_cast<size_t>(n) + 1 : 0, '\0');
  if (n > 0) vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  if (n > 0) last_message.append(text.data(), static_cast<size_t>(n));
  constexpr size_t kEnough = 16 * 1024;
  if (last_message.size() > kEnough) last_message.erase(0, last_message.size() - kEnough);
  return n;
}

constexpr const char* kSharedMaps[] = {"brink_ring", "brink_counters", "brink_tasks", "brink_cgroups"};

}  // namespace

void CaptureLibbpfMessages() { libbpf_set_print(KeepMessage); }

std::string TakeLibbpfMessage() {
  std::string text;
  text.swap(last_message);
  std::string line;
  for (std::string_view piece : Split(text, '\n')) {
    piece = Trim(piece);
    // The verifier's reason stands before its statistics and libbpf's closing lines.
    if (piece.empty() || piece.find("processed ") == 0 || piece.find("-- ") == 0 || piece.find("libbpf: failed to load object") == 0) continue;
    if (piece.find("libbpf: prog ") == 0 && (piece.find(": failed to load: ") != piece.npos || piece.find(" PROG LOAD LOG --") != piece.npos) && !line.empty()) continue;
    line = std::string(piece);
  }
  return EscapeForTerminal(line);
}

Status BpfLoadError(int error, std::string_view what) {
  std::string message = TakeLibbpfMessage();
  if (error == EPERM || error == EACCES) {
    CapSet caps = CapSet::ReadEffective();
    if (!caps.BpfCapable() || !caps.PerfmonCapable()) {
      return PermissionDenied("no right to use BPF: run as root, or once: " + SetcapLine());
    }
  }
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
    return FailedPrecondition(std::string(what) + ": this kernel has no BTF (CONFIG_DEBUG_INFO_BTF); brink needs it");
  }
  Status status = ErrnoError(error, what);
  return message.empty() ? status : Annotate(status, message);
}

Status SetRodata(bpf_object* object, const char* name, const void* value, size_t size) {
  const struct btf* btf = bpf_object__btf(object);
  int section = btf ? btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC) : -1;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (bpf_map__is_internal(map) && std::strstr(bpf_map__name(map), ".rodata")) break;
  }
  size_t map_size = 0;
  auto* data = map ? static_cast<char*>(const_cast<void*>(bpf_map__initial_value(map, &map_size))) : nullptr;
  if (section >= 0 && data) {
    const btf_type* type = btf__type_by_id(btf, static_cast<uint32_t>(section));
    const btf_var_secinfo* vars = btf_var_secinfos(type);
    for (int i = 0; i < btf_vlen(type); ++i) {
      const btf_type* var = btf__type_by_id(btf, vars[i].type);
      if (std::strcmp(btf__name_by_offset(btf, var->name_off), name) != 0) continue;
      if (vars[i].size != size || vars[i].offset + size > map_size) break;
      std::memcpy(data + vars[i].offset, value, size);
      return OkStatus();
    }
  }
  return NotFound(std::string("the BPF object ") + bpf_object__name(object) + " has no read-only " + name + " of this size");
}

StatusOr<std::unique_ptr<BpfCore>> BpfCore::Load(const Options& options) {
  CaptureLibbpfMessages();
  std::unique_ptr<BpfCore> core(new BpfCore);
  core->options_ = options;
  core->options_.config.ring_bytes = static_cast<uint32_t>(options.ring_bytes);
  core->skeleton_ = tasks_bpf__open();
  if (!core->skeleton_) return BpfLoadError(errno, "open the BPF object");
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, core->skeleton_->obj) bpf_program__set_autoload(program, options.track_tasks);
  bpf_map__set_max_entries(core->skeleton_->maps.brink_ring, static_cast<uint32_t>(options.ring_bytes));
  RETURN_IF_ERROR(SetRodata(core->skeleton_->obj, "brink_cfg", &core->options_.config, sizeof(brink_bpf_config)));
  int error = tasks_bpf__load(core->skeleton_);
  if (error) return BpfLoadError(-error, "load the BPF programs");
  return core;
}

BpfCore::~BpfCore() {
  Detach();
  tasks_bpf__destroy(skeleton_);
}

Status BpfCore::Share(bpf_object* object) const {
  for (const char* name : kSharedMaps) {
    bpf_map* theirs = bpf_object__find_map_by_name(object, name);
    bpf_map* ours = bpf_object__find_map_by_name(skeleton_->obj, name);
    if (!theirs || !ours) continue;
    int error = bpf_map__reuse_fd(theirs, bpf_map__fd(ours));
    if (error) return ErrnoError(-error, std::string("share the map ") + name);
  }
  if (options_.filter) RETURN_IF_ERROR(SetRodata(object, "brink_filter_prog", &*options_.filter, sizeof(brink_filter_prog)));
  return SetRodata(object, "brink_cfg", &options_.config, sizeof(brink_bpf_config));
}

Status BpfCore::Attach() {
  if (!options_.track_tasks) return OkStatus();
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->obj) {
    bpf_link* link = bpf_program__attach(program);
    if (!link) return FailedPrecondition(Message(BpfLoadError(errno, std::string("attach ") + bpf_program__name(program))));
    links_.push_back(link);
  }
  return OkStatus();
}

void BpfCore::Detach() {
  for (bpf_link* link : links_) bpf_link__destroy(link);
  links_.clear();
}

Status BpfCore::AddTask(pid_t id, uint64_t start_ticks) {
  uint32_t key = static_cast<uint32_t>(id);
  brink_task_entry entry = {start_ticks};
  int error = bpf_map_update_elem(bpf_map__fd(skeleton_->maps.brink_tasks), &key, &entry, BPF_ANY);
  return error ? ErrnoError(-error, "add process " + std::to_string(id) + " to the target set") : OkStatus();
}

bool BpfCore::HasTask(pid_t id) const {
  uint32_t key = static_cast<uint32_t>(id);
  brink_task_entry entry;
  return bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.brink_tasks), &key, &entry) == 0;
}

Status BpfCore::SetCgroup(uint32_t slot, int cgroup_fd) {
  int error = bpf_map_update_elem(bpf_map__fd(skeleton_->maps.brink_cgroups), &slot, &cgroup_fd, BPF_ANY);
  return error ? ErrnoError(-error, "put the cgroup into the target set (it takes cgroup v2 only)") : OkStatus();
}

int BpfCore::ring_fd() const { return bpf_map__fd(skeleton_->maps.brink_ring); }

BpfCounters BpfCore::ReadCounters() const {
  BpfCounters sums = {};
  int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return sums;
  std::vector<uint64_t> cells(static_cast<size_t>(cpus));
  for (uint32_t i = 0; i < BRINK_CNT_MAX; ++i) {
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.brink_counters), &i, cells.data()) != 0) continue;
    for (uint64_t cell : cells) sums[i] += cell;
  }
  return sums;
}

}  // namespace brink
