// Exclusive accesses (A64): from the load to the store that closes it, nothing may stop the thread. Every stop opens the
// CPU's monitor, the store fails, and the program tries again: under single step for ever. So such a sequence is run as
// a whole, to a breakpoint behind its store or where a branch leaves it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decode/flow.h"

namespace brink::ptrace {

struct Exclusive {
  struct Exit {
    uint64_t from, to;         // a conditional branch in the sequence
  };
  uint64_t end = 0;            // behind the store
  std::vector<Exit> exits;     // to different places, none of them `end`

  // Where a thread that has entered the sequence comes out.
  std::vector<uint64_t> Ends() const;
};

// The sequence that the load at `ip` begins. Nothing where it is not a short straight line whose branches tell by their
// targets which one was taken: then it is stepped like other code. Pure.
std::optional<Exclusive> ScanExclusive(uint64_t ip, decode::Memory& code, decode::Machine machine = decode::kHostMachine);

}  // namespace brink::ptrace
