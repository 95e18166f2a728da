#include <algorithm>
#include <charconv>
#include <cstdio>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/record_filter.h"
#include "cli/record_options.h"
#include "cli/record_source.h"
#include "kernel/perf_event.h"

namespace brink::cli {
namespace {

constexpr uint64_t kDefaultFrequency = 997;  // a prime: not in step with what the target does each millisecond

StatusOr<std::vector<pid_t>> ParseIds(std::string_view option, std::string_view list) {
  std::vector<pid_t> ids;
  if (list.empty()) return ids;
  for (std::string_view piece : Split(list, ',')) {
    pid_t id = 0;
    auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), id);
    if (error != std::errc() || end != piece.data() + piece.size() || id <= 0) {
      return InvalidArgument(std::string(option) + ": '" + EscapeForTerminal(piece) + "' is no id; expected a list such as 1234,1235");
    }
    ids.push_back(id);
  }
  return ids;
}

Status FillTarget(const RecordOptions& options, const std::vector<std::string>& command, TargetSpec* target) {
  target->all_cpus = options.all_cpus;
  target->command = command;
  ASSIGN_OR_RETURN(target->pids, ParseIds("-p", options.pids));
  ASSIGN_OR_RETURN(target->tids, ParseIds("-t", options.tids));
  if (!options.cpus.empty()) {
    auto cpus = ParseCpuList(options.cpus);
    if (!cpus.ok()) return Annotate(cpus.status(), "-C");
    target->cpus = *cpus;
  }
  if (!options.cgroups.empty()) {
    for (std::string_view name : Split(options.cgroups, ',')) target->cgroups.emplace_back(name);
  }
  using Group = TargetSpec::Group;
  if (options.run_cgroup != "auto" && options.run_cgroup != "on" && options.run_cgroup != "off") {
    return InvalidArgument("--run-cgroup: expected auto, on or off");
  }
  target->run_cgroup = options.run_cgroup == "on" ? Group::kOn : options.run_cgroup == "off" ? Group::kOff : Group::kAuto;
  target->follow_children = !options.no_inherit;
  target->inherit_only = options.inherited_events;
  return OkStatus();
}

Status FillRate(const RecordOptions& options, SessionSpec* session) {
  if (options.count && !options.frequency.empty()) return InvalidArgument("choose one of -F and -c");
  session->period = options.count;
  if (options.count) return OkStatus();
  bool tracepoints = std::all_of(session->events.begin(), session->events.end(), [](const EventSpec& event) { return event.is_tracepoint(); });
  if (tracepoints) {
    if (!options.frequency.empty()) return InvalidArgument("--freq: tracepoints are sampled by count: say -c N (default 1)");
    session->period = 1;
    return OkStatus();
  }
  uint64_t max = ReadMaxSampleRate();
  if (options.frequency == "max") {
    session->frequency = max;
  } else if (!options.frequency.empty()) {
    auto frequency = ParseUint(options.frequency);
    if (!frequency.ok() || *frequency == 0) return InvalidArgument("--freq: expected a number of samples a second, or max");
    session->frequency = *frequency;
  } else {
    session->frequency = std::min(kDefaultFrequency, max);
  }
  for (const EventSpec& event : session->events) {
    if (event.period == 0 && event.frequency == 0) RETURN_IF_ERROR(CheckFrequency(session->frequency, event, max));
  }
  return OkStatus();
}

Status FillPipeline(const RecordOptions& options, SessionSpec* session) {
  constexpr uint64_t kSmallestBuffer = 64 * 1024, kLargestBuffer = 1u << 30;
  if (options.buffer_size < kSmallestBuffer || options.buffer_size > kLargestBuffer) {
    return InvalidArgument("--buffer-size: expected 64K to 1G (a buffer holds whole records)");
  }
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  auto power = [](uint64_t n) { return n != 0 && (n & (n - 1)) == 0; };
  if (!power(options.ring_size) || options.ring_size < page || options.ring_size > (1u << 30)) {
    return InvalidArgument("--ring-size: expected a power of two of pages, at most 1G");
  }
  if (!power(options.side_band_pages)) return InvalidArgument("--side-band-pages: expected a power of two");
  session->buffers = options.buffers;
  session->buffer_size = options.buffer_size;
  session->ring_bytes = options.ring_size;
  session->side_band_pages = options.side_band_pages;
  session->writer = {.cpu = options.writer_cpu, .nice = options.writer_nice};
  session->depth = static_cast<uint32_t>(options.depth);
  return OkStatus();
}

Status FillFile(const RecordOptions& options, const std::vector<std::string>& command, RecordSpec* spec) {
  FileSpec& file = spec->file;
  file.path = options.output;
  file.pipe = options.output == "-";
  if (file.pipe && isatty(STDOUT_FILENO)) return InvalidArgument("-o -: standard output is a terminal; pipe it into a reader");
  file.compression_level = static_cast<int>(options.compression);
  file.max_size = options.max_size;
  file.rotate_keep = static_cast<uint32_t>(options.rotate_keep);
  if (!options.rotate.empty()) {
    auto time = ParseDurationNs(options.rotate, 0);
    auto size = ParseSize(options.rotate);
    // "30" alone would be either; "10m" is ten minutes, "10M" ten mebibytes.
    bool has_unit = options.rotate.find_first_not_of("0123456789.") != std::string::npos;
    if (time.ok() && has_unit && *time) {
      spec->rotate_ns = *time;
    } else if (size.ok() && has_unit && *size) {
      file.rotate_size = *size;
    } else {
      return InvalidArgument("--rotate: expected a size with its unit (100M) or a time with its unit (60s)");
    }
    if (file.pipe) return InvalidArgument("--rotate needs a file, not a stream");
    file.rotating = true;
  } else if (options.rotate_keep) {
    return InvalidArgument("--rotate-keep needs --rotate");
  }
  file.features = perfdata::CollectHostFeatures();
  file.features.cmdline = {"brink", "record"};
  file.features.cmdline.insert(file.features.cmdline.end(), command.begin(), command.end());
  return OkStatus();
}

Status CheckAggregate(const RecordOptions& options) {
  if (options.output == "-") return InvalidArgument("--aggregate writes a file, not a stream");
  if (!options.rotate.empty() || options.max_size) return InvalidArgument("--aggregate: counts do not grow with time; --rotate and --max-size are for recordings (see --aggregate-slice)");
  if (options.compression) return InvalidArgument("--aggregate is always compressed; -z is for recordings");
  constexpr uint64_t kSecond = 1'000'000'000;
  if (options.aggregate_slice_ns % kSecond) return InvalidArgument("--aggregate-slice: expected whole seconds");
  return OkStatus();
}

}  // namespace

StatusOr<RecordRequest> MakeRecordRequest(const RecordOptions& options, const std::vector<std::string>& command) {
  RecordRequest request;
  SessionSpec& session = request.spec.session;
  if (!options.call_graph_mode.empty() && options.call_graph_mode != "fp") {
    return InvalidArgument("--call-graph: only fp; dwarf needs the stack of each sample, lbr is what branch stacks are for");
  }
  session.chain_user = session.chain_kernel = options.call_graph || !options.call_graph_mode.empty();
  RETURN_IF_ERROR(FillTarget(options, command, &session.target));
  RETURN_IF_ERROR(ParseEvents(options, &session.events));
  RETURN_IF_ERROR(FillFilter(options, &request.spec));
  RETURN_IF_ERROR(FillRate(options, &session));
  RETURN_IF_ERROR(FillPipeline(options, &session));
  RETURN_IF_ERROR(FillFile(options, command, &request.spec));
  request.spec.cgroup_ids = options.all_cgroups;
  request.spec.strip_kernel = options.strip_kernel;
  request.spec.duration_ns = options.duration_ns;
  request.spec.replay_count = options.replay_count;
  request.spec.replay_rate = options.replay_rate;
  request.spec.replay_undrained = options.replay_undrained;
  if (options.replay_undrained && !options.replay_count) return InvalidArgument("--replay-undrained needs --replay-count");
  if (options.replay_count && !options.quiet) request.spec.replayed = [](uint64_t) { std::fputs("all stacks are sent\n", stderr); };
  if (options.aggregate) RETURN_IF_ERROR(CheckAggregate(options));
  else if (options.aggregate_slice_ns) return InvalidArgument("--aggregate-slice needs --aggregate");
  if (options.aggregate_by == "container") request.spec.cgroup_ids = true;
  if (options.delay_ms) {
    request.spec.delay_ns = *options.delay_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(*options.delay_ms) * 1'000'000;
  }
  // Last, because it tries things on this machine; all of the above is only looked at.
  RETURN_IF_ERROR(ChooseSource(options, &request));
  return request;
}

}  // namespace brink::cli
