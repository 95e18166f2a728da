#include "source/segment_scan.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

namespace brink {
namespace {

constexpr size_t kBlock = 1 << 20;
constexpr size_t kLongest = 5;
constexpr size_t kMaxKnown = 65536;

}  // namespace

bool HasSegmentBaseWrite(std::span<const uint8_t> code) {
  // 0F AE is rare; from there look back for the F3 prefix and forward for the operand.
  const uint8_t* p = code.data();
  const uint8_t* end = p + code.size();
  while (p < end) {
    p = static_cast<const uint8_t*>(std::memchr(p, 0xae, static_cast<size_t>(end - p)));
    if (!p) return false;
    size_t before = static_cast<size_t>(p - code.data());
    if (before >= 2 && p[-1] == 0x0f && p + 1 < end && p[1] >= 0xd0 && p[1] <= 0xdf) {
      bool plain = p[-2] == 0xf3;
      bool rex = before >= 3 && (p[-2] & 0xf0) == 0x40 && p[-3] == 0xf3;
      if (plain || rex) return true;
    }
    ++p;
  }
  return false;
}

StatusOr<bool> SegmentScanner::ScanArea(int mem_fd, const VmArea& area) {
  std::vector<uint8_t> block(kBlock + kLongest);
  size_t kept = 0;  // bytes of the previous block at the front: a pattern may lie across
  for (uint64_t at = area.start; at < area.end;) {
    size_t want = static_cast<size_t>(std::min<uint64_t>(kBlock, area.end - at));
    ssize_t n = ::pread(mem_fd, block.data() + kept, want, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoError(n < 0 ? errno : EIO, "reading code");
    size_t have = kept + static_cast<size_t>(n);
    if (HasSegmentBaseWrite({block.data(), have})) return true;
    kept = std::min(have, kLongest - 1);
    std::memmove(block.data(), block.data() + have - kept, kept);
    at += static_cast<uint64_t>(n);
  }
  return false;
}

SegmentScanner::Answer SegmentScanner::Scan(pid_t pid, const std::vector<VmArea>& areas) {
  auto mem = OpenFile(proc_root_ + "/" + std::to_string(pid) + "/mem", O_RDONLY);
  Answer answer;
  for (const VmArea& area : areas) {
    if (!area.executable || area.path == "[vsyscall]" || area.path == "[vdso]" || area.path == "[uprobes]") continue;
    Key key{area.inode, area.offset, area.end - area.start, area.path};
    bool is_file = area.inode != 0 && !area.writable;
    if (auto it = known_.find(key); is_file && it != known_.end()) {
      if (!it->second) continue;
      return {.writes = true, .where = area.path};
    }
    auto writes = mem.ok() ? ScanArea(mem->get(), area) : StatusOr<bool>(mem.status());
    if (!writes.ok()) return {.writes = true, .where = area.path, .unreadable = true};
    if (is_file && known_.size() < kMaxKnown) known_[key] = *writes;
    if (*writes) return {.writes = true, .where = area.path};
  }
  return answer;
}

}  // namespace brink
