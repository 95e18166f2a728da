#include "source/segment_scan.h"

#include <cerrno>
#include <cstring>
#include <string_view>
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

size_t FindThreadBaseWriteA64(std::span<const uint8_t> code, size_t from) {
  constexpr uint32_t kMask = 0xffffffe0, kWrite = 0xd51bd040;
  for (size_t at = (from + 3) & ~size_t{3}; at + 4 <= code.size(); at += 4) {
    uint32_t word;
    std::memcpy(&word, code.data() + at, sizeof word);
    if ((word & kMask) == kWrite) return at;
  }
  return std::string_view::npos;
}

namespace {

// b, and what goes by a register: br, blr, ret and their forms with pointer authentication.
bool LeavesA64(uint32_t word) { return (word & 0xfc000000) == 0x14000000 || (word & 0xfe000000) == 0xd6000000; }

// Whether the first system call of straight code is set_tid_address.
bool CallsSetTidAddress(std::span<const uint32_t> code) {
  constexpr uint32_t kMoveTo8Mask = 0x7f80001f, kMoveTo8 = 0x52800008, kNumber = 96 << 5, kCall = 0xd4000001;
  bool number = false;
  for (const uint32_t word : code) {
    if ((word & kMoveTo8Mask) == kMoveTo8) number = (word & ~kMoveTo8Mask & 0x7fffffff) == kNumber;
    else if ((word & 31) == 8) number = false;  // perhaps another value
    if (word == kCall) return number;
    if (LeavesA64(word)) return false;
  }
  return false;
}

}  // namespace

bool MakesFirstThreadA64(uint64_t at, const ReadA64Words& read) {
  constexpr size_t kBehind = 16, kCalled = 48;
  constexpr uint32_t kLinkMask = 0xfc000000, kLink = 0x94000000;
  const std::vector<uint32_t> behind = read(at + 4, kBehind);
  for (size_t i = 0; i < behind.size(); ++i) {
    if (LeavesA64(behind[i])) return CallsSetTidAddress({behind.data(), i});
    if ((behind[i] & kLinkMask) != kLink) continue;
    const int64_t words = static_cast<int32_t>(behind[i] << 6) >> 6;
    return CallsSetTidAddress(read(at + 4 + 4 * i + static_cast<uint64_t>(4 * words), kCalled));
  }
  return CallsSetTidAddress(behind);
}

bool SetsThreadBaseAtStart(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.rfind("ld-linux-aarch64", 0) == 0 || name.rfind("ld-musl-aarch64", 0) == 0;
}

namespace {

// `start`: where the code lies in the process that mem_fd reads.
bool ChangesBases([[maybe_unused]] int mem_fd, [[maybe_unused]] uint64_t start, std::span<const uint8_t> code) {
#if defined(__aarch64__)
  const auto read = [mem_fd](uint64_t address, size_t words) {
    std::vector<uint32_t> out(words);
    const ssize_t n = ::pread(mem_fd, out.data(), words * sizeof(uint32_t), static_cast<off_t>(address));
    out.resize(n > 0 ? static_cast<size_t>(n) / sizeof(uint32_t) : 0);
    return out;
  };
  for (size_t at = FindThreadBaseWriteA64(code); at != std::string_view::npos; at = FindThreadBaseWriteA64(code, at + 4)) {
    if (!MakesFirstThreadA64(start + at, read)) return true;
  }
  return false;
#else
  return HasSegmentBaseWrite(code);
#endif
}

}  // namespace

StatusOr<bool> SegmentScanner::ScanArea(int mem_fd, const VmArea& area) {
  std::vector<uint8_t> block(kBlock + kLongest);
  size_t kept = 0;  // bytes of the previous block at the front: a pattern may lie across
  for (uint64_t at = area.start; at < area.end;) {
    size_t want = static_cast<size_t>(std::min<uint64_t>(kBlock, area.end - at));
    ssize_t n = ::pread(mem_fd, block.data() + kept, want, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoError(n < 0 ? errno : EIO, "reading code");
    size_t have = kept + static_cast<size_t>(n);
    if (ChangesBases(mem_fd, at - kept, {block.data(), have})) return true;
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
#if defined(__aarch64__)
    if (SetsThreadBaseAtStart(area.path)) continue;
#endif
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
