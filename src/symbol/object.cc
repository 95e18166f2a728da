#include "symbol/object.h"

namespace brink::symbol {
namespace {

std::string KeyOf(const Object& object) {
  std::string key(1, static_cast<char>(object.kind));
  key += object.path;
  key += '\0';
  key += object.build_id;
  if (object.kind == ObjectKind::kJit) key += '\0' + std::to_string(object.pid);
  return key;
}

}  // namespace

std::string_view ObjectKindName(ObjectKind kind) {
  constexpr std::string_view kNames[] = {"none", "file", "kernel", "module", "vdso", "vsyscall", "bpf", "jit"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Object::ShortName() const {
  switch (kind) {
    case ObjectKind::kNone: return "[unmapped]";
    case ObjectKind::kKernel: return "[kernel]";
    case ObjectKind::kJit: return "[jit " + std::to_string(pid) + "]";
    case ObjectKind::kBpf: return "[bpf]";
    default: break;
  }
  std::string_view name = path;
  if (name.ends_with(" (deleted)")) name.remove_suffix(10);
  size_t slash = name.rfind('/');
  return std::string(slash == std::string_view::npos || slash + 1 == name.size() ? name : name.substr(slash + 1));
}

ObjectTable::ObjectTable() { objects_.emplace_back(); }

ObjectId ObjectTable::Intern(Object object) {
  if (object.kind == ObjectKind::kNone) return kNoObject;
  if (object.build_id.empty() && object.kind != ObjectKind::kJit) object.build_id = BuildIdOf(object.path);
  auto [it, fresh] = ids_.try_emplace(KeyOf(object), static_cast<ObjectId>(objects_.size()));
  if (fresh) {
    objects_.push_back(std::move(object));
    ++revision_;
  }
  return it->second;
}

void ObjectTable::AddBuildId(std::string_view path, std::string_view build_id) {
  build_ids_[std::string(path)] = std::string(build_id);
  bool changed = false;
  for (Object& object : objects_) {
    if (object.path != path || !object.build_id.empty() || object.kind == ObjectKind::kJit) continue;
    object.build_id = std::string(build_id);
    ++revision_;
    changed = true;
  }
  if (!changed) return;
  // The keys hold the build id; ids stay.
  ids_.clear();
  for (size_t id = 1; id < objects_.size(); ++id) ids_.try_emplace(KeyOf(objects_[id]), static_cast<ObjectId>(id));
}

std::string_view ObjectTable::BuildIdOf(std::string_view path) const {
  auto found = build_ids_.find(std::string(path));
  return found == build_ids_.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace brink::symbol
