// A machine that executes A64 instructions: QEMU's user emulation, or this one where it is of that kind.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

extern "C" {
#include "case.h"
}

namespace brink::walk_test {

class Machine {
 public:
  // Nothing where none can be had; `why` says what is missing.
  static std::unique_ptr<Machine> Start(std::string* why);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // At most A64_BATCH cases. Nothing when the machine has died.
  std::vector<a64_state> Run(std::span<const a64_input> cases);

 private:
  Machine(pid_t child, int in, int out) : child_(child), in_(in), out_(out) {}
  pid_t child_;
  int in_, out_;
};

}  // namespace brink::walk_test
