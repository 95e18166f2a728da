// The truth about walks: a foreign program is stopped at random places in user mode, a predictor says which branches
// come next, and then the CPU is stepped through them, instruction by instruction, and compared.
//
// Other threads may change what a walk has read, before the walked thread comes to it. So that this can be told from a
// fault of the walker, the other threads are stopped while the CPU is stepped: either from before the walk on (`alone`:
// nothing may differ then), or `delay_us` after it. In the second case the walk is made again once they stand; a
// difference is explained if this second walk agrees with the CPU and memory that the first had read has changed.
//
// Runs in the test process itself (no helper): the programs die with it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/branch.h"
#include "ptrace/tracee.h"

namespace brink::fidelity {

// Lines of memory as a walk has read them, by address.
using MemoryLog = std::map<uint64_t, std::array<uint8_t, 64>>;

struct Prediction {
  std::vector<brink_branch> branches;  // oldest first
  brink_stop stop = BRINK_STOP_NONE;
  uint64_t end_ip = 0;                 // first instruction not followed
  uint32_t steps = 0;
  std::shared_ptr<const MemoryLog> memory;  // null: not known (a walk in the kernel)
};

// Registers of a stopped thread and its memory; the thread does not run during the call. `process` tells address spaces
// apart: a new number after every exec.
using Predictor = std::function<Prediction(uint64_t process, const ptrace::Regs& regs, decode::Memory& memory)>;

struct Options {
  uint32_t depth = 32;
  uint32_t windows = 25;               // wanted of one program
  uint64_t min_period_ns = 30'000;     // of user time between two stops
  uint64_t max_period_ns = 2'000'000;
  double seconds = 20;                 // enough beyond, once there are `least`
  uint32_t least = 5;                  // windows that are waited for, however slow the machine
  uint64_t seed = 1;
  bool alone = false;                  // the other threads stand before the walk is made
  uint64_t delay_us = 0;               // else: how long they run on after it
  // The walk that is made again when the others stand; it must keep a log. Not needed with `alone`.
  Predictor again;
  // Every clock event that is opened to stop a thread. Set where the walk is made in that very event.
  std::function<void(int fd)> on_tick;
};

struct Program {
  std::string name;
  std::vector<std::string> argv;
  bool single_threaded = true;
  std::string stdin_path;              // empty: /dev/null
};

// A window whose prediction the CPU did not follow.
struct Wrong {
  std::string program;
  bool explained = false;
  std::string text;                    // registers, what was said, what came, the last instructions
};

struct Tally {
  uint32_t windows = 0;
  uint32_t exact_full = 0;             // as many branches as asked for, all true
  uint32_t shortened = 0;              // fewer, all true
  uint32_t wrong = 0;
  uint32_t explained = 0;              // of them: memory was changed by another thread, proved
  uint32_t disturbed = 0;              // a signal or the end of the thread came in between: not judged
  uint32_t at_least_half = 0;          // depth / 2 or more
  uint64_t branches = 0;
  uint64_t steps = 0;
  std::map<int, uint32_t> stops;                   // by brink_stop, of the shortened
  std::map<std::string, uint32_t> at_instruction;  // "UNSUPPORTED vpaddq": what the shortened ones ended at
  std::vector<Wrong> wrongs;

  void Add(const Tally& other);
};

// Runs `program` again and again until `options.windows` stops have been judged.
Tally Judge(const Program& program, const Predictor& predict, const Options& options);

// Reach and verdicts, a line a program; then the instructions at which most walks end.
std::string Table(const std::vector<std::pair<std::string, Tally>>& tallies, uint32_t depth);

}  // namespace brink::fidelity
