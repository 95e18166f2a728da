#include "snap/namer.h"

#include <linux/perf_event.h>
#include <sys/stat.h>

#include <cstring>

#include "perfdata/decode.h"
#include "report/feed.h"

namespace brink::snap {

void AddressNamer::Observe(const PerfRecordView& view, const std::function<void(const perfdata::Cgroup&)>& on_cgroup) {
  if (view.record.size() < sizeof(perf_event_header)) return;
  perf_event_header header;
  std::memcpy(&header, view.record.data(), sizeof(header));
  perfdata::EventAttr attr = {};
  attr.flags = perfdata::kAttrMmap2 | perfdata::kAttrBuildId;
  perfdata::RecordLayout layout;  // the trailer has been taken off
  perfdata::AlignedCopies copies;
  perfdata::Record record;
  record.type = header.type;
  record.misc = header.misc;
  record.size = header.size;
  std::vector<std::byte> bytes(view.record.begin() + sizeof(header), view.record.end());
  if (!perfdata::DecodeBody({.attr = &attr, .layout = &layout, .swap = false, .copies = &copies}, bytes, &record)) return;
  if (const auto* cgroup = std::get_if<perfdata::Cgroup>(&record.body)) {
    if (on_cgroup) on_cgroup(*cgroup);
    return;
  }
  report::ApplyRecord(record, &spaces_);
  if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body)) KeepPrivateFile(*mmap);
}

// A file that only the process's own root or mount namespace has is opened while the process lives: it may be gone, and
// the file with it, when its name is wanted.
void AddressNamer::KeepPrivateFile(const perfdata::Mmap& mmap) {
  if (mmap.data || !mmap.filename.starts_with('/') || mmap.filename.starts_with("//")) return;
  const std::string path(mmap.filename);
  struct stat theirs, ours;
  if (stat(("/proc/" + std::to_string(mmap.pid) + "/root" + path).c_str(), &theirs) != 0) return;
  if (stat(path.c_str(), &ours) == 0 && ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev) return;
  const symbol::Mapping* mapping = spaces_.Find(static_cast<int32_t>(mmap.pid), mmap.start);
  if (mapping) symbolizer_.FileOf(mapping->object);
}

NamedAddress AddressNamer::NameOf(int32_t pid, uint64_t address, bool lines, bool call_site) {
  NamedAddress named = {.address = address, .kernel = symbol::AddressSpaces::IsKernel(address)};
  // A return address belongs to the call before it.
  symbol::Location location = spaces_.Normalise(pid, call_site && address ? address - 1 : address);
  const symbol::Function& function = symbolizer_[symbolizer_.FunctionAt(location)];
  named.object = objects_[location.object].ShortName();
  if (!function.resolved()) return named;
  named.symbol = function.name;
  auto vaddr = symbolizer_.VaddrOf(location);
  uint64_t at = vaddr ? *vaddr : location.offset;
  named.offset = at >= function.start ? at - function.start + (call_site && address ? 1 : 0) : 0;
  if (!lines || named.kernel) return named;
  std::vector<symbol::SourceFrame> frames = symbolizer_.FramesAt(location);
  if (!frames.empty() && frames[0].line) {
    named.line = frames[0].file.substr(frames[0].file.rfind('/') + 1) + ":" + std::to_string(frames[0].line);
    for (const symbol::SourceFrame& frame : frames) {
      if (frame.inlined) named.inlined.push_back(frame.function);
    }
  }
  return named;
}

// Whether the bytes before a return address are a call: E8 of five bytes, or FF /2 of two to seven.
bool AddressNamer::FollowsCall(int32_t pid, uint64_t address) {
  constexpr uint64_t kLongest = 7;
  symbol::Location location = spaces_.Normalise(pid, address - kLongest);
  auto code = symbolizer_.CodeAt(location, kLongest);
  if (!code.ok() || code->size() != kLongest) return false;
#if defined(__x86_64__)
  auto byte = [&](size_t i) { return static_cast<uint8_t>((*code)[i]); };
  if (byte(2) == 0xe8) return true;
  for (size_t length = 2; length <= kLongest; ++length) {
    size_t at = kLongest - length;
    if (byte(at) == 0xff && (byte(at + 1) >> 3 & 7) == 2) return true;
  }
  return false;
#else
  // bl, blr
  uint32_t word;
  std::memcpy(&word, code->data() + 3, sizeof(word));
  return word >> 26 == 0x25 || (word & 0xfffffc1f) == 0xd63f0000;
#endif
}

}  // namespace brink::snap
