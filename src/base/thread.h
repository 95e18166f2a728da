// Starting threads: a kernel that has none to give is an error like any other, not an exception.
#pragma once

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

}  // namespace brink
