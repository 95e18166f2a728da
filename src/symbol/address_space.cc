#include "symbol/address_space.h"

#include <algorithm>

namespace brink::symbol {
namespace {

bool IsAnonymous(std::string_view path) {
  return path.empty() || path.starts_with("//anon") || path.starts_with("[anon") || path.starts_with("/memfd:") ||
         path.starts_with("/dev/zero") || path.starts_with("/anon_hugepage") || path.starts_with("/SYSV") || path == "[heap]" ||
         path.starts_with("[stack") || path.starts_with("/dev/shm/");
}

// ".../jit-123.dump": the marker mapping by which a runtime announces its jitdump file.
bool IsJitDump(std::string_view path) {
  size_t slash = path.rfind('/');
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (!name.starts_with("jit-") || !name.ends_with(".dump") || name.size() < 10) return false;
  name = name.substr(4, name.size() - 9);
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::string_view kKernelNames[] = {"[kernel.kallsyms]", "[kernel.vmlinux]", "[kernel]", "[guest.kernel.kallsyms]"};

}  // namespace

Object AddressSpaces::ObjectOf(const MmapEvent& event) const {
  Object object;
  object.path = std::string(event.path);
  object.build_id = std::string(event.build_id);
  object.pid = event.pid;
  object.start = event.start;
  object.length = event.length;
  if (event.kernel) {
    object.pid = -1;
    object.kind = ObjectKind::kModule;
    for (std::string_view name : kKernelNames) {
      if (!event.path.starts_with(name)) continue;
      object.kind = ObjectKind::kKernel;
      object.path = std::string(name);
      object.reference = std::string(event.path.substr(name.size()));
    }
  } else if (event.path == "[vdso]" || event.path == "[vdso32]" || event.path == "[vdsox32]") {
    object.kind = ObjectKind::kVdso;
    object.pid = -1;
  } else if (event.path == "[vsyscall]") {
    object.kind = ObjectKind::kVsyscall;
  } else if (IsAnonymous(event.path)) {
    object.kind = ObjectKind::kJit;
    object.path.clear();
    object.build_id.clear();
  } else {
    object.kind = ObjectKind::kFile;
  }
  return object;
}

void AddressSpaces::Insert(Space& space, const Mapping& added) {
  if (space.table.use_count() > 1) space.table = std::make_shared<Table>(*space.table);
  Table& table = *space.table;
  space.generation = next_generation_++;
  auto first = table.upper_bound(added.start);
  if (first != table.begin() && std::prev(first)->second.end > added.start) --first;
  auto last = first;
  // What is overlapped keeps its pieces on both sides.
  std::optional<Mapping> head, tail;
  for (; last != table.end() && last->first < added.end; ++last) {
    const Mapping& old = last->second;
    if (old.start < added.start) {
      head = old;
      head->end = added.start;
    }
    if (old.end > added.end) {
      tail = old;
      tail->page_offset += added.end - old.start;
      tail->start = added.end;
    }
  }
  table.erase(first, last);
  for (const std::optional<Mapping>& piece : {head, std::optional<Mapping>(added), tail}) {
    if (piece) table.emplace(piece->start, *piece);
  }
}

AddressSpaces::Space* AddressSpaces::SpaceOf(int32_t pid) {
  auto known = spaces_.find(pid);
  if (known != spaces_.end()) return &known->second;
  if (spaces_.size() < kMaxLive) return &spaces_[pid];
  ++unfollowed_;
  return nullptr;
}

void AddressSpaces::SetComm(int32_t tid, std::string_view comm) {
  auto known = comms_.find(tid);
  if (known != comms_.end()) known->second = std::string(comm);
  else if (comms_.size() < kMaxLive) comms_.emplace(tid, comm);
}

void AddressSpaces::Mmap(const MmapEvent& event) {
  if (event.length == 0) return;
  Mapping mapping{.start = event.start, .end = event.start + event.length, .page_offset = event.page_offset, .executable = event.executable};
  if (mapping.end < mapping.start) mapping.end = ~uint64_t{0};
  Object object = ObjectOf(event);
  ObjectKind kind = object.kind;
  mapping.object = objects_.Intern(std::move(object));
  if (mapping.object == kNoObject) {
    ++unfollowed_;
    return;
  }
  if (event.kernel) {
    // perf gives the image's reference address as its page offset; offsets count from there. Without one, from the start.
    if (kind == ObjectKind::kKernel) mapping.page_offset = event.page_offset ? event.start - event.page_offset : 0;
    Insert(kernel_, mapping);
    return;
  }
  Space* space = SpaceOf(event.pid);
  if (!space) return;
  if (IsJitDump(event.path)) space->jitdump = std::string(event.path);
  if (kind == ObjectKind::kJit) mapping.page_offset = mapping.start;
  Insert(*space, mapping);
}

void AddressSpaces::Ksymbol(const KsymbolEvent& event) {
  if (event.length == 0 || event.address + event.length < event.address) return;
  // An unregistered program's addresses may be reused; until then its last samples still mean it.
  if (event.unregister) return;
  Object object{.kind = ObjectKind::kBpf, .path = std::string(event.name)};
  const ObjectId id = objects_.Intern(std::move(object));
  if (id != kNoObject) Insert(kernel_, {.start = event.address, .end = event.address + event.length, .page_offset = 0, .object = id});
  else ++unfollowed_;
}

void AddressSpaces::Fork(int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid) {
  auto comm = comms_.find(parent_tid);
  if (comm == comms_.end()) comm = comms_.find(parent_pid);
  if (comm != comms_.end()) {
    std::string name = comm->second;
    SetComm(tid, name);
  }
  if (pid == parent_pid) return;  // a new thread
  auto parent = spaces_.find(parent_pid);
  Space fresh;
  if (parent != spaces_.end()) fresh.table = parent->second.table;
  fresh.generation = next_generation_++;
  if (Space* child = SpaceOf(pid)) *child = std::move(fresh);
}

void AddressSpaces::Exit(int32_t pid, int32_t tid) {
  if (pid != tid) {
    comms_.erase(tid);
    return;
  }
  dead_.push_back(pid);
  ++dead_count_[pid];
  if (dead_.size() <= kKeptDead) return;
  int32_t oldest = dead_.front();
  dead_.pop_front();
  auto count = dead_count_.find(oldest);
  if (--count->second > 0) return;  // died again since
  dead_count_.erase(count);
  spaces_.erase(oldest);
  comms_.erase(oldest);
}

void AddressSpaces::Comm(int32_t pid, int32_t tid, std::string_view comm, bool exec) {
  SetComm(tid, comm);
  if (!exec) return;
  Space fresh;
  fresh.generation = next_generation_++;
  if (Space* space = SpaceOf(pid)) *space = std::move(fresh);
}

const Mapping* AddressSpaces::Lookup(const Table& table, uint64_t address) {
  auto above = table.upper_bound(address);
  if (above == table.begin()) return nullptr;
  const Mapping& mapping = std::prev(above)->second;
  return address < mapping.end ? &mapping : nullptr;
}

const Mapping* AddressSpaces::Find(int32_t pid, uint64_t address) const {
  auto space = spaces_.find(pid);
  return space == spaces_.end() ? nullptr : Lookup(*space->second.table, address);
}

Location AddressSpaces::Normalise(int32_t pid, uint64_t address) const {
  const Mapping* mapping = IsKernel(address) ? Lookup(*kernel_.table, address) : Find(pid, address);
  if (!mapping && IsVsyscall(address)) {
    return {objects_.Intern({.kind = ObjectKind::kVsyscall, .path = "[vsyscall]"}), address & 0xfff};
  }
  if (!mapping) return {kNoObject, address};
  return {mapping->object, address - mapping->start + mapping->page_offset};
}

uint64_t AddressSpaces::Generation(int32_t pid) const {
  auto space = spaces_.find(pid);
  return space == spaces_.end() ? 0 : space->second.generation;
}

std::string_view AddressSpaces::CommOf(int32_t pid, int32_t tid) const {
  auto found = comms_.find(tid);
  if (found == comms_.end()) found = comms_.find(pid);
  return found == comms_.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view AddressSpaces::JitDumpOf(int32_t pid) const {
  auto space = spaces_.find(pid);
  return space == spaces_.end() ? std::string_view() : std::string_view(space->second.jitdump);
}

}  // namespace brink::symbol
