// Starting threads: a kernel that has none to give is an error like any other, not an exception.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace brink {

// `what` completes "start ...": "start the writer's thread: Resource temporarily unavailable".
template <typename Body>
StatusOr<std::thread> StartThread(const std::string& what, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    return ErrnoError(error.code().value(), "start " + what);
  }
}

// CPU time of the calling thread.
inline uint64_t ThreadCpuNs() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace brink
