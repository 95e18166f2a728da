// What the reader hands out: one type a kind of record, as views of the reader's memory.
//
// Views are valid until the next call of Reader::Next. Numbers are native, whatever the file's byte order. Field
// meanings are those of the kernel's perf_event.h; what a file does not carry is zero or empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/branch.h"
#include "perfdata/encode.h"
#include "perfdata/format.h"

namespace brink::perfdata {

// PERF_FORMAT_*: counter values, in samples and READ records.
struct CounterValues {
  uint64_t time_enabled = 0;
  uint64_t time_running = 0;
  // One counter is `stride` words: value, then id and lost as `format` says.
  std::span<const uint64_t> words;
  size_t stride = 1;
  uint64_t format = 0;  // enum ReadFormat
  size_t count() const { return words.size() / stride; }
  uint64_t value(size_t i) const { return words[i * stride]; }
};

struct Registers {
  uint64_t abi = 0;  // 0: none
  std::span<const uint64_t> values;
};

struct Sample {
  uint64_t ip = 0;
  uint32_t pid = 0, tid = 0;
  uint64_t time = 0;
  uint64_t addr = 0;
  uint64_t id = 0;
  uint64_t stream_id = 0;
  uint32_t cpu = UINT32_MAX;  // as perf: unknown
  uint64_t period = 0;
  CounterValues read;
  std::span<const uint64_t> chain;
  std::span<const std::byte> raw;
  bool has_branches = false;  // the field is there, maybe empty
  std::span<const BranchEntry> branches;  // newest first; mask info with kInfoMask before comparing
  std::optional<uint64_t> hw_idx;
  std::span<const uint64_t> counters;  // one a branch
  Registers regs_user;
  std::span<const std::byte> stack_user;
  uint64_t stack_dynamic_size = 0;
  uint64_t weight = 0;  // both forms of WEIGHT
  uint64_t data_src = 0;
  uint64_t transaction = 0;
  Registers regs_intr;
  uint64_t phys_addr = 0;
  uint64_t cgroup = 0;
  uint64_t data_page_size = 0, code_page_size = 0;
  std::span<const std::byte> aux;
};

struct Mmap {  // MMAP and MMAP2
  uint32_t pid = 0, tid = 0;
  uint64_t start = 0, length = 0, pgoff = 0;
  std::string_view filename;
  bool data = false;  // not executable
  bool mmap2 = false;
  uint32_t prot = 0, flags = 0;
  std::string_view build_id;  // raw; empty: device and inode are set instead
  uint32_t major = 0, minor = 0;
  uint64_t inode = 0, inode_generation = 0;
};

struct Comm {
  uint32_t pid = 0, tid = 0;
  std::string_view comm;
  bool exec = false;
};

struct Task {  // FORK and EXIT
  bool exit = false;
  uint32_t pid = 0, ppid = 0, tid = 0, ptid = 0;
  uint64_t time = 0;
};

struct Lost {
  uint64_t event_id = 0;
  uint64_t lost = 0;  // records
};

struct LostSamples {
  uint64_t lost = 0;
};

struct Throttle {
  bool throttled = false;
  uint64_t time = 0, event_id = 0, stream_id = 0;
};

struct CounterRead {
  uint32_t pid = 0, tid = 0;
  CounterValues values;
};

struct AuxData {
  uint64_t offset = 0, size = 0, flags = 0;
};

struct ItraceStart {
  uint32_t pid = 0, tid = 0;
};

struct ContextSwitch {
  bool out = false;
  bool cpu_wide = false;
  uint32_t next_prev_pid = 0, next_prev_tid = 0;
};

struct Namespaces {
  uint32_t pid = 0, tid = 0;
  std::span<const uint64_t> pairs;  // device, inode; in the order net uts ipc pid user mnt cgroup
};

struct Ksymbol {
  uint64_t addr = 0;
  uint32_t length = 0;
  uint16_t symbol_type = 0;  // 1: BPF, 2: out-of-line code
  uint16_t flags = 0;        // 1: removed
  std::string_view name;
};

struct BpfEvent {
  uint16_t bpf_type = 0;  // 1: loaded, 2: unloaded
  uint16_t flags = 0;
  uint32_t prog_id = 0;
  std::span<const std::byte> tag;
};

struct Cgroup {
  uint64_t id = 0;
  std::string_view path;
};

struct TextPoke {
  uint64_t addr = 0;
  std::span<const std::byte> old_bytes, new_bytes;
};

struct AuxOutputHwId {
  uint64_t hw_id = 0;
};

struct TimeConversion {  // TIME_CONV: TSC to perf time
  uint64_t shift = 0, multiplier = 0, zero = 0;
};

struct Auxtrace {
  uint64_t size = 0, offset = 0, reference = 0;
  uint32_t index = 0, tid = 0, cpu = 0;
};

struct FinishedRound {
  uint64_t drained_to = 0;  // 0: the file does not say
};

struct FinishedInit {};

// Known and read past, or not known at all: `bytes` is what follows the header.
struct Other {
  std::span<const std::byte> bytes;
};

using RecordBody = std::variant<Other, Sample, Mmap, Comm, Task, Lost, LostSamples, Throttle, CounterRead, AuxData, ItraceStart,
                                ContextSwitch, Namespaces, Ksymbol, BpfEvent, Cgroup, TextPoke, AuxOutputHwId, TimeConversion,
                                Auxtrace, FinishedRound, FinishedInit>;

struct Record {
  uint32_t type = 0;  // enum RecordType
  uint16_t misc = 0;
  uint16_t size = 0;
  uint64_t offset = 0;  // in the file; of the COMPRESSED record that holds it
  int event = -1;       // index into Reader::events; -1 for records of the tool
  uint64_t time = 0;    // 0: unknown
  SampleId id;          // of records other than samples, with sample_id_all
  RecordBody body;

  const Sample* sample() const { return std::get_if<Sample>(&body); }
  uint16_t cpumode() const { return misc & kMiscCpumodeMask; }
};

}  // namespace brink::perfdata
