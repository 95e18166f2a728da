// The books of a recording: what was sent, written and lost, by cause.
//
// For samples: sent = written + sum of sample losses, exactly, once the session has stopped.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "pipeline/item.h"

namespace brink {

// A copy of the books at one moment.
struct Books {
  Loss written;                 // samples that the consumer took
  uint64_t side_band = 0;       // side-band records that the consumer took
  uint64_t events = 0;          // times a BPF program was entered
  uint64_t filtered = 0;        // not the target, or a predicate false
  uint64_t filter_unknown = 0;  // a predicate was unknown
  uint64_t without_stack = 0;   // samples kept whose event carried no branch stack
  uint64_t misses_lost = 0;     // miss records that did not fit
  uint64_t tasks_lost = 0;      // processes that did not fit into the task set
  std::array<Loss, static_cast<size_t>(LossCause::kCount)> lost{};

  const Loss& of(LossCause cause) const { return lost[static_cast<size_t>(cause)]; }
  Loss& of(LossCause cause) { return lost[static_cast<size_t>(cause)]; }
  Loss samples_lost() const;
  Loss side_band_lost() const;
  // Samples that passed the filters: written or lost.
  uint64_t sent() const { return written.records + samples_lost().records; }
};

// Counts of the user-space stages. Any thread; the figures are exact after the threads have been joined.
class Ledger {
 public:
  void CountLost(LossCause cause, uint64_t records, uint64_t bytes);
  void CountWritten(uint64_t records, uint64_t bytes);
  void CountSideBand(uint64_t records) { side_band_.fetch_add(records, std::memory_order_relaxed); }
  // Adds its figures to `books`.
  void AddTo(Books& books) const;

 private:
  struct Cell {
    std::atomic<uint64_t> records{0}, bytes{0};
  };
  std::array<Cell, static_cast<size_t>(LossCause::kCount)> lost_;
  Cell written_;
  std::atomic<uint64_t> side_band_{0};
};

}  // namespace brink
