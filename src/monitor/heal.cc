#include "monitor/heal.h"

#include <linux/perf_event.h>

#include <cstring>
#include <vector>

#include "monitor/look.h"
#include "pipeline/drain.h"
#include "report/feed.h"
#include "session/synth.h"

namespace brink::cfi {
namespace {

// Keeps what is said of mappings; names and parents are known or told of by others.
class Mappings : public RecordSink {
 public:
  bool PutPerfRecord(std::span<const std::byte> record) override {
    perf_event_header header;
    if (record.size() < sizeof header + sizeof(SideBandId)) return true;
    std::memcpy(&header, record.data(), sizeof header);
    if (header.type != PERF_RECORD_MMAP2) return true;
    const auto body = record.first(record.size() - sizeof(SideBandId));
    records_.emplace_back(body.begin(), body.end());
    return true;
  }
  void PutLost(LossCause, const Loss&, uint64_t) override {}
  const std::vector<std::vector<std::byte>>& records() const { return records_; }

 private:
  std::vector<std::vector<std::byte>> records_;
};

}  // namespace

bool ReadMappingsAgain(int32_t pid, uint64_t start_ns, symbol::AddressSpaces* spaces) {
  Mappings mappings;
  if (!IsStillTheSame(pid, start_ns)) return false;
  Synthesizer(mappings).Process(pid, 0);
  if (!IsStillTheSame(pid, start_ns) || mappings.records().empty()) return false;
  for (const auto& record : mappings.records()) report::ApplyLiveRecord(record, spaces);
  return true;
}

}  // namespace brink::cfi
