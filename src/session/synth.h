// What existed before the recording began, as perf records made from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
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
  // CGROUP records of the groups below the v2 mount point, with the ids that samples carry. At most kMostCgroups.
  void Cgroups(const std::string& mount_point);
  // FORK and COMM of all threads, NAMESPACES (with the right to see them) and MMAP2 of all executable mappings of `pid`,
  // stamped `time_ns` (0: before all else).
  // A process that ends meanwhile is left out without a word.
  void Process(pid_t pid, uint64_t time_ns);

  static constexpr size_t kMostCgroups = 8192;

  // Records put into the sink.
  size_t count() const { return count_; }

 private:
  void Put(size_t size);
  void PutNamespaces(pid_t pid, const perfdata::SampleId& id);

  RecordSink& sink_;
  perfdata::RecordEncoder encoder_;
  std::vector<std::byte> scratch_;
  size_t count_ = 0;
};

}  // namespace brink
