// What follows a capture: the walker in task mode, asked by triggers (bpf/snap/follow.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "snap/trigger_object.h"
#include "source/walk_source.h"

namespace brink::snap {

// Pages of probed files as they are without the probes. Immutable: any thread.
class ProbedPages {
 public:
  // All places of the run in this file; what cannot be read is left out.
  void Add(const std::string& program, std::span<const Place> places);
  // LiftServiceOptions::restore: true where `code` is a known page that differs from its file in nothing but probes.
  bool Restore(std::span<const uint8_t> code, std::vector<uint8_t>* meant) const;
  bool empty() const { return pages_.empty(); }

 private:
  struct Page {
    std::vector<uint8_t> code;       // with the head of the next page, as far as the file goes
    std::vector<uint32_t> probed;    // offsets in `code`, ascending
  };
  std::vector<Page> pages_;
};

// Why nothing is walked after a trigger of this kind; "" where it is.
std::string WhyNotFollowed(const Trigger& trigger);

// The walker of a session with these triggers, which hand their captures over. `configure` is called between open and load of its
// object, and calls ConfigureFollower.
StatusOr<std::unique_ptr<WalkSource>> MakeFollower(uint32_t depth, const std::vector<TriggerPlan>& plans, std::function<Status(bpf_object*)> configure);
// Which of the programs are loaded, and how many slots there are.
Status ConfigureFollower(bpf_object* object, std::span<const std::unique_ptr<TriggerObject>> triggers);

}  // namespace brink::snap
