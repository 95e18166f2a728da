// Runs one recording from start to end: signals, the command, durations, rotation, progress.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "brbe/stream.h"
#include "filter/compile.h"
#include "session/control.h"
#include "session/file_consumer.h"
#include "session/session.h"

namespace brink {

// --where, -j and --brbe-model of a recording.
struct RecordFilter {
  filter::Expr expr;                            // what is kept; null: everything
  uint64_t branch_bits = 0;                     // of the plan: kinds and privileges, for the file to state
  bool records = false;                         // entries are removed: stacks are not contiguous
  std::optional<brbe::StreamOptions> model;     // applied before the filter, which then runs in user space
  filter::CompileOptions compile;
};

struct RecordSpec {
  SessionSpec session;
  RecordFilter filter;
  FileSpec file;                 // events are filled in from the session's
  FileConsumer::OpenSink open_sink;  // where the records go instead of file.path; file.pipe is set then
  bool cgroup_ids = false;       // cgroup of each sample in the file
  bool strip_kernel = false;     // no kernel addresses in the file
  uint64_t duration_ns = 0;      // 0: no limit
  std::optional<uint64_t> delay_ns;  // -D: enable after this time; max value: never
  uint64_t rotate_ns = 0;        // a new file after this time
  // Called about once a second from the recording thread.
  std::function<void(const Session&, const FileConsumer&)> progress;
  // Replay only: stacks sent at full rate instead of at events; 0: at events.
  uint64_t replay_count = 0;
  uint64_t replay_rate = 0;      // stacks a second; 0: as fast as it goes
  bool replay_undrained = false; // all are sent before anybody empties the ring
  std::function<void(uint64_t sent)> replayed;  // called when all have been sent
  // Set: signals are left alone, and this steers the recording. Outlives it.
  RunControl* control = nullptr;
  // Called once the recording runs.
  std::function<void(Session&)> armed;
};

enum class EndReason { kCommandEnded, kTargetEnded, kInterrupted, kDuration, kSizeLimit, kReplayDone, kConsumerFailed };

struct RecordResult {
  EndReason reason = EndReason::kInterrupted;
  std::optional<int> command_status;  // exit status, 128 + signal, 126 or 127
  std::string exec_error;             // why the command could not be executed
  Status consumer;                    // first error of the file
  Books books;
  BpfCounters counters = {};
  ThreadCounts counts;
  std::string path;
  uint64_t bytes = 0;
  uint32_t files = 0;
  bool disk_was_full = false;
  uint64_t elapsed_ns = 0;
  std::optional<CpuTime> busy;
  // Samples that the busy time should have given at the nominal rate; nothing for other events than clocks.
  std::optional<double> expected;
  CpuTime own;                        // the collector's own CPU time
  uint64_t own_start_ns = 0;          // what of it went by before anything was recorded
  size_t buffers = 0, most_dirty = 0;
  std::vector<std::string> notes;
  std::vector<StatLine> source_stats;
};

// Fills in what a recording's file says about its events and stacks.
Status DescribeEvents(const RecordSpec& spec, StackSource& source, FileSpec* file);

// Blocks until the end. SIGINT, SIGTERM and SIGHUP end the recording in order, SIGUSR2 flushes, SIGUSR1 rotates (of a
// rotating recording). A command that still runs at the end is sent SIGTERM and waited for.
StatusOr<RecordResult> Record(const RecordSpec& spec, std::unique_ptr<StackSource> source);

}  // namespace brink
