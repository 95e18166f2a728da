// Keeping the CPUs out of deep sleep for the time of a measurement.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "latency/config.h"

namespace brink::latency {

// Holds /dev/cpu_dma_latency open, or idle states disabled, until destroyed. Idle states are put back then; a process
// that is killed leaves a note behind, and the next start of brink latency puts them back (RestoreIdleStates).
class PowerHold {
 public:
  PowerHold() = default;
  PowerHold(PowerHold&&) = default;
  PowerHold& operator=(PowerHold&&) = default;
  ~PowerHold();

  struct Outcome {
    std::string line;     // for stdout ("# /dev/cpu_dma_latency set to 0us"), "" = none
    std::string warning;  // for stderr, "" = none
  };
  // Never fails as a whole: what could not be done is the outcome's warning.
  Outcome Take(const Config& config, const std::vector<int>& cpus);

 private:
  Outcome DisableIdleStates(int64_t deepest, const std::vector<int>& cpus);
  UniqueFd dma_;
  std::vector<std::string> disabled_;  // files that this object set to 1
  std::string note_;
};

// Puts back what killed runs left (processes that are gone). The number of files written.
int RestoreIdleStates(const std::string& note_dir = "/run/brink");

}  // namespace brink::latency
