#include "cli/record_options.h"

#include <charconv>

#include "base/strings.h"
#include "base/units.h"

namespace brink::cli {
namespace {

Setter StoreInt(std::optional<int>* out, int min, int max) {
  return [=](std::string_view text) -> Status {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
      return InvalidArgument("expected a number within " + std::to_string(min) + ".." + std::to_string(max));
    }
    *out = value;
    return OkStatus();
  };
}

// Spellings of perf that stand for something brink does not do: the reason instead of "unknown option".
Setter Refuse(std::string reason) {
  return [reason](std::string_view) { return InvalidArgument(reason); };
}

Setter StoreDelay(std::optional<int64_t>* out) {
  return [=](std::string_view text) -> Status {
    if (text == "-1") {
      *out = -1;
      return OkStatus();
    }
    ASSIGN_OR_RETURN(uint64_t ns, ParseDurationNs(text, 1'000'000));
    *out = static_cast<int64_t>(ns / 1'000'000);
    return OkStatus();
  };
}

Setter StorePercent(double* out) {
  return [=](std::string_view text) -> Status {
    if (!text.empty() && text.back() == '%') text.remove_suffix(1);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    if (error != std::errc() || end != text.data() + text.size() || !(*out >= 0 && *out <= 100)) return InvalidArgument("expected percent within 0..100");
    return OkStatus();
  };
}

}  // namespace

RecordOptions::RecordOptions() {
  constexpr auto kRequired = Value::kRequired;
  command.name = "record";
  command.summary = "take branch stacks into a perf.data file";
  command.usage = "[options] [-- command [args...]]";
  command.description =
      "Records branch stacks and call chains of a command, of processes, threads, cgroups or whole CPUs, and writes them\n"
      "as perf.data, which brink, perf, perf2bolt, llvm-profgen and create_llvm_prof read.\n\n"
      "Every loss is counted by cause and said at the end. Signals: INT and TERM end the recording in order, USR2 makes\n"
      "everything recorded so far readable, USR1 begins the next file of a rotating recording.";
  const char* what = "What to record";
  const char* how = "When and what to take";
  const char* walk = "Walk source";
  const char* file = "Output";
  const char* pipeline = "Pipeline";
  command.options = {
      {.letter = 'p', .name = "pid", .value = kRequired, .meta = "LIST", .group = what, .help = "Processes, all their threads, and what they fork.", .set = StoreString(&pids)},
      {.letter = 't', .name = "tid", .value = kRequired, .meta = "LIST", .group = what, .help = "Threads, only these.", .set = StoreString(&tids)},
      {.letter = 'a', .name = "all-cpus", .group = what, .help = "Everything on all CPUs; a command only bounds the time.", .set = StoreFlag(&all_cpus)},
      {.letter = 'C', .name = "cpu", .value = kRequired, .meta = "LIST", .group = what, .help = "Only on these CPUs.", .set = StoreString(&cpus)},
      {.letter = 'G', .name = "cgroup", .value = kRequired, .meta = "LIST", .group = what, .help = "Cgroups, by path below the hierarchy that has perf_event.", .set = StoreString(&cgroups)},
      {.letter = 'i', .name = "no-inherit", .group = what, .help = "Children do not become targets.", .set = StoreFlag(&no_inherit)},
      {.name = "run-cgroup", .value = kRequired, .meta = "auto|on|off", .group = what, .help = "Run the command in a cgroup of its own (v2), so that others cost nothing.", .set = StoreString(&run_cgroup)},
      {.name = "inherited-events", .group = what, .help = "Inherited per-task events instead of per-CPU events: nearly blind to short processes.", .set = StoreFlag(&inherited_events)},

      {.name = "source", .value = kRequired, .meta = "NAME", .group = how, .help = "Where branch stacks come from: auto, lbr, walk, hop, step, none.",
       .set = [this](std::string_view name) -> Status {
         if (source_given && name != source) {
           return InvalidArgument("both " + source + " and " + std::string(name) + " asked for: a recording has one source");
         }
         source_given = true;
         source = std::string(name);
         return OkStatus();
       }},
      {.letter = 'e', .name = "event", .value = kRequired, .meta = "LIST", .group = how, .help = "Events as perf spells them: cycles, cpu-clock, rHEX, sched:sched_switch...", .set = StoreString(&events)},
      {.letter = 'F', .name = "freq", .value = kRequired, .meta = "HZ", .group = how, .help = "Samples a second, or max.", .set = StoreString(&frequency)},
      {.letter = 'c', .name = "count", .value = kRequired, .meta = "N", .group = how, .help = "A sample each N events (ns for clocks).", .set = StoreUint(&count, 1, UINT64_MAX)},
      {.letter = 'j', .name = "branch-filter", .value = kRequired, .meta = "LIST", .group = how, .help = "Branches to keep, as perf spells them: any,any_call,any_ret,ind_call,cond,u,k...", .set = StoreString(&branch_filter)},
      {.name = "where", .value = kRequired, .meta = "EXPR", .group = how, .help = "Keep what the expression selects, in BPF as far as possible (brink filter explain EXPR).\nSeveral are ANDed.", .set = AppendString(&where)},
      {.name = "brbe-model", .value = kRequired, .meta = "WORDS", .group = how, .help = "Record what an Arm BRBE would have: numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B.", .set = StoreString(&brbe_model)},
      {.letter = 'b', .name = "branch-any", .group = how, .help = "All branches (-j any); the default.", .set = StoreFlag(&branch_any)},
      {.letter = 'g', .group = how, .help = "A call chain with each sample, by frame pointers.", .set = StoreFlag(&call_graph)},
      {.name = "call-graph", .value = kRequired, .meta = "fp", .group = how, .help = "Like -g; only fp.", .set = StoreString(&call_graph_mode)},
      {.name = "depth", .value = kRequired, .meta = "N", .group = how, .help = "Most branches of a stack; the default is the source's (walk: 256 up to 125 Hz,\n128 up to 250 Hz, else 32).", .set = StoreUint(&depth, 1, BRINK_MAX_WALK_BRANCHES)},
      {.name = "whole-run", .group = how, .help = "With --source step: every branch of the whole run, not samples.", .set = StoreFlag(&whole_run)},
      {.letter = 'D', .name = "delay", .value = kRequired, .meta = "MS", .group = how, .help = "Begin after this time; -1: never by itself.", .set = StoreDelay(&delay_ms)},
      {.name = "strip-kernel", .group = how, .help = "Leave kernel addresses out of the recording: who reads it does not learn where the kernel lies.", .set = StoreFlag(&strip_kernel)},
      {.name = "all-cgroups", .group = how, .help = "The cgroup of each sample.", .set = StoreFlag(&all_cgroups)},
      {.name = "duration", .value = kRequired, .meta = "TIME", .group = how, .help = "End after this time (10s, 2m). A command that still runs is sent SIGTERM.", .set = StoreDuration(&duration_ns, 1'000'000'000)},

      {.name = "walk-mode", .value = kRequired, .meta = "auto|task|irq", .group = walk, .help = "Where walks happen: as the thread returns to user space (task, depth up to 2048),\nor in the sampling interrupt (irq, up to 128). auto: irq, and task for what is deeper or could get\nfurther there, where the kernel has it.", .set = StoreString(&walk_mode)},
      {.name = "walk-wait", .value = kRequired, .meta = "PERCENT", .group = walk, .help = "Most time of a CPU that task-mode walks wait for code to be lifted and for vector registers\n(default 1, above 250 samples a second 0.3; 20 ms at once for each per cent). 0: they do not wait.", .set = StorePercent(&walk_wait_percent)},
      {.name = "walk-budget", .value = kRequired, .meta = "TIME", .group = walk, .help = "Longest walk of one sample (task: default 2ms, at most 10ms; irq: 100us, which is the most).", .set = StoreDuration(&walk_budget_ns, 1'000)},
      {.name = "walk-share", .value = kRequired, .meta = "PERCENT", .group = walk, .help = "Most walk time of a CPU (default 2, above 250 samples a second 0.5);\nwhat is above is counted as throttled, at 1000 samples a second up to four of five. 0: no limit.", .set = StorePercent(&walk_share_percent)},
      {.name = "code-cache", .value = kRequired, .meta = "SIZE", .group = walk, .help = "Memory for lifted code (default 28M).", .set = StoreSize(&code_cache)},
      {.name = "allow-device", .group = walk, .help = "Walk processes that map device memory, too; that memory itself is never read.", .set = StoreFlag(&allow_device)},

      {.letter = 'o', .name = "output", .value = kRequired, .meta = "FILE", .group = file, .help = "The recording; - writes a stream to standard output.",
       .set = [this](std::string_view text) {
         output = std::string(text);
         output_given = true;
         return OkStatus();
       }},
      {.name = "aggregate", .value = Value::kOptional, .meta = "container", .group = file, .help = "Keep only counts of branches and straight code, in brink.agg (docs/aggregate.md): for long recordings.\n--aggregate=container counts each container by itself.",
       .set = [this](std::string_view text) -> Status {
         if (!text.empty() && text != "container") return InvalidArgument("'" + EscapeForTerminal(text) + "': expected container or nothing");
         aggregate = true;
         aggregate_by = std::string(text);
         return OkStatus();
       }},
      {.name = "aggregate-slice", .value = kRequired, .meta = "TIME", .group = file, .help = "With --aggregate: count each TIME (1h) of the wall clock by itself.", .set = StoreDuration(&aggregate_slice_ns, 1'000'000'000)},
      {.name = "aggregate-rows", .value = kRequired, .meta = "N", .group = file, .help = "With --aggregate: rows kept at most (default 524288, about 200 MiB); above it the rarest are dropped and counted.", .set = StoreUint(&aggregate_rows, 1000, 1'000'000'000)},
      {.letter = 'z', .name = "compression-level", .value = Value::kOptional, .meta = "N", .group = file, .help = "Compress with zstd.",
       .set = [this](std::string_view text) -> Status {
         if (text.empty()) {
           compression = 1;
           return OkStatus();
         }
         return StoreUint(&compression, 0, 19)(text);
       }},
      {.name = "max-size", .value = kRequired, .meta = "SIZE", .group = file, .help = "End when the file has this size.", .set = StoreSize(&max_size)},
      {.name = "rotate", .value = kRequired, .meta = "SIZE|TIME", .group = file, .help = "A new file at this size (100M) or after this time (60s): FILE.000001, FILE.000002...", .set = StoreString(&rotate)},
      {.name = "rotate-keep", .value = kRequired, .meta = "N", .group = file, .help = "Keep only the last N files.", .set = StoreUint(&rotate_keep, 1, 1'000'000)},
      {.name = "max-loss", .value = kRequired, .meta = "PERCENT", .group = file, .help = "Exit with 3 when more samples than this were lost (default 5).", .set = StorePercent(&max_loss_percent)},
      {.name = "json", .value = Value::kOptional, .meta = "FILE", .group = file, .help = "The final report as JSON, on standard output or in a file.",
       .set = [this](std::string_view path) {
         json = true;
         json_path = std::string(path);
         return OkStatus();
       }},
      {.letter = 'q', .name = "quiet", .group = file, .help = "No report.", .set = StoreFlag(&quiet)},

      {.name = "buffers", .value = kRequired, .meta = "N", .group = pipeline, .help = "Buffers between rings and file (default 16).", .set = StoreUint(&buffers, 2, 4096)},
      {.name = "buffer-size", .value = kRequired, .meta = "SIZE", .group = pipeline, .help = "Size of each (default 1M).", .set = StoreSize(&buffer_size)},
      {.name = "ring-size", .value = kRequired, .meta = "SIZE", .group = pipeline, .help = "Size of the BPF ring (default 8M).", .set = StoreSize(&ring_size)},
      {.name = "side-band-pages", .value = kRequired, .meta = "N", .group = pipeline, .help = "Pages of each CPU's ring of mappings and tasks (default 128).", .set = StoreUint(&side_band_pages, 8, 65536)},
      {.name = "writer-cpu", .value = kRequired, .meta = "CPU", .group = pipeline, .help = "Run the writer there only.", .set = StoreInt(&writer_cpu, 0, 65535)},
      {.name = "writer-nice", .value = kRequired, .meta = "N", .group = pipeline, .help = "Nice value of the writer.", .set = StoreInt(&writer_nice, -20, 19)},

      {.name = "replay-count", .value = kRequired, .meta = "N", .group = pipeline, .help = "Tests: send N replayed stacks at full rate.", .set = StoreUint(&replay_count, 1, UINT64_MAX), .hidden = true},
      {.name = "replay-rate", .value = kRequired, .meta = "HZ", .group = pipeline, .help = "Tests: not more than this many a second.", .set = StoreUint(&replay_rate, 1, 1'000'000'000), .hidden = true},
      {.name = "replay-undrained", .group = pipeline, .help = "Tests: all are sent before the ring is emptied.", .set = StoreFlag(&replay_undrained), .hidden = true},
      {.name = "replay-file", .value = kRequired, .meta = "FILE", .group = pipeline, .help = "Tests: stacks to replay, as text.", .set = StoreString(&replay_file), .hidden = true},
      {.letter = 'd', .group = how, .set = Refuse("data addresses come with hardware events only; brink records branches"), .hidden = true},
      {.letter = 'm', .name = "mmap-pages", .value = kRequired, .group = how, .set = Refuse("say --ring-size (BPF ring) or --side-band-pages"), .hidden = true},
      {.name = "per-thread", .group = how, .set = Refuse("use -t for threads; brink samples by CPU and filters in the kernel"), .hidden = true},
      {.name = "switch-output", .value = Value::kOptional, .group = how, .set = Refuse("say --rotate"), .hidden = true},
  };
  command.examples = {
      {"brink record -- ./server --port 80", "a command, its threads and children, until it ends"},
      {"brink record -F 1000 -g -p 1234 --duration 30s", "a running process for 30 s with call chains"},
      {"brink record -a -o - | perf report -b -i -", "everything, as a stream"},
      {"brink record -a --rotate 60s --rotate-keep 10", "the last ten minutes, a file a minute"},
  };
}

}  // namespace brink::cli
