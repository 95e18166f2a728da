// --errno-path: the captures of one failed system call as one picture. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "snap/capture.h"

namespace brink::snap {

struct PrintOptions;

// Gathers captures by thread until the system call's own comes. Bounded: at most kMostThreads threads with open captures,
// kMostOpen each; what is dropped for room counts as overruled.
class ErrnoPaths {
 public:
  static constexpr size_t kMostThreads = 1024, kMostOpen = 64;

  // In order of time. When `capture` is of a system call: what belongs to that call, innermost first, the call last. Errors
  // of functions whose call succeeded all the same (a capability overruled them) belong to no later one: counted.
  std::optional<std::vector<Capture>> Add(Capture capture);
  uint64_t overruled() const { return overruled_; }

 private:
  std::map<uint32_t, std::vector<Capture>> open_;  // by tid
  uint64_t overruled_ = 0;
};

// A call tree from the system call inwards, with the results that were seen, and below the function that returned the error
// first its own branches, newest first. `path` is what Add gave.
std::string ErrnoPathText(std::span<const Capture> path, const PrintOptions& options);

}  // namespace brink::snap
