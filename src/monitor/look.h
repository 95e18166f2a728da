// What a process is and has in memory at the moment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace brink::cfi {

// Whether `pid` is still the process that began at `start_ns` (since boot; /proc counts in 10 ms).
bool IsStillTheSame(int32_t pid, uint64_t start_ns);

// Whether a process makes code of its own: a library of it or a map of it says so. `was`: what it has been, if it has gone.
bool MakesCode(int32_t pid, bool was);

struct Look {
  std::string stack;  // up to 4 KiB from the stack pointer on; "" not to be had
  std::string maps;   // of /proc, up to 256 KiB; "" not to be had
};

// Nothing of a process that has gone.
Look LookAt(int32_t pid, uint64_t start_ns, uint64_t stack_pointer);

// A page that is looked at may be of a file whose server does not answer (FUSE). So each look is a thread's own work,
// waited for so long; one that does not come back is left to itself, and until it has ended nothing else is looked at.
// One thread calls.
class Onlooker {
 public:
  using How = std::function<Look(int32_t pid, uint64_t start_ns, uint64_t stack_pointer)>;
  explicit Onlooker(std::chrono::milliseconds patience = std::chrono::milliseconds(200), How how = LookAt) : patience_(patience), how_(std::move(how)) {}
  Look At(int32_t pid, uint64_t start_ns, uint64_t stack_pointer);

 private:
  std::chrono::milliseconds patience_;
  How how_;
  std::shared_ptr<std::atomic<bool>> busy_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace brink::cfi
