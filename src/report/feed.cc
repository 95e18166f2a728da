#include "report/feed.h"

#include <linux/perf_event.h>
#include <sys/utsname.h>

#include <cstring>

#include "perfdata/decode.h"

namespace brink::report {

using perfdata::Record;

void ApplyBuildIds(const perfdata::Features& features, symbol::ObjectTable* objects) {
  for (const perfdata::BuildIdEntry& entry : features.build_ids) {
    std::string_view name = entry.filename;
    objects->AddBuildId(name, entry.build_id);
  }
}

void ApplyRecord(const Record& record, symbol::AddressSpaces* spaces) {
  if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body)) {
    const bool kernel = record.cpumode() == perfdata::kMiscKernel || mmap->pid == UINT32_MAX;
    const bool may_run = kernel || !mmap->data || (mmap->prot & 4) != 0;
    spaces->Mmap({.pid = static_cast<int32_t>(mmap->pid), .start = mmap->start, .length = mmap->length, .page_offset = mmap->pgoff,
                  .path = mmap->filename, .build_id = mmap->build_id, .kernel = kernel, .executable = may_run});
  } else if (const auto* comm = std::get_if<perfdata::Comm>(&record.body)) {
    spaces->Comm(static_cast<int32_t>(comm->pid), static_cast<int32_t>(comm->tid), comm->comm, comm->exec);
  } else if (const auto* task = std::get_if<perfdata::Task>(&record.body)) {
    if (task->exit) spaces->Exit(static_cast<int32_t>(task->pid), static_cast<int32_t>(task->tid));
    else spaces->Fork(static_cast<int32_t>(task->pid), static_cast<int32_t>(task->tid), static_cast<int32_t>(task->ppid), static_cast<int32_t>(task->ptid));
  } else if (const auto* ksymbol = std::get_if<perfdata::Ksymbol>(&record.body)) {
    spaces->Ksymbol({.address = ksymbol->addr, .length = ksymbol->length, .name = ksymbol->name, .unregister = (ksymbol->flags & 1) != 0});
  }
}

void ApplyLiveRecord(std::span<const std::byte> bytes, symbol::AddressSpaces* spaces) {
  perf_event_header header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  perfdata::EventAttr attr = {};
  attr.flags = perfdata::kAttrMmap2 | perfdata::kAttrBuildId;
  perfdata::RecordLayout layout;  // the trailer has been taken off
  perfdata::AlignedCopies copies;
  Record record;
  record.type = header.type;
  record.misc = header.misc;
  record.size = header.size;
  std::vector<std::byte> body(bytes.begin() + sizeof(header), bytes.end());
  if (perfdata::DecodeBody({.attr = &attr, .layout = &layout, .swap = false, .copies = &copies}, body, &record)) ApplyRecord(record, spaces);
}

StackMeta MetaOf(const perfdata::EventInfo& event) {
  if (event.notes) return {.contiguous = event.notes->contiguous, .call_stack = false};
  const uint64_t type = event.attr.branch_sample_type;
  StackMeta meta;
  meta.call_stack = type & perfdata::kBranchCallStack;
  constexpr uint64_t kKinds = perfdata::kBranchAnyCall | perfdata::kBranchAnyReturn | perfdata::kBranchIndCall | perfdata::kBranchAbortTx |
                              perfdata::kBranchInTx | perfdata::kBranchNoTx | perfdata::kBranchCond | perfdata::kBranchIndJump | perfdata::kBranchCall;
  // In the hardware and in the kernel's software filter ANY wins over single kinds; a TX condition narrows all the same.
  constexpr uint64_t kNarrowing = perfdata::kBranchInTx | perfdata::kBranchNoTx | perfdata::kBranchAbortTx;
  if (type & perfdata::kBranchAny) meta.contiguous = (type & kNarrowing) == 0;
  else meta.contiguous = (type & (kKinds | perfdata::kBranchCallStack)) == 0;
  return meta;
}

bool RecordedElsewhere(const perfdata::Features& features) {
  struct utsname here;
  if (uname(&here) != 0) return false;
  return (!features.os_release.empty() && features.os_release != here.release) ||
         (!features.hostname.empty() && features.hostname != here.nodename);
}

}  // namespace brink::report
