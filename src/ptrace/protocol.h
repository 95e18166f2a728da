// Messages between the collector and the ptrace helper, over a SOCK_SEQPACKET pair: fixed size, versioned.
// Collector to helper: attach, leave. Helper to collector: answers and news. Records go through the shared ring.
#pragma once

#include <cstdint>
#include <type_traits>

namespace brink::ptrace {

inline constexpr uint16_t kProtocolVersion = 1;

enum class MessageType : uint16_t {
  kAttachThread = 1,   // pid: a thread
  kAttachProcess = 2,  // pid: a process, all its threads
  kAttachCommand = 3,  // pid: a process that waits to exec; it is followed from its exec on
  kLeave = 4,          // detach from everything and end
  kAttached = 16,      // value: threads attached. Answer to kAttach*
  kRefused = 17,       // error: errno; pid as asked. Answer to kAttach*
  kData = 18,          // the ring wants to be drained
  kAllGone = 19,       // the last followed thread ended
  kLeft = 20,          // everything is detached; the helper ends
};

struct Message {
  uint16_t version;
  uint16_t type;   // MessageType
  int32_t pid;
  int32_t error;
  uint32_t value;
};
static_assert(sizeof(Message) == 16 && std::is_trivially_copyable_v<Message>);

inline Message MakeMessage(MessageType type, int32_t pid = 0, int32_t error = 0, uint32_t value = 0) {
  return {kProtocolVersion, static_cast<uint16_t>(type), pid, error, value};
}

// How threads are followed; fixed when the helper starts.
struct FollowConfig {
  bool hop = false;            // false: single step
  bool whole_run = false;      // step only: every branch, not windows
  bool call_chain = false;
  bool follow_children = true; // threads and processes that the followed ones make
  uint32_t depth = 32;         // branches a window, or a chunk of a whole run
  uint32_t kinds = 0xffffffff; // bit per brink::Kind that is recorded and counted towards depth
  uint32_t max_stops = 20000;  // steps or hits a window
  uint64_t period_ns = 1'000'000;
  uint64_t at = 0;             // windows open where this address is executed, instead of by the clock; 0: by the clock
  uint64_t until = 0;          // step: windows end before this address; 0: not by address
  bool until_return = false;   // step, with `at`: windows end when the function that begins there has returned
};

}  // namespace brink::ptrace
