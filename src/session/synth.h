// What existed before the recording began, as perf records made from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "perfdata/encode.h"
#include "pipeline/drain.h"

namespace brink {

// Layout of all side-band records of a session, live and made: the fields of SideBandId.
inline constexpr uint64_t kSideBandSampleType =
    perfdata::kSampleTid | perfdata::kSampleTime | perfdata::kSampleCpu | perfdata::kSampleIdentifier;

class Synthesizer {
 public:
  explicit Synthesizer(RecordSink& sink);

  // The kernel's text and modules, with build-ids. Nothing where addresses are hidden.
  void Kernel();
  // BPF programs that are loaded, as KSYMBOL records. Nothing without the right to list them.
  void BpfPrograms();
  // FORK and COMM of all threads and MMAP2 of all executable mappings of `pid`, stamped `time_ns` (0: before all else).
  // A process that ends meanwhile is left out without a word.
  void Process(pid_t pid, uint64_t time_ns);

  // Records put into the sink.
  size_t count() const { return count_; }

 private:
  void Put(size_t size);

  RecordSink& sink_;
  perfdata::RecordEncoder encoder_;
  std::vector<std::byte> scratch_;
  size_t count_ = 0;
};

}  // namespace brink
