#include "snap/kernel_types.h"

#include <bpf/btf.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/strings.h"

namespace brink::snap {
namespace {

const char* NameOf(const btf* types, uint32_t name) {
  const char* text = btf__name_by_offset(types, name);
  return text ? text : "";
}

// Behind typedefs, const and the like. `user` is set by the "user" tag of a pointer's target.
const btf_type* Strip(const btf* types, uint32_t id, uint32_t* real, bool* user = nullptr) {
  constexpr int kMostLayers = 32;
  const btf_type* type = btf__type_by_id(types, id);
  for (int i = 0; type && i < kMostLayers; ++i) {
    bool tag = btf_kind(type) == BTF_KIND_TYPE_TAG;
    if (!btf_is_mod(type) && !btf_is_typedef(type) && !tag) break;
    if (tag && user && std::strcmp(NameOf(types, type->name_off), "user") == 0) *user = true;
    id = type->type;
    type = btf__type_by_id(types, id);
  }
  *real = id;
  return type;
}

struct Found {
  uint32_t bit_offset = 0, bits = 0, type = 0;
};

// A member by name, also inside unnamed structures and unions.
std::optional<Found> FindMember(const btf* types, const btf_type* structure, std::string_view name, uint32_t base, int depth) {
  constexpr int kMostDepth = 8;
  if (depth > kMostDepth) return std::nullopt;
  const btf_member* members = btf_members(structure);
  for (uint32_t i = 0; i < btf_vlen(structure); ++i) {
    uint32_t at = base + btf_member_bit_offset(structure, i);
    std::string_view member = NameOf(types, members[i].name_off);
    if (member == name) return Found{at, btf_member_bitfield_size(structure, i), members[i].type};
    if (!member.empty()) continue;
    uint32_t real;
    const btf_type* inner = Strip(types, members[i].type, &real);
    if (!inner || !btf_is_composite(inner)) continue;
    if (auto found = FindMember(types, inner, name, at, depth + 1)) return found;
  }
  return std::nullopt;
}

void MemberNames(const btf* types, const btf_type* structure, std::vector<std::string>* names, int depth = 0) {
  const btf_member* members = btf_members(structure);
  for (uint32_t i = 0; i < btf_vlen(structure) && depth < 8; ++i) {
    std::string name = NameOf(types, members[i].name_off);
    uint32_t real;
    const btf_type* inner = Strip(types, members[i].type, &real);
    if (!name.empty()) names->push_back(name);
    else if (inner && btf_is_composite(inner)) MemberNames(types, inner, names, depth + 1);
  }
}

std::string Nearest(std::string_view name, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& near : NearestNames(name, names)) text += (text.empty() ? "; nearest: " : ", ") + near;
  return text;
}

}  // namespace

StatusOr<std::unique_ptr<KernelTypes>> KernelTypes::Load() {
  std::unique_ptr<KernelTypes> types(new KernelTypes);
  types->vmlinux_ = btf__load_vmlinux_btf();
  if (!types->vmlinux_) return FailedPrecondition("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF): arguments have no names and types here; args.0, args.1 ... and ret still work");
  return types;
}

KernelTypes::~KernelTypes() {
  for (auto& [name, types] : modules_) btf__free(types);
  btf__free(vmlinux_);
}

void KernelTypes::LoadModules() {
  if (modules_loaded_) return;
  modules_loaded_ = true;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/sys/kernel/btf", error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename();
    if (name == "vmlinux") continue;
    if (btf* types = btf__load_module_btf(name.c_str(), vmlinux_)) modules_.emplace_back(name, types);
  }
}

StatusOr<KernelFunction> KernelTypes::Prototype(const btf* types, uint32_t proto, uint32_t id) const {
  const btf_type* type = btf__type_by_id(types, proto);
  if (!type || !btf_is_func_proto(type)) return NotFound("no prototype");
  KernelFunction function;
  function.types = types;
  function.id = id;
  function.result = type->type;
  const btf_param* params = btf_params(type);
  for (uint32_t i = 0; i < btf_vlen(type); ++i) function.params.push_back({NameOf(types, params[i].name_off), params[i].type});
  return function;
}

StatusOr<KernelFunction> KernelTypes::Function(std::string_view name) {
  std::string text(name);
  int id = btf__find_by_name_kind(vmlinux_, text.c_str(), BTF_KIND_FUNC);
  if (id > 0) return Prototype(vmlinux_, btf__type_by_id(vmlinux_, static_cast<uint32_t>(id))->type, static_cast<uint32_t>(id));
  LoadModules();
  for (auto& [module, types] : modules_) {
    id = btf__find_by_name_kind(types, text.c_str(), BTF_KIND_FUNC);
    if (id <= 0 || static_cast<uint32_t>(id) < btf__type_cnt(vmlinux_)) continue;
    ASSIGN_OR_RETURN(KernelFunction function, Prototype(types, btf__type_by_id(types, static_cast<uint32_t>(id))->type, static_cast<uint32_t>(id)));
    function.module = module;
    return function;
  }
  return NotFound("the kernel's BTF knows no function '" + EscapeForTerminal(name) + "' (inlined everywhere, or not in this kernel)" + Nearest(name, FunctionNames("*")));
}

std::vector<std::string> KernelTypes::FunctionNames(std::string_view glob) {
  std::vector<std::string> names;
  std::string pattern(glob);
  for (uint32_t i = 1; i < btf__type_cnt(vmlinux_); ++i) {
    const btf_type* type = btf__type_by_id(vmlinux_, i);
    if (!btf_is_func(type)) continue;
    const char* name = NameOf(vmlinux_, type->name_off);
    if (fnmatch(pattern.c_str(), name, 0) == 0) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

StatusOr<KernelFunction> KernelTypes::RawTracepoint(std::string_view name) {
  // Only __bpf_trace_NAME keeps the parameters' names; the typedef keeps their types on every kernel.
  std::string traced = "btf_trace_" + std::string(name);
  int id = btf__find_by_name_kind(vmlinux_, traced.c_str(), BTF_KIND_TYPEDEF);
  if (id <= 0) {
    std::vector<std::string> names;
    for (uint32_t i = 1; i < btf__type_cnt(vmlinux_); ++i) {
      const btf_type* type = btf__type_by_id(vmlinux_, i);
      std::string_view text = NameOf(vmlinux_, type->name_off);
      if (btf_is_typedef(type) && text.starts_with("btf_trace_")) names.emplace_back(text.substr(10));
    }
    return NotFound("no raw tracepoint '" + EscapeForTerminal(name) + "'" + Nearest(name, names));
  }
  uint32_t real;
  const btf_type* pointer = Strip(vmlinux_, static_cast<uint32_t>(id), &real);
  if (!pointer || !btf_is_ptr(pointer)) return NotFound("no prototype");
  ASSIGN_OR_RETURN(KernelFunction function, Prototype(vmlinux_, pointer->type, 0));
  // The first parameter is the tracepoint's private data.
  if (!function.params.empty()) function.params.erase(function.params.begin());
  std::string caller = "__bpf_trace_" + std::string(name);
  int named = btf__find_by_name_kind(vmlinux_, caller.c_str(), BTF_KIND_FUNC);
  if (named > 0) {
    auto with_names = Prototype(vmlinux_, btf__type_by_id(vmlinux_, static_cast<uint32_t>(named))->type, 0);
    for (size_t i = 0; with_names.ok() && i < function.params.size() && i + 1 < with_names->params.size(); ++i) {
      if (function.params[i].name.empty()) function.params[i].name = with_names->params[i + 1].name;
    }
  }
  return function;
}

std::optional<uint32_t> KernelTypes::Enumerator(std::string_view name) {
  for (uint32_t i = 1; i < btf__type_cnt(vmlinux_); ++i) {
    const btf_type* type = btf__type_by_id(vmlinux_, i);
    if (!btf_is_enum(type)) continue;
    const auto* values = btf_enum(type);
    for (uint32_t j = 0; j < btf_vlen(type); ++j) {
      if (NameOf(vmlinux_, values[j].name_off) == name) return static_cast<uint32_t>(values[j].val);
    }
  }
  return std::nullopt;
}

bool KernelTypes::Describe(const btf* types, uint32_t id, brink_snap_load* load) {
  uint32_t real;
  const btf_type* type = Strip(types, id, &real);
  if (!type) return false;
  if (btf_is_ptr(type)) {
    load->size = 8;
    load->is_signed = 0;
    return true;
  }
  if (!btf_is_int(type) && !btf_is_any_enum(type)) return false;
  if (type->size != 1 && type->size != 2 && type->size != 4 && type->size != 8) return false;
  load->size = static_cast<uint8_t>(type->size);
  load->is_signed = btf_is_int(type) ? (btf_int_encoding(type) & BTF_INT_SIGNED) != 0 : btf_kflag(type);
  return true;
}

bool KernelTypes::IsInt(const btf* types, uint32_t id) {
  uint32_t real;
  const btf_type* type = id ? Strip(types, id, &real) : nullptr;
  return type && btf_is_int(type);
}

bool KernelTypes::IsString(const btf* types, uint32_t id, bool* user) {
  uint32_t real;
  const btf_type* type = Strip(types, id, &real);
  if (!type || !btf_is_ptr(type)) return false;
  *user = false;
  const btf_type* target = Strip(types, type->type, &real, user);
  return target && btf_is_int(target) && target->size == 1 && std::strcmp(NameOf(types, target->name_off), "char") == 0;
}

Status KernelTypes::Follow(const btf* types, uint32_t id, std::span<const std::string> members, brink_snap_load* load) const {
  for (const std::string& member : members) {
    uint32_t real;
    bool user = false;
    const btf_type* type = Strip(types, id, &real);
    if (type && btf_is_ptr(type)) {
      if (load->steps >= BRINK_SNAP_LOAD_STEPS) return InvalidArgument("'" + member + "' lies behind more than " + std::to_string(BRINK_SNAP_LOAD_STEPS - 1) + " pointers");
      type = Strip(types, type->type, &real, &user);
      load->offset[load->steps] = 0;
      if (user) load->user |= static_cast<uint8_t>(1u << load->steps);
      ++load->steps;
    } else if (load->base == BRINK_SNAP_SAVED && load->steps == 1) {
      return InvalidArgument("'" + member + "': the argument is no pointer");
    }
    if (!type || !btf_is_composite(type)) return InvalidArgument("'" + member + "': what stands before it is no structure");
    auto found = FindMember(types, type, member, 0, 0);
    if (!found) {
      std::vector<std::string> names;
      MemberNames(types, type, &names);
      return InvalidArgument(std::string("struct ") + NameOf(types, type->name_off) + " has no member '" + EscapeForTerminal(member) + "'" + Nearest(member, names));
    }
    load->offset[load->steps - 1] += static_cast<int32_t>(found->bit_offset / 8);
    load->bits = static_cast<uint8_t>(found->bits);
    load->shift = static_cast<uint8_t>(found->bits ? found->bit_offset % 8 : 0);
    id = found->type;
  }
  if (load->bits) {
    brink_snap_load value = {};
    load->is_signed = Describe(types, id, &value) && value.is_signed;
    load->size = 8;
    return OkStatus();
  }
  if (!Describe(types, id, load)) return InvalidArgument("the value is a structure or an array; name a member of it");
  return OkStatus();
}

}  // namespace brink::snap
