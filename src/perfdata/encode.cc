#include "perfdata/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace brink::perfdata {
namespace {

constexpr size_t Align8(size_t n) { return (n + 7) & ~size_t{7}; }

// Writes into memory that was measured beforehand.
class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}
  void U16(uint16_t v) { Put(v); }
  void U32(uint32_t v) { Put(v); }
  void U64(uint64_t v) { Put(v); }
  void Pair(uint32_t a, uint32_t b) {
    Put(a);
    Put(b);
  }
  void Bytes(const void* data, size_t size) {
    if (size != 0) std::memcpy(at_, data, size);
    at_ += size;
  }
  void Zeros(size_t size) {
    std::memset(at_, 0, size);
    at_ += size;
  }
  // The bytes, a NUL, and more of them up to `padded` in all.
  void Padded(std::string_view text, size_t padded) {
    Bytes(text.data(), text.size());
    Zeros(padded - text.size());
  }
  void Header(uint32_t type, uint16_t misc, size_t size) {
    Put(RecordHeader{type, misc, static_cast<uint16_t>(size)});
  }

 private:
  template <typename T>
  void Put(T v) {
    std::memcpy(at_, &v, sizeof v);
    at_ += sizeof v;
  }
  std::byte* at_;
};

// Room for the text and at least one NUL.
size_t NameSize(std::string_view name) { return Align8(name.size() + 1); }

// A name inside a record ends at the first NUL anyway; longer than a path can be, it is cut.
std::string_view Name(std::string_view name) { return name.substr(0, std::min<size_t>(name.find('\0'), 4095)); }

void PutSampleId(Cursor& out, uint64_t sample_type, const SampleId& id) {
  if (sample_type & kSampleTid) out.Pair(id.pid, id.tid);
  if (sample_type & kSampleTime) out.U64(id.time);
  if (sample_type & kSampleId) out.U64(id.id);
  if (sample_type & kSampleStreamId) out.U64(id.stream_id);
  if (sample_type & kSampleCpu) out.Pair(id.cpu, 0);
  if (sample_type & kSampleIdentifier) out.U64(id.id);
}

// Header, a fixed body by `put`, a padded name and the trailer; the shape of most side-band records.
template <typename PutBody>
size_t Record(std::span<std::byte> out, uint32_t type, uint16_t misc, size_t body, size_t name_size, size_t id_size, PutBody put) {
  size_t size = sizeof(RecordHeader) + body + name_size + id_size;
  if (size > out.size() || size > kMaxRecordSize) return 0;
  Cursor cursor(out.data());
  cursor.Header(type, misc, size);
  put(cursor);
  return size;
}

// u32 length, bytes, zeros up to the next multiple of eight.
size_t RawSize(std::span<const std::byte> raw) { return Align8(4 + raw.size()); }

void PutRaw(Cursor& out, std::span<const std::byte> raw) {
  size_t payload = RawSize(raw) - 4;
  out.U32(static_cast<uint32_t>(payload));
  out.Bytes(raw.data(), raw.size());
  out.Zeros(payload - raw.size());
}

void PutBranches(Cursor& out, const SampleFields& sample, uint64_t branch_type) {
  out.U64(sample.branches.size());
  if (branch_type & kBranchHwIndex) out.U64(sample.hw_idx);
  out.Bytes(sample.branches.data(), sample.branches.size_bytes());
  if (branch_type & kBranchCounters) {
    size_t given = std::min(sample.counters.size(), sample.branches.size());
    out.Bytes(sample.counters.data(), given * 8);
    out.Zeros((sample.branches.size() - given) * 8);
  }
}

}  // namespace

RecordEncoder::RecordEncoder(const EventAttr& attr)
    : sample_type_(attr.sample_type), branch_type_(attr.branch_sample_type), id_all_(attr.flags & kAttrSampleIdAll) {
  constexpr uint64_t kIdFields = kSampleTid | kSampleTime | kSampleId | kSampleStreamId | kSampleCpu | kSampleIdentifier;
  id_size_ = id_all_ ? 8 * static_cast<size_t>(std::popcount(sample_type_ & kIdFields)) : 0;
  constexpr uint64_t kFixed = kIdFields | kSampleIp | kSampleAddr | kSamplePeriod | kSampleWeight | kSampleDataSrc |
                              kSampleTransaction | kSamplePhysAddr | kSampleCgroup;
  fixed_size_ = sizeof(RecordHeader) + 8 * static_cast<size_t>(std::popcount(sample_type_ & kFixed));
}

size_t RecordEncoder::SampleSize(const SampleFields& sample) const {
  size_t size = fixed_size_;
  if (sample_type_ & kSampleCallchain) size += 8 + sample.chain.size_bytes();
  if (sample_type_ & kSampleRaw) size += RawSize(sample.raw);
  if (sample_type_ & kSampleBranchStack) {
    size += 8 + sample.branches.size_bytes();
    if (branch_type_ & kBranchHwIndex) size += 8;
    if (branch_type_ & kBranchCounters) size += 8 * sample.branches.size();
  }
  return size;
}

size_t RecordEncoder::Sample(std::span<std::byte> out, const SampleFields& sample) const {
  size_t size = SampleSize(sample);
  if (size > out.size() || size > kMaxRecordSize) return 0;
  Cursor cursor(out.data());
  const uint64_t type = sample_type_;
  cursor.Header(kRecordSample, sample.misc, size);
  if (type & kSampleIdentifier) cursor.U64(sample.id);
  if (type & kSampleIp) cursor.U64(sample.ip);
  if (type & kSampleTid) cursor.Pair(sample.pid, sample.tid);
  if (type & kSampleTime) cursor.U64(sample.time);
  if (type & kSampleAddr) cursor.U64(sample.addr);
  if (type & kSampleId) cursor.U64(sample.id);
  if (type & kSampleStreamId) cursor.U64(sample.stream_id);
  if (type & kSampleCpu) cursor.Pair(sample.cpu, 0);
  if (type & kSamplePeriod) cursor.U64(sample.period);
  if (type & kSampleCallchain) {
    cursor.U64(sample.chain.size());
    cursor.Bytes(sample.chain.data(), sample.chain.size_bytes());
  }
  if (type & kSampleRaw) PutRaw(cursor, sample.raw);
  if (type & kSampleBranchStack) PutBranches(cursor, sample, branch_type_);
  if (type & kSampleWeight) cursor.U64(sample.weight);
  if (type & kSampleDataSrc) cursor.U64(sample.data_src);
  if (type & kSampleTransaction) cursor.U64(sample.transaction);
  if (type & kSamplePhysAddr) cursor.U64(sample.phys_addr);
  if (type & kSampleCgroup) cursor.U64(sample.cgroup);
  return size;
}

size_t RecordEncoder::Comm(std::span<std::byte> out, uint32_t pid, uint32_t tid, std::string_view comm, bool exec,
                           const SampleId& id) const {
  comm = Name(comm);
  return Record(out, kRecordComm, exec ? kMiscCommExec : 0, 8, NameSize(comm), id_size_, [&](Cursor& c) {
    c.Pair(pid, tid);
    c.Padded(comm, NameSize(comm));
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Mmap2(std::span<std::byte> out, const Mmap2Fields& mmap, const SampleId& id) const {
  std::string_view name = Name(mmap.filename);
  std::string_view build_id = mmap.build_id.substr(0, kBuildIdMax);
  uint16_t misc = mmap.misc;
  if (!build_id.empty()) misc |= kMiscMmapBuildId;
  return Record(out, kRecordMmap2, misc, 64, NameSize(name), id_size_, [&](Cursor& c) {
    c.Pair(mmap.pid, mmap.tid);
    c.U64(mmap.start);
    c.U64(mmap.length);
    c.U64(mmap.pgoff);
    if (build_id.empty()) {
      c.Pair(mmap.major, mmap.minor);
      c.U64(mmap.inode);
      c.U64(mmap.inode_generation);
    } else {
      c.U32(static_cast<uint8_t>(build_id.size()));
      c.Padded(build_id, kBuildIdMax);
    }
    c.Pair(mmap.prot, mmap.flags);
    c.Padded(name, NameSize(name));
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Fork(std::span<std::byte> out, const TaskFields& task, const SampleId& id) const {
  return Record(out, kRecordFork, 0, 24, 0, id_size_, [&](Cursor& c) {
    c.Pair(task.pid, task.ppid);
    c.Pair(task.tid, task.ptid);
    c.U64(task.time);
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Exit(std::span<std::byte> out, const TaskFields& task, const SampleId& id) const {
  return Record(out, kRecordExit, 0, 24, 0, id_size_, [&](Cursor& c) {
    c.Pair(task.pid, task.ppid);
    c.Pair(task.tid, task.ptid);
    c.U64(task.time);
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Lost(std::span<std::byte> out, uint64_t event_id, uint64_t lost, const SampleId& id) const {
  return Record(out, kRecordLost, 0, 16, 0, id_size_, [&](Cursor& c) {
    c.U64(event_id);
    c.U64(lost);
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::LostSamples(std::span<std::byte> out, uint64_t lost, const SampleId& id) const {
  return Record(out, kRecordLostSamples, 0, 8, 0, id_size_, [&](Cursor& c) {
    c.U64(lost);
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Cgroup(std::span<std::byte> out, uint64_t cgroup_id, std::string_view path, const SampleId& id) const {
  path = Name(path);
  return Record(out, kRecordCgroup, 0, 8, NameSize(path), id_size_, [&](Cursor& c) {
    c.U64(cgroup_id);
    c.Padded(path, NameSize(path));
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Namespaces(std::span<std::byte> out, uint32_t pid, uint32_t tid, std::span<const uint64_t> pairs,
                                 const SampleId& id) const {
  return Record(out, kRecordNamespaces, 0, 16 + pairs.size() / 2 * 16, 0, id_size_, [&](Cursor& c) {
    c.Pair(pid, tid);
    c.U64(pairs.size() / 2);
    c.Bytes(pairs.data(), pairs.size() / 2 * 16);
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::Ksymbol(std::span<std::byte> out, uint64_t addr, uint32_t length, uint16_t symbol_type, uint16_t flags,
                              std::string_view name, const SampleId& id) const {
  name = Name(name);
  return Record(out, kRecordKsymbol, 0, 16, NameSize(name), id_size_, [&](Cursor& c) {
    c.U64(addr);
    c.U32(length);
    c.U16(symbol_type);
    c.U16(flags);
    c.Padded(name, NameSize(name));
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::BpfEvent(std::span<std::byte> out, uint16_t bpf_type, uint16_t flags, uint32_t prog_id,
                               std::span<const std::byte, 8> tag, const SampleId& id) const {
  return Record(out, kRecordBpfEvent, 0, 16, 0, id_size_, [&](Cursor& c) {
    c.U16(bpf_type);
    c.U16(flags);
    c.U32(prog_id);
    c.Bytes(tag.data(), tag.size());
    if (id_all_) PutSampleId(c, sample_type_, id);
  });
}

size_t RecordEncoder::FinishedRound(std::span<std::byte> out, uint64_t drained_to) {
  return Record(out, kRecordFinishedRound, 0, drained_to ? 8 : 0, 0, 0, [&](Cursor& c) {
    if (drained_to) c.U64(drained_to);
  });
}

size_t RecordEncoder::FinishedInit(std::span<std::byte> out) {
  return Record(out, kRecordFinishedInit, 0, 0, 0, 0, [](Cursor&) {});
}

}  // namespace brink::perfdata
