// The options of `brink record`, and what they ask for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "session/recorder.h"

namespace brink::cli {

struct RecordOptions {
  RecordOptions();  // fills `command`, whose setters are bound to this object: not copyable
  RecordOptions(const RecordOptions&) = delete;
  RecordOptions& operator=(const RecordOptions&) = delete;

  CommandSpec command;

  std::string pids, tids, cpus, cgroups;
  bool all_cpus = false;
  std::string run_cgroup = "auto";
  bool no_inherit = false, inherited_events = false;

  std::vector<std::string> where;
  std::string brbe_model;
  std::string events, branch_filter, source = "auto", replay_file;
  std::string frequency;
  uint64_t count = 0, depth = 0, replay_count = 0, replay_rate = 0;
  bool replay_undrained = false;
  bool source_given = false, branch_any = false, whole_run = false, call_graph = false, all_cgroups = false, strip_kernel = false;
  std::string call_graph_mode;

  std::string walk_mode = "auto";
  uint64_t walk_budget_ns = 0, code_cache = 28u << 20;
  double walk_share_percent = -1, walk_wait_percent = -1;  // below 0: by the frequency
  bool allow_device = false;

  std::string output = "brink.data";
  bool output_given = false, aggregate = false;
  std::string aggregate_by;
  uint64_t aggregate_slice_ns = 0, aggregate_rows = 1 << 19;
  uint64_t buffers = 16, buffer_size = 1u << 20, ring_size = 8u << 20, side_band_pages = 128;
  std::optional<int> writer_cpu, writer_nice;
  uint64_t max_size = 0, duration_ns = 0, compression = 0, rotate_keep = 0;
  std::string rotate;
  std::optional<int64_t> delay_ms;
  double max_loss_percent = 5;
  bool quiet = false, json = false;
  std::string json_path;
};

struct RecordRequest {
  RecordSpec spec;
  std::unique_ptr<StackSource> source;
  std::vector<std::string> notes;  // what was chosen differently than asked, and why
};

// Checks the options against each other and this machine. INVALID_ARGUMENT is a usage error; everything else says what
// the machine refuses.
StatusOr<RecordRequest> MakeRecordRequest(const RecordOptions& options, const std::vector<std::string>& command);

}  // namespace brink::cli
