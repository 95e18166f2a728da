#include "cli/latency_options.h"

#include <charconv>

#include "base/strings.h"

namespace brink::cli {
namespace {

using latency::Request;

StatusOr<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return InvalidArgument("'" + EscapeForTerminal(text) + "' is no whole number");
  return value;
}

Setter StoreInt(int64_t* out) {
  return [out](std::string_view v) -> Status {
    ASSIGN_OR_RETURN(*out, ParseInt(v));
    return OkStatus();
  };
}

Setter StoreInt(std::optional<int64_t>* out) {
  return [out](std::string_view v) -> Status {
    ASSIGN_OR_RETURN(*out, ParseInt(v));
    return OkStatus();
  };
}

// An optional value; `otherwise` without one.
Setter StoreIntOr(std::optional<int64_t>* out, int64_t otherwise) {
  return [out, otherwise](std::string_view v) -> Status {
    *out = otherwise;
    if (!v.empty()) {
      ASSIGN_OR_RETURN(*out, ParseInt(v));
    }
    return OkStatus();
  };
}

Setter StoreText(std::optional<std::string>* out) {
  return [out](std::string_view v) {
    *out = std::string(v);
    return OkStatus();
  };
}

Setter StoreHistogram(Request* request, bool all) {
  return [=](std::string_view v) -> Status {
    ASSIGN_OR_RETURN(request->histogram, ParseInt(v));
    if (request->histogram <= 0) return InvalidArgument("the number of buckets is 1..1000000");
    request->histogram_all |= all;
    return OkStatus();
  };
}

void AddCyclic(Request* r, LatencyOutputs* outputs, std::vector<Option>* options) {
  constexpr const char* kGroup = "cyclictest's options";
  std::vector<Option> own = {
      {.letter = 'a', .name = "affinity", .value = Value::kOptional, .meta = "CPUSET", .help = "Thread N runs on the N-th CPU of the set, in turn; without a set, of all allowed CPUs.\nSets: 0,2 0-3 !1 +0-1 all; CPUs are taken in numeric order.", .set = StoreText(&r->affinity), .peek = true},
      {.letter = 'A', .name = "aligned", .value = Value::kOptional, .meta = "US", .help = "All threads start from one moment, thread N US * N later.", .set = StoreIntOr(&r->aligned_us, 0), .peek = true},
      {.name = "secaligned", .value = Value::kOptional, .meta = "US", .help = "All threads start at the next full second of the clock, US later.", .set = StoreIntOr(&r->sec_aligned_us, 0), .peek = true},
      {.letter = 'b', .name = "breaktrace", .value = Value::kRequired, .meta = "US", .help = "Stop everything when a sample is above US (with -N: ns).", .set = StoreInt(&r->break_us)},
      {.name = "tracemark", .help = "With -b: mark the trace and stop it, within the sample.", .set = StoreFlag(&outputs->trace.marks)},
      {.letter = 'c', .name = "clock", .value = Value::kRequired, .meta = "CLOCK", .help = "monotonic or 0 (the default), realtime or 1, boottime, tai, aux0 .. aux7.", .set = StoreString(&r->clock)},
      {.letter = 'd', .name = "distance", .value = Value::kRequired, .meta = "US", .help = "Added to the interval for each further thread; 500 without it, 0 with a histogram.", .set = StoreInt(&r->distance_us)},
      {.letter = 'D', .name = "duration", .value = Value::kRequired, .meta = "TIME", .help = "Seconds, or with m, h, d; 0 is endless.", .set = [r](std::string_view v) -> Status {
         r->duration = std::string(v);
         return latency::ParseDurationSeconds(v).status();
       }},
      {.name = "deepest-idle-state", .value = Value::kRequired, .meta = "N", .help = "Disable idle states deeper than N on the CPUs in use; -1 all. Put back at the end, also after a kill.", .set = StoreInt(&r->deepest_idle_state)},
      {.name = "default-system", .help = "Leave power management as it is.", .set = StoreFlag(&r->default_system)},
      {.name = "laptop", .help = "The same, cyclictest's older name.", .set = StoreFlag(&r->laptop)},
      {.name = "latency", .value = Value::kRequired, .meta = "US", .help = "Written to /dev/cpu_dma_latency and held; 0 without it.", .set = StoreInt(&r->dma_latency_us)},
      {.letter = 'F', .name = "fifo", .value = Value::kRequired, .meta = "PATH", .help = "Make a named pipe that hands out status lines.", .set = StoreString(&r->fifo)},
      {.letter = 'h', .name = "histogram", .value = Value::kRequired, .meta = "US", .help = "Histogram of 0 .. US-1 at the end; with -N the same buckets, in ns.", .set = StoreHistogram(r, false)},
      {.letter = 'H', .name = "histofall", .value = Value::kRequired, .meta = "US", .help = "The same with a column of sums.", .set = StoreHistogram(r, true)},
      {.name = "histfile", .value = Value::kRequired, .meta = "PATH", .help = "Histogram into this file.", .set = StoreString(&r->histfile)},
      {.letter = 'i', .name = "interval", .value = Value::kRequired, .meta = "US", .help = "Period of the first thread; 1000 without it.", .set = StoreInt(&r->interval_us)},
      {.name = "json", .value = Value::kRequired, .meta = "FILE", .help = "cyclictest's JSON (file_version 1) at the end; - is the standard output.", .set = StoreString(&r->json)},
      {.letter = 'l', .name = "loops", .value = Value::kRequired, .meta = "N", .help = "Samples of a thread; 0 is endless. The run ends with the first thread that has them (--finish).", .set = StoreInt(&r->loops)},
      {.name = "mainaffinity", .value = Value::kRequired, .meta = "CPUSET", .help = "CPUs of the displaying thread.", .set = StoreText(&r->main_affinity)},
      {.letter = 'm', .name = "mlockall", .help = "Lock memory: each page when it is touched, and what measures is touched before.", .set = StoreFlag(&r->mlock)},
      {.letter = 'M', .name = "refresh_on_max", .help = "Redraw only for a new maximum.", .set = StoreFlag(&r->refresh_on_max)},
      {.letter = 'N', .name = "nsecs", .help = "Nanoseconds everywhere, limits too.", .set = StoreFlag(&r->nsecs)},
      {.letter = 'o', .name = "oscope", .value = Value::kRequired, .meta = "N", .help = "With -v: only the largest of each N samples.", .set = StoreInt(&r->oscope)},
      {.letter = 'p', .name = "priority", .value = Value::kRequired, .meta = "PRIO", .help = "SCHED_FIFO priority 1..99 (of SCHED_RR with --policy rr).", .set = StoreInt(&r->priority)},
      {.letter = 'y', .name = "policy", .value = Value::kRequired, .meta = "NAME", .help = "other, normal, batch, idle, fifo, rr, deadline[:RUNTIME[:PERIOD]] (microseconds, or with a unit).", .set = StoreString(&r->policy)},
      {.name = "priospread", .help = "Priorities PRIO, PRIO-1, ...", .set = StoreFlag(&r->prio_spread)},
      {.letter = 'q', .name = "quiet", .help = "Print at the end only.", .set = StoreFlag(&r->quiet)},
      {.letter = 'r', .name = "relative", .help = "Relative sleeps.", .set = StoreFlag(&r->relative)},
      {.letter = 'R', .name = "resolution", .help = "Compare the clock's resolution with what it says.", .set = StoreFlag(&r->resolution)},
      {.letter = 's', .name = "system", .help = "nanosleep() instead of clock_nanosleep().", .set = StoreFlag(&r->nanosleep)},
      {.letter = 'S', .name = "smp", .help = "One thread on each allowed CPU, equal priority.", .set = StoreFlag(&r->smp)},
      {.name = "smi", .help = "Count system management interrupts (needs -a or -S).", .set = StoreFlag(&r->smi)},
      {.name = "spike", .value = Value::kRequired, .meta = "US", .help = "Record samples above US (with -N: ns).", .set = StoreInt(&r->spike)},
      {.name = "spike-nodes", .value = Value::kRequired, .meta = "N", .help = "Records kept by --spike; 1024 without it.", .set = StoreInt(&r->spike_nodes)},
      {.letter = 't', .name = "threads", .value = Value::kOptional, .meta = "N", .help = "Number of threads; without N one for each allowed CPU.", .set = [r](std::string_view v) -> Status {
         r->threads_given = true;
         if (v.empty()) return OkStatus();
         ASSIGN_OR_RETURN(r->threads, ParseInt(v));
         return OkStatus();
       }, .peek = true},
      {.letter = 'u', .name = "unbuffered", .help = "Unbuffered output.", .set = StoreFlag(&r->unbuffered)},
      {.letter = 'v', .name = "verbose", .help = "Print every sample: thread:cycle:value.", .set = StoreFlag(&r->verbose)},
      {.name = "dbg_cyclictest", .help = "Say which clock is used.", .set = StoreFlag(&r->debug)},
      {.letter = 'x', .name = "posix_timers", .help = "POSIX timers instead of clock_nanosleep().", .set = StoreFlag(&r->posix_timers)},
  };
  for (Option& option : own) {
    option.group = kGroup;
    options->push_back(std::move(option));
  }
}

// cyclictest's before 1.4 (2018), and brink's own around them.
void AddTracing(LatencyOutputs* outputs, std::vector<Option>* options) {
  constexpr const char* kGroup = "Tracing, in an instance of its own (with -b)";
  latency::TraceRequest* trace = &outputs->trace;
  auto tracer = [trace](const char* name) {
    return [trace, name](std::string_view) {
      trace->tracer = name;
      return OkStatus();
    };
  };
  auto nothing = [](std::string_view) { return OkStatus(); };
  std::vector<Option> own = {
      {.letter = 'T', .name = "tracer", .value = Value::kRequired, .meta = "NAME", .help = "A tracer of this kernel: function, wakeup_rt, irqsoff, ...", .set = StoreString(&trace->tracer)},
      {.letter = 'E', .name = "event", .value = Value::kRequired, .meta = "EVENT", .help = "An event or system of events; repeatable.", .set = AppendString(&trace->events)},
      {.letter = 'O', .name = "traceopt", .value = Value::kRequired, .meta = "OPTION", .help = "A trace option; repeatable.", .set = AppendString(&trace->options)},
      {.letter = 'f', .name = "ftrace", .help = "-T function", .set = tracer("function")},
      {.letter = 'B', .name = "preemptirqs", .help = "-T preemptirqsoff", .set = tracer("preemptirqsoff")},
      {.letter = 'I', .name = "irqsoff", .help = "-T irqsoff", .set = tracer("irqsoff")},
      {.letter = 'P', .name = "preemptoff", .help = "-T preemptoff", .set = tracer("preemptoff")},
      {.letter = 'w', .name = "wakeup", .help = "-T wakeup", .set = tracer("wakeup")},
      {.letter = 'W', .name = "wakeuprt", .help = "-T wakeup_rt", .set = tracer("wakeup_rt")},
      {.letter = 'C', .name = "context", .help = "-E sched:sched_switch -E sched:sched_wakeup", .set = [trace](std::string_view) {
         trace->events.insert(trace->events.end(), {"sched:sched_switch", "sched:sched_wakeup"});
         return OkStatus();
       }},
      {.letter = 'n', .name = "nanosleep", .help = "clock_nanosleep(): what is used anyway, unless -x or -s.", .set = nothing},
      {.letter = 'U', .name = "numa", .help = "Memory on the thread's node: done anyway.", .set = nothing},
      {.name = "notrace", .help = "No tracing, whatever the options before say.", .set = [trace](std::string_view) {
         *trace = {};
         return OkStatus();
       }},
      {.name = "trace-file", .value = Value::kRequired, .meta = "FILE", .help = "Where the trace goes when the limit was broken; brink-latency.trace without it.", .set = StoreString(&trace->file)},
      {.name = "trace-top", .help = "--tracemark marks and stops the top-level trace, which you have started (trace-cmd), and no private one.", .set = StoreFlag(&trace->own_trace, false)},
  };
  for (Option& option : own) {
    option.group = kGroup;
    options->push_back(std::move(option));
  }
}

void AddOwn(Request* r, LatencyOutputs* outputs, std::vector<Option>* options) {
  std::vector<Option> own = {
      {.name = "format", .value = Value::kRequired, .meta = "NAME", .group = "Output", .help = "text (percentiles, missed periods), cyclictest, json (schema docs/schema/latency.json), csv.", .set = StoreString(&r->format)},
      {.name = "save", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Everything as JSON, for brink latency report.", .set = StoreString(&outputs->save)},
      {.name = "plot", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Histogram as a picture: FILE.svg, FILE.html or FILE.png; a line for each CPU.", .set = StoreString(&outputs->plot)},
      {.name = "folded", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "With --blame: paths of ordinary and of late wake-ups with their numbers, for flamegraph.pl (the form of difffolded.pl).", .set = StoreString(&outputs->folded)},
      {.name = "old-histogram", .group = "Output", .help = "-h and -H as cyclictest 2.6 and older print them: empty buckets too, and a line of totals.", .set = StoreFlag(&outputs->old_histogram)},
      {.name = "blame", .value = Value::kOptional, .meta = "US", .group = "Reasons", .help = "Split every wake-up and explain each that was later than US (100 without it). Needs BPF rights.", .set = [outputs](std::string_view v) -> Status {
         outputs->blame = true;
         if (v.empty()) return OkStatus();
         ASSIGN_OR_RETURN(int64_t us, ParseInt(v));
         if (us < 0) return InvalidArgument("a limit is not negative");
         outputs->blame_above_ns = us * 1000;
         return OkStatus();
       }},
      {.name = "on-threshold", .value = Value::kRequired, .meta = "ACTION", .group = "Reasons", .help = "What to do when a wake-up is explained; repeatable, in this order: stop, continue, trace,\nsignal[:NUM[:PID|parent]] (SIGUSR1 to the parent), exec:COMMAND (the report is its standard input). At most ten a\nsecond. Means --blame.", .set = [outputs](std::string_view v) {
         outputs->blame = true;
         outputs->on_threshold.push_back(std::string(v));
         return OkStatus();
       }},
      {.name = "heartbeat", .value = Value::kRequired, .meta = "TIME", .group = "Reasons", .help = "Period of the timer that --blame starts on every CPU, so that silence means something; 1 ms without it, 0 none.\nA bare number is us.", .set = StoreDuration(&outputs->heartbeat_ns, 1000)},
      {.name = "max-spikes", .value = Value::kRequired, .meta = "N", .group = "Reasons", .help = "Reports printed, the worst first; 10 without it. --save keeps up to 1000.", .set = StoreInt(&outputs->max_spikes)},
      {.name = "fail-above", .value = Value::kRequired, .meta = "US", .group = "Measurement", .help = "Exit with status 4 when a sample was above US.", .set = StoreInt(&r->fail_above_us)},
      {.name = "warm-up", .value = Value::kRequired, .meta = "TIME", .group = "Measurement", .help = "Samples of the first TIME are not counted.", .set = StoreDuration(&r->warm_up_ns, 1'000'000'000)},
      {.name = "finish", .value = Value::kRequired, .meta = "first|all", .group = "Measurement", .help = "End with the first thread that is done (the default), or when all are.", .set = [r](std::string_view v) -> Status {
         if (v != "first" && v != "all") return InvalidArgument("'" + EscapeForTerminal(v) + "' is neither first nor all");
         r->finish = v == "first" ? latency::Finish::kFirst : latency::Finish::kAll;
         return OkStatus();
       }},
      {.name = "worst", .value = Value::kRequired, .meta = "N", .group = "Measurement", .help = "Largest samples that are kept of each thread; 20 without it.", .set = StoreInt(&r->worst)},
      {.name = "msr-root", .value = Value::kRequired, .meta = "DIR", .group = "Measurement", .help = "Where --smi finds CPU/msr; /dev/cpu without it.", .set = StoreString(&r->msr_root)},
  };
  for (Option& option : own) options->push_back(std::move(option));
}

}  // namespace

void AddLatencyOptions(latency::Request* request, LatencyOutputs* outputs, std::vector<Option>* options) {
  AddCyclic(request, outputs, options);
  AddTracing(outputs, options);
  AddOwn(request, outputs, options);
}

}  // namespace brink::cli
