// Which mappings each process has at the current point of a recording.
//
// A state machine: events are applied in time order, and lookups answer for the moment reached. Mappings that were
// synthesised at the start of a recording come first, so they hold from the beginning. munmap is not recorded by the
// kernel; a later mapping replaces what it overlaps.
//
// Memory: the tables of a forked child are shared until one of the two changes; of processes that ended, the last
// kKeptDead are kept (their last samples may follow the EXIT record). Above kMaxLive processes at a time (threads, for
// names) new ones are not followed, and counted: only a file that means harm has so many.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>

#include "symbol/object.h"

namespace brink::symbol {

struct MmapEvent {
  int32_t pid = -1;
  uint64_t start = 0;
  uint64_t length = 0;
  uint64_t page_offset = 0;    // in bytes; for the kernel image the address of its reference symbol
  std::string_view path;
  std::string_view build_id;   // raw bytes; "" = not stated
  bool kernel = false;         // cpu mode kernel, or pid -1
  bool executable = true;      // false: data
};

struct KsymbolEvent {
  uint64_t address = 0;
  uint64_t length = 0;
  std::string_view name;
  bool unregister = false;
};

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t page_offset = 0;
  ObjectId object = kNoObject;
  bool executable = true;
};

class AddressSpaces {
 public:
  static constexpr size_t kKeptDead = 4096;
  static constexpr size_t kMaxLive = 1 << 18;

  explicit AddressSpaces(ObjectTable* objects) : objects_(*objects) {}

  void Mmap(const MmapEvent& event);
  void Fork(int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid);
  void Exit(int32_t pid, int32_t tid);
  // `exec`: the name came with an execve, which also empties the process's mappings.
  void Comm(int32_t pid, int32_t tid, std::string_view comm, bool exec);
  void Ksymbol(const KsymbolEvent& event);

  // Any address. Kernel addresses (top bit set) are looked up in the kernel's table whatever the process.
  Location Normalise(int32_t pid, uint64_t address) const;
  // The mapping that covers a user address, or nullptr. Valid until the next event.
  const Mapping* Find(int32_t pid, uint64_t address) const;
  bool KnowsProcess(int32_t pid) const { return spaces_.contains(pid); }

  // Changes whenever the answers for user addresses of `pid` (for kernel addresses: of any process) may differ from
  // those given before; never repeats. What was cached under another value is stale.
  uint64_t Generation(int32_t pid) const;
  uint64_t KernelGeneration() const { return kernel_.generation; }

  std::string_view CommOf(int32_t pid, int32_t tid) const;  // "" unknown
  // Events of processes that were too many.
  uint64_t unfollowed() const { return unfollowed_; }
  // Last jit-PID.dump that the process mapped, "" none.
  std::string_view JitDumpOf(int32_t pid) const;

  static bool IsKernel(uint64_t address) { return address >> 63 && !IsVsyscall(address); }
  static bool IsVsyscall(uint64_t address) { return (address & ~uint64_t{0xfff}) == 0xffffffffff600000; }

 private:
  using Table = absl::btree_map<uint64_t, Mapping>;  // by start, disjoint
  struct Space {
    std::shared_ptr<Table> table = std::make_shared<Table>();
    uint64_t generation = 0;
    std::string jitdump;
  };

  void Insert(Space& space, const Mapping& mapping);
  void SetComm(int32_t tid, std::string_view comm);
  Space* SpaceOf(int32_t pid);  // made where there is none; nullptr: too many
  static const Mapping* Lookup(const Table& table, uint64_t address);
  Object ObjectOf(const MmapEvent& event) const;

  ObjectTable& objects_;
  Space kernel_;
  absl::flat_hash_map<int32_t, Space> spaces_;
  absl::flat_hash_map<int32_t, std::string> comms_;  // by tid; a process's own name by pid == tid
  std::deque<int32_t> dead_;
  absl::flat_hash_map<int32_t, uint32_t> dead_count_;
  uint64_t next_generation_ = 1;
  uint64_t unfollowed_ = 0;
};

}  // namespace brink::symbol
