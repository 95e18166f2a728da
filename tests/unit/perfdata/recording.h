// Small recordings for tests: attributes as brink opens them, and sinks that misbehave on purpose.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "perfdata/writer.h"

namespace brink::perfdata {

// The attribute of a software event that carries branch stacks: the normal case without branch hardware.
inline EventAttr CpuClockAttr() {
  EventAttr attr;
  attr.type = kTypeSoftware;
  attr.config = kSwCpuClock;
  attr.sample_period = 1'000'000;
  attr.sample_type = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleCpu | kSamplePeriod | kSampleBranchStack;
  attr.branch_sample_type = kBranchUser | kBranchAny | kBranchTypeSave;
  attr.flags = kAttrMmap | kAttrComm | kAttrTask | kAttrSampleIdAll | kAttrMmap2 | kAttrCommExec | kAttrExcludeKernel |
               kAttrUseClockid | kAttrBuildId;
  attr.clockid = 1;
  return attr;
}

inline WriterOptions OneEvent(EventAttr attr = CpuClockAttr(), std::string name = "cpu-clock:u") {
  WriterOptions options;
  options.events.push_back({.attr = attr, .name = std::move(name), .ids = {}, .notes = {}});
  return options;
}

// Keeps everything in memory that outlives the writer. Refuses to grow above `limit` bytes (as a full disk does,
// after taking what fits) and takes at most `chunk` bytes a call.
struct MemoryFile {
  std::string bytes;
  size_t limit = SIZE_MAX;
  size_t chunk = SIZE_MAX;
  int truncations = 0;
};

class MemorySink : public Sink {
 public:
  explicit MemorySink(MemoryFile* file) : file_(file) {}
  StatusOr<size_t> Write(std::span<const std::byte> bytes) override { return PWrite(bytes, file_->bytes.size()); }
  StatusOr<size_t> PWrite(std::span<const std::byte> bytes, uint64_t offset) override {
    size_t end = std::min(offset + std::min(bytes.size(), file_->chunk), std::max(file_->limit, file_->bytes.size()));
    if (end <= offset) return ErrnoError(28, "cannot write");  // ENOSPC
    if (file_->bytes.size() < end) file_->bytes.resize(end);
    std::memcpy(file_->bytes.data() + offset, bytes.data(), end - offset);
    return end - offset;
  }
  Status Truncate(uint64_t size) override {
    ++file_->truncations;
    file_->bytes.resize(size);
    return OkStatus();
  }
  Status Sync() override { return OkStatus(); }

 private:
  MemoryFile* file_;
};

// One encoded record as bytes.
template <typename Encode>
std::vector<std::byte> Encoded(Encode encode) {
  std::vector<std::byte> out(kMaxRecordSize);
  out.resize(encode(std::span<std::byte>(out)));
  return out;
}

inline std::vector<brink_branch> Branches(size_t count, uint64_t base = 0x401000) {
  std::vector<brink_branch> out;
  for (size_t i = 0; i < count; ++i) out.push_back({base + 16 * i, base + 16 * i + 8, (i & 1) | (i % 12) << 20 | (i & 0xff) << 4});
  return out;
}

}  // namespace brink::perfdata
