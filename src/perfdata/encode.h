// Encoders of perf.data records, native byte order, into memory of the caller: no allocation, no system call.
//
// Every encoder writes one whole record at out.data() and returns its size in bytes, always a multiple of eight; or 0,
// with `out` untouched, when there is no room or the record would be longer than kMaxRecordSize. Kernel records that
// arrive already encoded (side-band rings) need none of this: they are appended byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "brink/abi/event.h"
#include "perfdata/format.h"

namespace brink::perfdata {

// Ends every record but samples when the attribute has sample_id_all; fields that sample_type lacks are left out.
struct SampleId {
  uint32_t pid = 0;
  uint32_t tid = 0;
  uint64_t time = 0;
  uint64_t id = 0;  // as ID and IDENTIFIER
  uint64_t stream_id = 0;
  uint32_t cpu = 0;
};

// One sample. Fields that sample_type lacks are ignored. Spans are read during the call only.
struct SampleFields {
  uint16_t misc = kMiscUser;
  uint64_t ip = 0;
  uint32_t pid = 0;
  uint32_t tid = 0;
  uint64_t time = 0;
  uint64_t addr = 0;
  uint64_t id = 0;
  uint64_t stream_id = 0;
  uint32_t cpu = 0;
  uint64_t period = 0;
  std::span<const uint64_t> chain;         // leaf first, with PERF_CONTEXT markers
  std::span<const std::byte> raw;          // padded with zeros so that 4 + size is a multiple of eight
  std::span<const brink_branch> branches;  // newest first
  uint64_t hw_idx = UINT64_MAX;            // written with kBranchHwIndex, for empty stacks too: perf always reads it
  std::span<const uint64_t> counters;      // one a branch, with kBranchCounters; missing ones are 0
  uint64_t weight = 0;
  uint64_t data_src = 0;
  uint64_t transaction = 0;
  uint64_t phys_addr = 0;
  uint64_t cgroup = 0;
};

struct Mmap2Fields {
  uint16_t misc = kMiscUser;
  uint32_t pid = 0;
  uint32_t tid = 0;
  uint64_t start = 0;
  uint64_t length = 0;
  uint64_t pgoff = 0;
  std::string_view build_id;  // raw bytes, at most 20; empty: the form with device and inode
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t inode = 0;
  uint64_t inode_generation = 0;
  uint32_t prot = 0;
  uint32_t flags = 0;
  std::string_view filename;
};

struct TaskFields {  // FORK and EXIT
  uint32_t pid = 0;
  uint32_t ppid = 0;
  uint32_t tid = 0;
  uint32_t ptid = 0;
  uint64_t time = 0;
};

// Knows the layout of one event's records. Immutable: usable from any thread.
class RecordEncoder {
 public:
  // Sample fields it can write. Records with others can be appended as they are, not encoded.
  static constexpr uint64_t kSupported =
      kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleAddr | kSampleId | kSampleStreamId | kSampleCpu |
      kSamplePeriod | kSampleCallchain | kSampleRaw | kSampleBranchStack | kSampleWeight | kSampleDataSrc |
      kSampleTransaction | kSamplePhysAddr | kSampleCgroup;

  explicit RecordEncoder(const EventAttr& attr);

  size_t SampleSize(const SampleFields& sample) const;
  size_t Sample(std::span<std::byte> out, const SampleFields& sample) const;

  // `exec`: the name comes from an execve.
  size_t Comm(std::span<std::byte> out, uint32_t pid, uint32_t tid, std::string_view comm, bool exec, const SampleId& id) const;
  size_t Mmap2(std::span<std::byte> out, const Mmap2Fields& mmap, const SampleId& id) const;
  size_t Fork(std::span<std::byte> out, const TaskFields& task, const SampleId& id) const;
  size_t Exit(std::span<std::byte> out, const TaskFields& task, const SampleId& id) const;
  size_t Lost(std::span<std::byte> out, uint64_t event_id, uint64_t lost, const SampleId& id) const;
  size_t LostSamples(std::span<std::byte> out, uint64_t lost, const SampleId& id) const;
  size_t Cgroup(std::span<std::byte> out, uint64_t cgroup_id, std::string_view path, const SampleId& id) const;
  // Pairs of device and inode, in the order net uts ipc pid user mnt cgroup.
  size_t Namespaces(std::span<std::byte> out, uint32_t pid, uint32_t tid, std::span<const uint64_t> pairs, const SampleId& id) const;
  size_t Ksymbol(std::span<std::byte> out, uint64_t addr, uint32_t length, uint16_t symbol_type, uint16_t flags,
                 std::string_view name, const SampleId& id) const;
  size_t BpfEvent(std::span<std::byte> out, uint16_t bpf_type, uint16_t flags, uint32_t prog_id,
                  std::span<const std::byte, 8> tag, const SampleId& id) const;

  // Rounds (design: ordering). All records whose time is at most `drained_to` stand before this one, or come from no
  // ring; 0 writes perf's own 8-byte form without the time.
  static size_t FinishedRound(std::span<std::byte> out, uint64_t drained_to = 0);
  // What was synthesised at the start ends here.
  static size_t FinishedInit(std::span<std::byte> out);

  uint64_t sample_type() const { return sample_type_; }
  bool sample_id_all() const { return id_all_; }
  size_t sample_id_size() const { return id_size_; }

 private:
  uint64_t sample_type_;
  uint64_t branch_type_;
  bool id_all_;
  size_t id_size_;     // of the trailer, 0 without sample_id_all
  size_t fixed_size_;  // of a sample's header and fixed fields
};

}  // namespace brink::perfdata
