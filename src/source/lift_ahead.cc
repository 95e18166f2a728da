// Code that walks have not come to yet: what a miss leads to, and what the functions return to that are under way there.
#include <algorithm>
#include <deque>

#include <absl/container/flat_hash_set.h>

#include "source/lift_service.h"
#include "source/process_memory.h"

namespace brink {
namespace {

constexpr size_t kMaxAhead = 4096;  // ways waiting to be followed for one miss
constexpr int kUserBits = 56;  // no machine has larger addresses in user space; on arm64 libraries lie above 2^47
constexpr double kIdleRoom = 0.2;
constexpr size_t kStackBytes = 8192, kMaxReturns = 32;

// Does a call end here? Some bytes look like one and are none, which costs a look.
bool BehindCall(const ProcessMemory& memory, uint64_t address) {
#if defined(__aarch64__)
  uint32_t word = 0;
  if (address % 4 != 0 || !memory.Read(address - 4, &word, sizeof word)) return false;
  return (word & 0xfc000000) == 0x94000000 || (word & 0xfefff000) == 0xd63f0000;  // bl; blr and its authenticated forms
#else
  constexpr size_t kLongest = 7;
  uint8_t code[kLongest];
  if (!memory.Read(address - kLongest, code, kLongest)) return false;
  if (code[kLongest - 5] == 0xe8) return true;
  // ff /2 with its register or memory operand of up to five bytes.
  for (size_t length = 2; length <= kLongest; ++length) {
    const uint8_t* at = code + kLongest - length;
    if (at[0] == 0xff && (at[1] >> 3 & 7) == 2) return true;
  }
  return false;
#endif
}

// Where functions return to whose frames lie from `sp` on, the innermost first.
std::vector<uint64_t> Returns(const ProcessMemory& memory, uint64_t sp) {
  std::vector<uint64_t> found;
  if (sp < BRINK_WALK_PAGE_SIZE || sp % sizeof(uint64_t) != 0) return found;
  uint64_t words[BRINK_WALK_PAGE_SIZE / sizeof(uint64_t)];
  for (uint64_t at = sp, end = sp + kStackBytes; at < end && found.size() < kMaxReturns;) {
    const size_t bytes = std::min(end, (at | (BRINK_WALK_PAGE_SIZE - 1)) + 1) - at;
    if (!memory.Read(at, words, bytes)) break;
    at += bytes;
    for (size_t i = 0; i < bytes / sizeof(uint64_t) && found.size() < kMaxReturns; ++i) {
      if (!memory.Executable(words[i]) || std::find(found.begin(), found.end(), words[i]) != found.end()) continue;
      if (BehindCall(memory, words[i])) found.push_back(words[i]);
    }
  }
  return found;
}

}  // namespace

bool LiftService::GoesOnAhead(size_t done, size_t most) {
  if (done < most) return true;
  if (most < options_.ahead_pages || done >= options_.idle_pages || Room() <= kIdleRoom) return false;
  MutexLock lock(mutex_);
  return queue_.empty() && !stop_;
}

void LiftService::LiftAhead(const brink_miss& miss, std::vector<walk::WayOut> ways, size_t most) {
  ProcessMemory memory(options_.proc_root, miss.tgid);
  if (!memory.ok()) return;  // gone, or not allowed: the next miss brings the code
  std::deque<uint64_t> waiting;
  absl::flat_hash_set<uint64_t> seen = {miss.address};
  uint64_t lifted = 0;
  auto add = [&](uint64_t page, const std::vector<walk::WayOut>& from) {
    for (const walk::WayOut& way : from) {
      uint64_t to = page + static_cast<uint64_t>(way.offset);
      if (way.through_pointer && !memory.Read(to, &to, sizeof to)) continue;
      if (to < BRINK_WALK_PAGE_SIZE || to >> kUserBits || !seen.insert(to).second) continue;
      if (waiting.size() < kMaxAhead) waiting.push_back(to);
    }
  };
  for (uint64_t to : Returns(memory, miss.sp)) {
    if (seen.insert(to).second) waiting.push_back(to);
  }
  add(PageOf(miss.address), ways);
  uint8_t code[BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL];
  for (size_t done = 0; !waiting.empty() && GoesOnAhead(done, most);) {
    uint64_t address = waiting.front(), page = PageOf(address);
    waiting.pop_front();
    if (!memory.Executable(address) || !memory.Read(page, code, BRINK_WALK_PAGE_SIZE)) continue;
    bool tail = memory.Read(page + BRINK_WALK_PAGE_SIZE, code + BRINK_WALK_PAGE_SIZE, BRINK_WALK_TAIL);
    ways.clear();
    const PageCode there{miss.asid, page, {code, BRINK_WALK_PAGE_SIZE + (tail ? size_t{BRINK_WALK_TAIL} : 0)}};
    if (LiftAll(there, {OffsetOf(address)}, &ways) == 0) continue;
    ++done;
    ++lifted;
    add(page, ways);
  }
  MutexLock lock(mutex_);
  stats_.ahead += lifted;
}

}  // namespace brink
