// What becomes of alarms: the same one is told once in a while with a count, floods are cut, the rest goes out.
#pragma once

#include <cstdint>
#include <string>

#include <absl/container/flat_hash_map.h>

#include "monitor/alarm.h"

namespace brink::cfi {

// Pure but for the clock that is handed in. Not thread-safe.
class AlarmBook {
 public:
  static constexpr uint64_t kQuietNs = 60'000'000'000;  // the same alarm again after so long, with what came in between
  static constexpr size_t kMostKept = 65'536;

  explicit AlarmBook(uint64_t most_per_minute = 600) : most_per_minute_(most_per_minute) {}

  // Whether the alarm is to be told; fills suppressed_count. `budget`: most of its container or process in a minute.
  bool Take(Alarm* alarm, uint64_t budget);

  uint64_t told() const { return told_; }
  uint64_t repeated() const { return repeated_; }  // same place and rule as one that was told
  uint64_t limited() const { return limited_; }    // over a budget

 private:
  struct Known {
    uint64_t told_ns = 0, since = 0;
    Severity severity = Severity::kInfo;
  };
  struct Budget {
    uint64_t minute = 0, used = 0;
  };
  static bool Spend(Budget* budget, uint64_t minute, uint64_t most);

  uint64_t most_per_minute_;
  absl::flat_hash_map<std::string, Known> known_;
  absl::flat_hash_map<std::string, Budget> budgets_;
  Budget all_;
  uint64_t told_ = 0, repeated_ = 0, limited_ = 0;
};

// What makes two alarms the same: rules, build-ids (else paths) and offsets of both sides.
std::string AlarmKey(const Alarm& alarm);

}  // namespace brink::cfi
