#include "symbol/object.h"

#include <absl/hash/hash.h>
#include <absl/strings/string_view.h>

namespace brink::symbol {
namespace {

uint64_t PathHash(std::string_view path) { return absl::HashOf(absl::string_view(path.data(), path.size())); }

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

bool ObjectTable::Same(const Object& a, const Object& b) {
  return a.kind == b.kind && a.path == b.path && a.build_id == b.build_id && (a.kind != ObjectKind::kJit || a.pid == b.pid);
}

uint64_t ObjectTable::HashOf(const Object& object) {
  return absl::HashOf(object.kind, object.path, object.build_id, object.kind == ObjectKind::kJit ? object.pid : 0);
}

uint64_t ObjectTable::KeyOf(const Object& object) const {
  uint64_t key = HashOf(object);
  for (auto at = ids_.find(key); at != ids_.end() && !Same(objects_[at->second], object); at = ids_.find(key)) ++key;
  return key;
}

ObjectId ObjectTable::Intern(Object object) {
  if (object.kind == ObjectKind::kNone) return kNoObject;
  if (object.build_id.empty() && object.kind != ObjectKind::kJit) object.build_id = BuildIdOf(object.path);
  const uint64_t key = KeyOf(object);
  if (auto known = ids_.find(key); known != ids_.end()) return known->second;
  if (objects_.size() >= kMaxObjects) return kNoObject;
  const ObjectId id = static_cast<ObjectId>(objects_.size());
  ids_.emplace(key, id);
  if (object.build_id.empty() && object.kind != ObjectKind::kJit) without_id_.emplace(PathHash(object.path), id);
  objects_.push_back(std::move(object));
  ++revision_;
  return id;
}

void ObjectTable::AddBuildId(std::string_view path, std::string_view build_id) {
  build_ids_[std::string(path)] = std::string(build_id);
  auto [first, last] = without_id_.equal_range(PathHash(path));
  while (first != last) {
    const ObjectId id = first->second;
    if (objects_[id].path != path) {
      ++first;
      continue;
    }
    objects_[id].build_id = std::string(build_id);
    // The key holds the build id; an object that was known by both is found by the first one.
    ids_.try_emplace(KeyOf(objects_[id]), id);
    ++revision_;
    first = without_id_.erase(first);
  }
}

std::string_view ObjectTable::BuildIdOf(std::string_view path) const {
  auto found = build_ids_.find(std::string(path));
  return found == build_ids_.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace brink::symbol
