// Records of the kernel other than samples, and the trailer that tells their time and origin.
#include "perfdata/decode.h"

#include <algorithm>
#include <cstring>

namespace brink::perfdata {
namespace {

// All that precedes a name: the rest of the body is text.
std::string_view Rest(Cursor* cursor) { return cursor->Text(cursor->left()); }

// Whether an MMAP2 record really has the form with a build id. The kernel prepares one record for all events and sets
// the bit in it when the first of them asked for build ids; later events that did not ask get the bit without the id
// (perf_event_mmap_output, seen on 6.18). So the bit alone is believed only where the event asked.
bool HasBuildId(const EventAttr& attr, uint16_t misc, const Cursor& at_form) {
  if (!(misc & kMiscMmapBuildId) || at_form.left() < 4 + kBuildIdMax) return false;
  uint8_t bytes[4 + kBuildIdMax];
  std::memcpy(bytes, at_form.at(), sizeof bytes);
  const size_t size = bytes[0];
  if (size == 0 || size > kBuildIdMax || bytes[1] || bytes[2] || bytes[3]) return false;
  if (attr.flags & kAttrBuildId) return true;
  // Rewritten by perf inject, or a device number: ids have at least 16 bytes, and zeros behind them.
  return size >= 16 && std::all_of(bytes + 4 + size, std::end(bytes), [](uint8_t b) { return b == 0; });
}

bool DecodeMmap(const EventAttr& attr, bool mmap2, uint16_t misc, Cursor* cursor, Mmap* mmap) {
  mmap->mmap2 = mmap2;
  mmap->data = misc & kMiscMmapData;
  mmap->pid = cursor->U32();
  mmap->tid = cursor->U32();
  mmap->start = cursor->U64();
  mmap->length = cursor->U64();
  mmap->pgoff = cursor->U64();
  if (mmap2 && HasBuildId(attr, misc, *cursor)) {
    uint8_t size = cursor->U8();
    cursor->Skip(3);
    std::span<const std::byte> id = cursor->Bytes(kBuildIdMax);
    mmap->build_id = std::string_view(reinterpret_cast<const char*>(id.data()), size);
  } else if (mmap2) {
    mmap->major = cursor->U32();
    mmap->minor = cursor->U32();
    mmap->inode = cursor->U64();
    mmap->inode_generation = cursor->U64();
  }
  if (mmap2) {
    mmap->prot = cursor->U32();
    mmap->flags = cursor->U32();
  }
  mmap->filename = Rest(cursor);
  return cursor->ok();
}

Task DecodeTask(bool exit, Cursor* cursor) {
  Task task{.exit = exit};
  task.pid = cursor->U32();
  task.ppid = cursor->U32();
  task.tid = cursor->U32();
  task.ptid = cursor->U32();
  task.time = cursor->U64();
  return task;
}

Namespaces DecodeNamespaces(Cursor* cursor) {
  Namespaces out;
  out.pid = cursor->U32();
  out.tid = cursor->U32();
  uint64_t count = cursor->U64();
  out.pairs = cursor->U64s(count > cursor->left() ? UINT64_MAX : count * 2);
  return out;
}

Ksymbol DecodeKsymbol(Cursor* cursor) {
  Ksymbol out;
  out.addr = cursor->U64();
  out.length = cursor->U32();
  out.symbol_type = cursor->U16();
  out.flags = cursor->U16();
  out.name = Rest(cursor);
  return out;
}

BpfEvent DecodeBpfEvent(Cursor* cursor) {
  BpfEvent out;
  out.bpf_type = cursor->U16();
  out.flags = cursor->U16();
  out.prog_id = cursor->U32();
  out.tag = cursor->Bytes(8);
  return out;
}

TextPoke DecodeTextPoke(Cursor* cursor) {
  TextPoke out;
  out.addr = cursor->U64();
  uint16_t old_size = cursor->U16(), new_size = cursor->U16();
  out.old_bytes = cursor->Bytes(old_size);
  out.new_bytes = cursor->Bytes(new_size);
  return out;
}

void DecodeTrailer(const DecodeContext& context, std::span<std::byte> trailer, Record* record) {
  Cursor cursor(trailer.data(), trailer.size(), context.swap);
  const uint64_t type = context.attr->sample_type;
  if (type & kSampleTid) {
    record->id.pid = cursor.U32();
    record->id.tid = cursor.U32();
  }
  if (type & kSampleTime) record->id.time = cursor.U64();
  if (type & kSampleId) record->id.id = cursor.U64();
  if (type & kSampleStreamId) record->id.stream_id = cursor.U64();
  if (type & kSampleCpu) {
    record->id.cpu = cursor.U32();
    cursor.Skip(4);
  }
  if (type & kSampleIdentifier) record->id.id = cursor.U64();
  record->time = record->id.time;
}

bool DecodeKernelRecord(const DecodeContext& context, Cursor cursor, Record* record) {
  Cursor* c = &cursor;
  switch (record->type) {
    case kRecordMmap:
    case kRecordMmap2: return DecodeMmap(*context.attr, record->type == kRecordMmap2, record->misc, c, &record->body.emplace<Mmap>());
    case kRecordComm: {
      Comm comm{.exec = (record->misc & kMiscCommExec) != 0};
      comm.pid = c->U32();
      comm.tid = c->U32();
      comm.comm = Rest(c);
      record->body = comm;
      break;
    }
    case kRecordFork:
    case kRecordExit: record->body = DecodeTask(record->type == kRecordExit, c); break;
    case kRecordLost: {
      uint64_t id = c->U64();
      record->body = Lost{id, c->U64()};
      break;
    }
    case kRecordLostSamples: record->body = LostSamples{c->U64()}; break;
    case kRecordThrottle:
    case kRecordUnthrottle: {
      Throttle out{.throttled = record->type == kRecordThrottle};
      out.time = c->U64();
      out.event_id = c->U64();
      out.stream_id = c->U64();
      record->body = out;
      break;
    }
    case kRecordRead: {
      CounterRead read;
      read.pid = c->U32();
      read.tid = c->U32();
      read.values = DecodeCounterValues(context.attr->read_format, c);
      record->body = read;
      break;
    }
    case kRecordAux: {
      uint64_t offset = c->U64(), size = c->U64();
      record->body = AuxData{offset, size, c->U64()};
      break;
    }
    case kRecordItraceStart: {
      uint32_t pid = c->U32();
      record->body = ItraceStart{pid, c->U32()};
      break;
    }
    case kRecordSwitch: record->body = ContextSwitch{.out = (record->misc & kMiscSwitchOut) != 0}; break;
    case kRecordSwitchCpuWide: {
      ContextSwitch out{.out = (record->misc & kMiscSwitchOut) != 0, .cpu_wide = true};
      out.next_prev_pid = c->U32();
      out.next_prev_tid = c->U32();
      record->body = out;
      break;
    }
    case kRecordNamespaces: record->body = DecodeNamespaces(c); break;
    case kRecordKsymbol: record->body = DecodeKsymbol(c); break;
    case kRecordBpfEvent: record->body = DecodeBpfEvent(c); break;
    case kRecordCgroup: {
      uint64_t id = c->U64();
      record->body = Cgroup{id, Rest(c)};
      break;
    }
    case kRecordTextPoke: record->body = DecodeTextPoke(c); break;
    case kRecordAuxOutputHwId: record->body = AuxOutputHwId{c->U64()}; break;
    default: record->body = Other{c->Bytes(c->left())}; break;
  }
  return cursor.ok();
}

// Bytes before the name or trailer; a shorter body has no trailer, as some old tools synthesise records without one.
size_t FixedSize(uint32_t type) {
  switch (type) {
    case kRecordMmap: return 32;
    case kRecordMmap2: return 64;
    case kRecordFork:
    case kRecordExit:
    case kRecordThrottle:
    case kRecordUnthrottle:
    case kRecordAux: return 24;
    case kRecordLost:
    case kRecordKsymbol:
    case kRecordBpfEvent:
    case kRecordNamespaces: return 16;
    case kRecordSwitch: return 0;
    default: return 8;
  }
}

}  // namespace

bool DecodeBody(const DecodeContext& context, std::span<std::byte> bytes, Record* record) {
  if (record->type >= kRecordUserFirst) return DecodeToolRecord(context, bytes, record);
  if (record->type == kRecordSample) {
    Sample& sample = record->body.emplace<Sample>();
    if (!DecodeSample(context, bytes, &sample)) return false;
    record->time = sample.time;
    return true;
  }
  size_t trailer = context.layout->id_size;
  if (trailer != 0 && bytes.size() >= FixedSize(record->type) + trailer) {
    DecodeTrailer(context, bytes.last(trailer), record);
    bytes = bytes.first(bytes.size() - trailer);
  }
  return DecodeKernelRecord(context, Cursor(bytes.data(), bytes.size(), context.swap, context.copies), record);
}

}  // namespace brink::perfdata
