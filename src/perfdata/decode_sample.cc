// PERF_RECORD_SAMPLE: fields in the order in which the kernel puts them, which is not the order of their bits.
#include <bit>

#include "perfdata/decode.h"

namespace brink::perfdata {
namespace {

Registers DecodeRegisters(uint64_t mask, Cursor* cursor) {
  Registers out;
  out.abi = cursor->U64();
  if (out.abi != 0) out.values = cursor->U64s(static_cast<uint64_t>(std::popcount(mask)));
  return out;
}

// Whether the fields that follow the branch stack end exactly where the record does. Reads only.
bool TailFits(const EventAttr& attr, Cursor cursor) {
  const uint64_t type = attr.sample_type;
  auto registers = [&](uint64_t mask) {
    if (cursor.U64() != 0) cursor.Skip(8 * static_cast<uint64_t>(std::popcount(mask)));
  };
  if (type & kSampleRegsUser) registers(attr.sample_regs_user);
  if (type & kSampleStackUser) {
    uint64_t size = cursor.U64();
    if (size != 0) {
      cursor.Skip(size);
      cursor.Skip(8);
    }
  }
  cursor.Skip(8 * static_cast<uint64_t>((type & (kSampleWeight | kSampleWeightStruct) ? 1 : 0) + std::popcount(type & (kSampleDataSrc | kSampleTransaction))));
  if (type & kSampleRegsIntr) registers(attr.sample_regs_intr);
  cursor.Skip(8 * static_cast<uint64_t>(std::popcount(type & (kSamplePhysAddr | kSampleCgroup | kSampleDataPageSize | kSampleCodePageSize))));
  if (type & kSampleAux) cursor.Skip(cursor.U64());
  return cursor.ok() && cursor.left() == 0;
}

void DecodeBranches(const EventAttr& attr, Cursor* cursor, Sample* sample) {
  sample->has_branches = true;
  uint64_t count = cursor->U64();
  if (attr.branch_sample_type & kBranchHwIndex) {
    // Where the PMU delivered no stack at all, the kernel writes a count of 0 and no index behind it.
    if (count != 0 || !TailFits(attr, *cursor)) sample->hw_idx = cursor->U64();
  }
  sample->branches = cursor->Branches(count);
  if (attr.branch_sample_type & kBranchCounters) sample->counters = cursor->U64s(count);
}

void DecodeFixed(uint64_t type, Cursor* cursor, Sample* sample) {
  if (type & kSampleIdentifier) sample->id = cursor->U64();
  if (type & kSampleIp) sample->ip = cursor->U64();
  if (type & kSampleTid) {
    sample->pid = cursor->U32();
    sample->tid = cursor->U32();
  }
  if (type & kSampleTime) sample->time = cursor->U64();
  if (type & kSampleAddr) sample->addr = cursor->U64();
  if (type & kSampleId) sample->id = cursor->U64();
  if (type & kSampleStreamId) sample->stream_id = cursor->U64();
  if (type & kSampleCpu) {
    sample->cpu = cursor->U32();
    cursor->Skip(4);
  }
  if (type & kSamplePeriod) sample->period = cursor->U64();
}

void DecodeTail(const EventAttr& attr, Cursor* cursor, Sample* sample) {
  const uint64_t type = attr.sample_type;
  if (type & kSampleRegsUser) sample->regs_user = DecodeRegisters(attr.sample_regs_user, cursor);
  if (type & kSampleStackUser) {
    uint64_t size = cursor->U64();
    if (size != 0) {
      sample->stack_user = cursor->Bytes(size);
      sample->stack_dynamic_size = cursor->U64();
    }
  }
  if (type & (kSampleWeight | kSampleWeightStruct)) sample->weight = cursor->U64();
  if (type & kSampleDataSrc) sample->data_src = cursor->U64();
  if (type & kSampleTransaction) sample->transaction = cursor->U64();
  if (type & kSampleRegsIntr) sample->regs_intr = DecodeRegisters(attr.sample_regs_intr, cursor);
  if (type & kSamplePhysAddr) sample->phys_addr = cursor->U64();
  if (type & kSampleCgroup) sample->cgroup = cursor->U64();
  if (type & kSampleDataPageSize) sample->data_page_size = cursor->U64();
  if (type & kSampleCodePageSize) sample->code_page_size = cursor->U64();
  if (type & kSampleAux) {
    uint64_t size = cursor->U64();
    sample->aux = cursor->Bytes(size);
  }
}

}  // namespace

CounterValues DecodeCounterValues(uint64_t format, Cursor* cursor) {
  CounterValues out;
  out.format = format;
  out.stride = 1 + (format & kReadId ? 1 : 0) + (format & kReadLost ? 1 : 0);
  if (format & kReadGroup) {
    uint64_t count = cursor->U64();
    if (format & kReadTotalTimeEnabled) out.time_enabled = cursor->U64();
    if (format & kReadTotalTimeRunning) out.time_running = cursor->U64();
    // Bounded before it is multiplied.
    out.words = cursor->U64s(count > cursor->left() ? UINT64_MAX : count * out.stride);
    return out;
  }
  // Alone, the times stand between the value and its id.
  std::span<uint64_t> words = cursor->U64s(static_cast<uint64_t>(std::popcount(format & (kReadTotalTimeEnabled | kReadTotalTimeRunning))) + out.stride);
  if (words.empty()) return out;
  size_t at = 1;
  if (format & kReadTotalTimeEnabled) out.time_enabled = words[at++];
  if (format & kReadTotalTimeRunning) out.time_running = words[at++];
  words[at - 1] = words[0];
  out.words = words.subspan(at - 1);
  return out;
}

bool DecodeSample(const DecodeContext& context, std::span<std::byte> bytes, Sample* sample) {
  const EventAttr& attr = *context.attr;
  const uint64_t type = attr.sample_type;
  Cursor cursor(bytes.data(), bytes.size(), context.swap, context.copies);
  DecodeFixed(type, &cursor, sample);
  if (type & kSampleRead) sample->read = DecodeCounterValues(attr.read_format, &cursor);
  if (type & kSampleCallchain) {
    uint64_t count = cursor.U64();
    sample->chain = cursor.U64s(count);
  }
  if (type & kSampleRaw) {
    uint32_t size = cursor.U32();
    sample->raw = cursor.Bytes(size);
  }
  if (type & kSampleBranchStack) DecodeBranches(attr, &cursor, sample);
  DecodeTail(attr, &cursor, sample);
  return cursor.ok();
}

}  // namespace brink::perfdata
