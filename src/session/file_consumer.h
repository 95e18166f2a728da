// The consumer that writes perf.data, file or pipe, with rotation and a size limit.
#pragma once

#include <linux/perf_event.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/sync.h"
#include "perfdata/writer.h"
#include "pipeline/consumer.h"
#include "session/source.h"
#include "session/thread_tally.h"

namespace brink {

struct FileSpec {
  std::string path;             // "-": standard output, in pipe mode
  bool pipe = false;
  std::vector<perfdata::EventSpec> events;  // layout as MakeFileEvent made it
  perfdata::Features features;
  int compression_level = 0;
  uint64_t max_size = 0;        // stop when the file has this size; 0: no limit
  uint64_t rotate_size = 0;     // a new file at this size; 0: not by size
  uint32_t rotate_keep = 0;     // files kept; 0: all
  bool rotating = false;        // files are PATH.000001, PATH.000002...
};

// What the file says about one event of the session: its attribute in brink's layout, and what the stacks are.
perfdata::EventSpec MakeFileEvent(const perf_event_attr& attr, std::string name, const SourceTraits& traits, bool chains, bool cgroups);

class FileConsumer : public Consumer {
 public:
  struct Callbacks {
    std::function<void()> size_limit;  // max_size reached: the session should be stopped
    std::function<void()> rotate;      // rotate_size reached: the session should rotate
  };
  // Makes a sink for a path; tests give their own.
  using OpenSink = std::function<StatusOr<std::unique_ptr<perfdata::Sink>>(const std::string& path)>;

  // Opens the first file, so that what is wrong with it is said before anything is recorded.
  static StatusOr<std::unique_ptr<FileConsumer>> Create(FileSpec spec, Callbacks callbacks, OpenSink open_sink = {});

  Status OnSample(const SampleView& sample) override;
  Status OnPerfRecord(const PerfRecordView& record) override;
  Status OnRound(uint64_t time_ns) override;
  Status OnLost(LossCause cause, const Loss& loss, uint64_t time_ns) override;
  Settled Settle() override;
  Status Flush() override;
  Status Rotate() override;
  Status Finish() override;

  // Any thread.
  ThreadCounts counts() const;
  // Name of the newest file, bytes in all files, number of files.
  std::string path() const;
  uint64_t bytes() const;
  uint32_t files() const;
  // Whether the disk was full (or a quota used up) at any time.
  bool disk_was_full() const;

 private:
  static constexpr size_t kBatch = 512 * 1024;

  FileConsumer(FileSpec spec, Callbacks callbacks, OpenSink open_sink);
  Status OpenNext();
  std::string NextPath();
  // Room for a record in the batch; writes the batch out when it is full.
  std::span<std::byte> Room() { return std::span(batch_).subspan(used_); }
  template <typename Encode>
  Status Put(Encode encode);
  Status PutPerfRecord(std::span<const std::byte> record, const SideBandId& id);
  Status SeparateFirstStack(uint64_t time_ns);
  void WriteBatch();
  void RememberBuildId(std::span<const std::byte> record);
  void CheckSize();

  const FileSpec spec_;
  const Callbacks callbacks_;
  const OpenSink open_sink_;
  std::unique_ptr<perfdata::Writer> writer_;
  std::vector<std::byte> batch_;
  size_t used_ = 0;
  std::vector<uint32_t> batched_samples_;  // ABI size of each sample in the batch, in order
  Settled settled_;
  absl::flat_hash_map<std::string, perfdata::BuildIdEntry> build_ids_;
  bool limit_told_ = false;
  bool bare_before_stack_ = false, stack_written_ = false;  // in this file
  std::vector<std::byte> kernel_map_;                       // the record that tells where the kernel lies

  mutable Mutex mutex_;
  ThreadTally threads_ ABSL_GUARDED_BY(mutex_);
  std::string path_ ABSL_GUARDED_BY(mutex_);
  uint64_t finished_bytes_ ABSL_GUARDED_BY(mutex_) = 0, current_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t files_ ABSL_GUARDED_BY(mutex_) = 0;
  bool disk_full_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace brink
