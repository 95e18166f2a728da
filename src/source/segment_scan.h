// Finds code that changes segment bases behind the kernel's back (WRFSBASE, WRGSBASE; of A64 the thread's TPIDR_EL0).
//
// thread.fsbase, which the walker reads, is true only for threads that never execute these instructions: a process with
// such code among its executable mappings gets unknown segment bases. The search is by byte pattern at every offset, so
// it may find too much (data that looks alike), never too little.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "source/vm_areas.h"

namespace brink {

// F3 [REX] 0F AE /2 or /3 with a register operand. Longest form: 5 bytes.
bool HasSegmentBaseWrite(std::span<const uint8_t> code);
// A64: where MSR TPIDR_EL0 of any register is, at or behind offset `from`, in words at multiples of four. npos: nowhere.
size_t FindThreadBaseWriteA64(std::span<const uint8_t> code, size_t from = 0);
// A64: the write at `at` is the one of a static program's C library, before the first instruction of the program's own: what
// comes next, there or in the function called next, is set_tid_address for the first thread. `read` gives up to so many words
// of code from an address on.
using ReadA64Words = std::function<std::vector<uint32_t>(uint64_t address, size_t words)>;
bool MakesFirstThreadA64(uint64_t at, const ReadA64Words& read);
// The dynamic loader of that machine sets the base once, before a program's first instruction; the kernel has the value
// from the thread's next switch on (bpf/walk/machine.h).
bool SetsThreadBaseAtStart(const std::string& path);

// Remembers the answer by file, so that a library is read once in a run. Not thread-safe.
class SegmentScanner {
 public:
  explicit SegmentScanner(std::string proc_root = "/proc") : proc_root_(std::move(proc_root)) {}

  struct Answer {
    bool writes = false;      // or not readable: then it must be assumed
    std::string where;        // the mapping that decided, "" when none
    bool unreadable = false;
  };
  // Every executable mapping of the process. Bytes come from /proc/PID/mem (what really is mapped, private changes
  // included); files that are mapped unchanged are read once only.
  Answer Scan(pid_t pid, const std::vector<VmArea>& areas);

 private:
  // inode, offset, length and name: enough to know a mapping again, as private changes are caught by the lifter, which
  // sees every line of code that is walked.
  using Key = std::tuple<uint64_t, uint64_t, uint64_t, std::string>;

  StatusOr<bool> ScanArea(int mem_fd, const VmArea& area);

  std::string proc_root_;
  std::map<Key, bool> known_;
};

}  // namespace brink
