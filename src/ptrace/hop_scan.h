// How far the code can be followed from a known point without looking at the thread again.
//
// Straight code, direct jumps and direct calls are certain. A return is taken as certain to go back to its call only
// while the stack pointer is known all the way and nothing was stored through it over the return address; even then the
// branches behind it count only when the thread really arrives at the next stop (the caller commits them there), so
// that a return address overwritten through another pointer shortens a stack instead of making it wrong. Where calls
// leave the return address in a register (A64), every return is looked at.
// Pure: bytes in, path out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brink/abi/event.h"
#include "base/branch.h"
#include "decode/flow.h"

namespace brink::ptrace {

struct PathBranch {
  uint64_t from, to;
  Kind kind;
};

// What is known between two stops.
struct PathState {
  std::optional<uint64_t> sp;
  struct Call {
    uint64_t slot;       // where the return address lies
    uint64_t return_ip;
  };
  std::vector<Call> calls;  // innermost last

  // A call at a place where sp is known (or not: then nothing can be matched until it is).
  void Push(uint64_t return_ip);
  // The return address to which a ret goes, if it is matched; forgets it then.
  std::optional<uint64_t> Pop();
  void Apply(const decode::StackEffect& effect);
};

struct Path {
  enum class End : uint8_t {
    kLive,        // `stop_ip` needs the thread's registers
    kTerminal,    // `stop_ip` is a system call or something that is not followed
    kLimit,       // as many branches as were asked for; `stop_ip` comes next
    kUnreadable,  // the code at `stop_ip` could not be read or decoded
  } end = End::kUnreadable;
  std::vector<PathBranch> branches;
  bool assumed = false;    // a matched return is among them
  uint64_t stop_ip = 0;
  decode::Insn insn;       // kLive, kTerminal: what stands at stop_ip
  PathState state;         // at stop_ip
};

// Follows the code from `ip` with `state`, for at most `limit` branches. Where the end could not be confirmed by a stop
// (kLimit, kUnreadable) or is an instruction that the path has passed already, no return is assumed.
Path ScanPath(uint64_t ip, const PathState& state, size_t limit, decode::Memory& code);

}  // namespace brink::ptrace
