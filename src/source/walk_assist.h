// Helps task-mode walks that wait (bpf/walk/assist.h): one SCHED_FIFO thread a CPU, pinned there, woken by the walk through
// a ring of its own. It runs in the walk's place: lifts what is missing, or does nothing, for being switched out is what
// brings a thread's vector registers into memory.
//
// The threads sleep but for that, at the lowest real-time priority. The handler is called on them, several at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "brink/abi/walk_assist.h"

struct bpf_map;

namespace brink {

class WalkAssist {
 public:
  // A record of BRINK_REC_MISS; valid during the call.
  using Handler = std::function<void(std::span<const std::byte> record)>;

  // Whether this process may have real-time threads (CAP_SYS_NICE, and the cgroup's leave).
  static bool Permitted();
  // What goes into the read-only data: which helps there are, and where this CPU keeps vector registers.
  static brink_walk_assist Configuration();

  // `rings` is the map walk_assist_rings with an entry for each possible CPU. A CPU that is offline gets no helper.
  static StatusOr<std::unique_ptr<WalkAssist>> Start(const bpf_map* rings, Handler handler);
  // Ends the threads.
  ~WalkAssist();

 private:
  struct Helper;
  explicit WalkAssist(Handler handler);
  static void Loop(Helper* helper, const std::atomic<bool>* stop);

  Handler handler_;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace brink
