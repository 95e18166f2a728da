// Names for kernel and user addresses and containers, for spike reports: looked up while the process is still there.
#pragma once

#include <memory>
#include <string>

#include "latency/blame.h"

namespace brink::latency {

// Reads the kernel's symbols when made; processes on first use. Not thread safe.
class NameFinder {
 public:
  NameFinder();
  ~NameFinder();
  // Refers to this object.
  Names names();
  // Why kernel addresses stay numbers, "" fine.
  const std::string& kernel_error() const { return kernel_error_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string kernel_error_;
};

}  // namespace brink::latency
