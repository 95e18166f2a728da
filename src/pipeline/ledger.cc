#include "pipeline/ledger.h"

namespace brink {

Loss Books::samples_lost() const {
  Loss sum;
  for (size_t i = 0; i < lost.size(); ++i) {
    if (IsSampleLoss(static_cast<LossCause>(i))) sum += lost[i];
  }
  return sum;
}

Loss Books::side_band_lost() const {
  Loss sum = of(LossCause::kSideBand);
  sum += of(LossCause::kSideBandBuffer);
  return sum;
}

void Ledger::CountLost(LossCause cause, uint64_t records, uint64_t bytes) {
  Cell& cell = lost_[static_cast<size_t>(cause)];
  cell.records.fetch_add(records, std::memory_order_relaxed);
  cell.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void Ledger::CountWritten(uint64_t records, uint64_t bytes) {
  written_.records.fetch_add(records, std::memory_order_relaxed);
  written_.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void Ledger::AddTo(Books& books) const {
  for (size_t i = 0; i < lost_.size(); ++i) books.lost[i] += {lost_[i].records.load(), lost_[i].bytes.load()};
  books.written += {written_.records.load(), written_.bytes.load()};
  books.side_band += side_band_.load();
}

}  // namespace brink
