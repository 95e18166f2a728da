// What code belongs to, and where in it: addresses without a process.
//
// Normalising turns (process, address) into a Location while the recording is read; everything that is counted, merged
// or exported is counted by Location. Symbolising turns a Location into names later, and may fail without losing
// the count.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <absl/container/flat_hash_map.h>

namespace brink::symbol {

enum class ObjectKind : uint8_t {
  kNone,      // address that no mapping covers
  kFile,      // ELF file; offsets are file offsets
  kKernel,    // kernel image; offsets are relative to its reference symbol (_text or _stext), KASLR removed
  kModule,    // kernel module; offsets are relative to its start
  kVdso,      // offsets into the image
  kVsyscall,  // offsets into the page
  kBpf,       // one BPF program or trampoline in the kernel; offsets from its start; the path is its name
  kJit,       // anonymous code of one process; offsets are its addresses
};
std::string_view ObjectKindName(ObjectKind kind);

using ObjectId = uint32_t;
inline constexpr ObjectId kNoObject = 0;

struct Object {
  ObjectKind kind = ObjectKind::kNone;
  std::string path;      // as recorded; untrusted text
  std::string build_id;  // raw bytes; "" unknown
  int32_t pid = -1;      // kJit: whose. Others: the first process seen with it, -1 none
  uint64_t start = 0;    // first mapping seen, for /proc/PID/map_files
  uint64_t length = 0;
  std::string reference;  // kKernel: name of the reference symbol

  // Last part of the path: "libc.so.6", "[kernel]".
  std::string ShortName() const;
};

struct Location {
  ObjectId object = kNoObject;
  uint64_t offset = 0;  // meaning by Object::kind; for kNone the address itself

  friend bool operator==(const Location&, const Location&) = default;
  friend auto operator<=>(const Location&, const Location&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Location& location) {
    return H::combine(std::move(h), location.object, location.offset);
  }
};

// Interns objects: equal (kind, path, build id, pid for kJit) is one id. Id 0 stands for kNone. Not thread-safe.
class ObjectTable {
 public:
  static constexpr size_t kMaxObjects = 1 << 19;

  ObjectTable();
  // kNoObject for one more than kMaxObjects: only a file that means harm names so many.
  ObjectId Intern(Object object);
  const Object& operator[](ObjectId id) const { return objects_[id]; }
  size_t size() const { return objects_.size(); }

  // Build ids that a file states beside its mappings (BUILD_ID feature): used for objects of that path that carry no
  // id of their own, those interned already included.
  void AddBuildId(std::string_view path, std::string_view build_id);
  std::string_view BuildIdOf(std::string_view path) const;
  // Changes whenever an object is added or changed.
  uint64_t revision() const { return revision_; }

 private:
  static bool Same(const Object& a, const Object& b);
  static uint64_t HashOf(const Object& object);
  // The place of an equal object in ids_, or the free one where it belongs.
  uint64_t KeyOf(const Object& object) const;

  std::deque<Object> objects_;
  absl::flat_hash_map<uint64_t, ObjectId> ids_;  // by hash, the next number where that is taken; stale entries stay
  std::unordered_multimap<uint64_t, ObjectId> without_id_;  // by hash of the path: those that may get a build id
  absl::flat_hash_map<std::string, std::string> build_ids_;
  uint64_t revision_ = 0;
};

}  // namespace brink::symbol
