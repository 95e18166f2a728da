// One run of Workload twice: single-stepped, which is the truth, and at full speed, as the branch hardware saw it.
#pragma once

#include <ostream>
#include <vector>

#include "harness.h"

namespace brink::guest {

struct Edge {
  uint64_t from, to;
  bool operator==(const Edge&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Edge& e) {
    return out << std::hex << e.from << "->" << e.to << std::dec;
  }
};

// Taken branches of a child that runs Workload, oldest first, by stepping each instruction.
std::vector<Edge> Stepped(unsigned seed, char* memory);

// The same run at full speed on the calling thread's CPU, with a branch event of `branch_type` held open: the stack that
// a snapshot has at Workload's system call, newest first. `select` receives the hardware's LBR_SELECT of the run.
Stack Recorded(unsigned seed, char* memory, uint64_t branch_type, uint64_t* select = nullptr);

// Those from user code, oldest first: without the returns from faults and interrupts.
std::vector<Edge> UserEdges(const Stack& stack);

}  // namespace brink::guest
