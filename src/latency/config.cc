#include "latency/config.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernel/cpu_info.h"
#include "latency/clock.h"
#include "latency/cpu_set.h"

namespace brink::latency {
namespace {

constexpr int64_t kMaxHistogram = 1'000'000;
constexpr clockid_t kFirstAuxClock = 16;

StatusOr<Format> ParseFormat(std::string_view text) {
  if (text.empty() || text == "text") return Format::kText;
  if (text == "cyclictest") return Format::kCyclictest;
  if (text == "json") return Format::kJson;
  if (text == "csv") return Format::kCsv;
  return InvalidArgument("--format: '" + EscapeForTerminal(text) + "' is none of text, cyclictest, json, csv");
}

// The policy by name, and with SCHED_DEADLINE its runtime and period ("deadline:200us:1ms").
Status ParsePolicy(std::string_view text, Config* config) {
  std::vector<std::string_view> parts = Split(text, ':');
  std::string_view name = parts[0];
  if (name == "deadline" || name == "d") {
    config->policy = Policy::kDeadline;
    if (parts.size() > 3) return InvalidArgument("--policy: deadline[:RUNTIME[:PERIOD]]");
    for (size_t i = 1; i < parts.size(); ++i) {
      ASSIGN_OR_RETURN(uint64_t ns, ParseDurationNs(parts[i], 1000));
      (i == 1 ? config->dl_runtime_ns : config->dl_period_ns) = static_cast<int64_t>(ns);
    }
    return OkStatus();
  }
  if (parts.size() > 1) return InvalidArgument("--policy: only deadline takes RUNTIME and PERIOD");
  if (name == "other" || name == "normal") config->policy = Policy::kOther;
  else if (name == "fifo") config->policy = Policy::kFifo;
  else if (name == "rr") config->policy = Policy::kRr;
  else if (name == "batch") config->policy = Policy::kBatch;
  else if (name == "idle") config->policy = Policy::kIdle;
  else return InvalidArgument("--policy: '" + EscapeForTerminal(name) + "' is none of other, normal, batch, idle, fifo, rr, deadline");
  return OkStatus();
}

struct Placement {
  std::vector<int> cpus;  // empty: not pinned
  int64_t count = 1;
};

StatusOr<Placement> Place(const Request& request, const Machine& machine, Config* config) {
  Placement place;
  if (request.smp) {
    if (request.affinity) config->warnings.push_back("-a ignored due to smp mode");
    if (request.threads_given) config->warnings.push_back("-t ignored due to smp mode");
    place.cpus = machine.allowed;
    place.count = static_cast<int64_t>(place.cpus.size());
    return place;
  }
  if (request.affinity && request.affinity->empty()) place.cpus = machine.allowed;
  if (request.affinity && !request.affinity->empty()) {
    ASSIGN_OR_RETURN(place.cpus, ParseCpuSet(*request.affinity, machine.online, machine.allowed));
    config->main_cpus = place.cpus;
    config->cpus_from_affinity = true;
  }
  if (request.threads_given) {
    int64_t wanted = request.threads.value_or(0);
    if (wanted < 0) return InvalidArgument("-t: a number of threads is not negative");
    if (wanted > 65536) return InvalidArgument("-t: more than 65536 threads");
    place.count = wanted ? wanted : static_cast<int64_t>(place.cpus.empty() ? machine.allowed.size() : place.cpus.size());
  }
  return place;
}

Status SetPolicy(const Request& request, Config* config, int64_t threads, int64_t* priority) {
  *priority = request.priority.value_or(0);
  if (*priority < 0 || *priority > 99) return InvalidArgument("-p: a priority is 0..99");
  if (!request.policy.empty()) RETURN_IF_ERROR(ParsePolicy(request.policy, config));
  bool rt = config->policy == Policy::kFifo || config->policy == Policy::kRr;
  if (config->policy == Policy::kDeadline) {
    if (*priority) return InvalidArgument("-p: SCHED_DEADLINE has no priority; leave -p out");
    return OkStatus();
  }
  if (request.prio_spread && !*priority) {
    *priority = threads + 1;
    if (!rt && request.policy.empty()) config->policy = Policy::kFifo, rt = true;
    config->notes.push_back(absl::StrFormat("defaulting realtime priority to %d", *priority));
  } else if (rt && !*priority) {
    *priority = threads + 1;
    config->notes.push_back(absl::StrFormat("defaulting realtime priority to %d", *priority));
  }
  if (*priority > 99) return InvalidArgument(absl::StrFormat("%d threads do not fit into priorities 1..99: give -p", threads));
  if (*priority && !rt) {
    if (!request.policy.empty()) config->notes.push_back("policy and priority don't match: setting policy to SCHED_FIFO");
    config->policy = Policy::kFifo;
  }
  return OkStatus();
}

Status SetSleep(const Request& request, Config* config) {
  bool nanosleep = request.nanosleep;
  config->sleep = Sleep::kAbsolute;
  if (request.relative) config->sleep = Sleep::kRelative;
  if (request.posix_timers) {
    if (nanosleep) {
      config->warnings.push_back("The system mode does not work with posix timers: -x is dropped");
    } else {
      config->sleep = Sleep::kPosixTimer;
      if (request.relative) config->warnings.push_back("-r has no effect with posix timers: their period is absolute");
    }
  }
  if (nanosleep) config->sleep = Sleep::kNanosleep;
  return OkStatus();
}

Status SetHistogram(const Request& request, Config* config) {
  if (request.histogram < 0) return InvalidArgument("-h, -H: the number of buckets is 1..1000000");
  config->histogram = std::min(request.histogram, kMaxHistogram);
  config->histogram_all = request.histogram_all;
  config->histfile = request.histfile;
  if (config->histogram && request.distance_us && *request.distance_us) config->warnings.push_back("distance is ignored and set to 0, if histogram enabled");
  if (!config->histogram && !config->histfile.empty()) config->warnings.push_back("--histfile is only meaningful with -h or -H");
  return OkStatus();
}

Status SetPower(const Request& request, Config* config) {
  config->dma_latency_us = static_cast<int32_t>(std::clamp<int64_t>(request.dma_latency_us, 0, INT32_MAX));
  if (request.laptop) {
    config->power = Power::kSystem;
    config->warnings.push_back("not setting cpu_dma_latency to save battery power");
  } else if (request.default_system) {
    config->power = Power::kSystem;
    config->warnings.push_back("power management is left as it is");
  } else if (request.deepest_idle_state) {
    if (*request.deepest_idle_state < -1) return InvalidArgument("--deepest-idle-state: -1 (none but polling) or the number of a state");
    config->power = Power::kIdleStates;
    config->deepest_idle_state = *request.deepest_idle_state;
  }
  return OkStatus();
}

Status SetSmi(const Request& request, const Machine& machine, Config* config) {
  config->smi = request.smi;
  config->msr_root = request.msr_root;
  if (!request.smi) return OkStatus();
  bool pinned = !config->threads.empty() && config->threads[0].cpu >= 0;
  if (!pinned) return InvalidArgument("--smi counts on the thread's CPU: pin the threads with -a or -S");
  // A stand-in for the registers needs no Intel CPU.
  if (request.msr_root == "/dev/cpu" && (!machine.genuine_intel || machine.family < 6)) {
    return FailedPrecondition("SMI counter is not supported on this processor (" + machine.vendor + "): MSR 0x34 is Intel's");
  }
  return OkStatus();
}

Status SetDeadline(Config* config) {
  if (config->policy != Policy::kDeadline) return OkStatus();
  for (const ThreadConfig& thread : config->threads) {
    int64_t period = config->dl_period_ns ? config->dl_period_ns : thread.interval_ns;
    int64_t runtime = config->dl_runtime_ns ? config->dl_runtime_ns : std::max<int64_t>(period / 10, 20'000);
    if (runtime > period) return InvalidArgument("--policy: the deadline's runtime exceeds its period");
  }
  return OkStatus();
}

Status CheckNumbers(const Request& request) {
  if (request.interval_us && *request.interval_us <= 0) return InvalidArgument("-i: an interval is at least 1 us");
  if (request.interval_us && *request.interval_us > 3'600'000'000) return InvalidArgument("-i: an interval is at most one hour");
  if (request.distance_us && (*request.distance_us < 0 || *request.distance_us > 3'600'000'000)) return InvalidArgument("-d: a distance is 0 us to one hour");
  if (request.break_us < 0) return InvalidArgument("-b: a limit is not negative");
  if (request.oscope && !request.verbose) return InvalidArgument("-o option only meaningful, if verbose (-v)");
  if (request.oscope && *request.oscope < 1) return InvalidArgument("-o: a reduction is at least 1");
  if (request.spike && *request.spike < 1) return InvalidArgument("--spike: a limit is at least 1");
  if (request.spike_nodes < 1 || request.spike_nodes > 100'000'000) return InvalidArgument("--spike-nodes: 1..100000000 records");
  if (request.aligned_us && request.sec_aligned_us) return InvalidArgument("-A and --secaligned exclude each other");
  if (request.worst < 0 || request.worst > 10'000) return InvalidArgument("--worst: 0..10000");
  if (request.fail_above_us && *request.fail_above_us < 0) return InvalidArgument("--fail-above: a limit is not negative");
  return OkStatus();
}

}  // namespace

std::string_view PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kOther: return "other";
    case Policy::kFifo: return "fifo";
    case Policy::kRr: return "rr";
    case Policy::kBatch: return "batch";
    case Policy::kIdle: return "idle";
    case Policy::kDeadline: return "deadline";
  }
  return "?";
}

StatusOr<int64_t> ParseDurationSeconds(std::string_view text) {
  if (text.empty()) return 0;
  int64_t unit = 1;
  switch (text.back()) {
    case 's': case 'S': unit = 1; break;
    case 'm': case 'M': unit = 60; break;
    case 'h': case 'H': unit = 3600; break;
    case 'd': case 'D': unit = 86400; break;
    default: unit = 0;
  }
  auto number = ParseUint(unit ? text.substr(0, text.size() - 1) : text);
  if (!number.ok() || *number > 1'000'000'000) return InvalidArgument("'" + EscapeForTerminal(text) + "' is no duration: a number of seconds, or with m, h or d");
  return static_cast<int64_t>(*number) * (unit ? unit : 1);
}

StatusOr<clockid_t> ParseClock(std::string_view text) {
  if (text == "0" || text == "monotonic") return CLOCK_MONOTONIC;
  if (text == "1" || text == "realtime") return CLOCK_REALTIME;
  if (text == "boottime") return CLOCK_BOOTTIME;
  if (text == "tai") return CLOCK_TAI;
  if (text.size() == 4 && text.substr(0, 3) == "aux" && text[3] >= '0' && text[3] <= '7') return kFirstAuxClock + (text[3] - '0');
  return InvalidArgument("-c: '" + EscapeForTerminal(text) + "' is none of monotonic (0), realtime (1), boottime, tai, aux0..aux7");
}

Machine Machine::Read() {
  Machine machine;
  machine.online = OnlineCpus();
  machine.allowed = AllowedCpus();
  CpuInfo cpu = CpuInfo::Read();
  machine.genuine_intel = cpu.vendor == CpuVendor::kIntel;
  machine.family = cpu.family;
  machine.vendor = std::string(CpuVendorName(cpu.vendor));
  return machine;
}

StatusOr<Config> Resolve(const Request& request, const Machine& machine) {
  RETURN_IF_ERROR(CheckNumbers(request));
  Config config;
  ASSIGN_OR_RETURN(config.format, ParseFormat(request.format));
  ASSIGN_OR_RETURN(Placement place, Place(request, machine, &config));
  int64_t priority = 0;
  RETURN_IF_ERROR(SetPolicy(request, &config, place.count, &priority));
  RETURN_IF_ERROR(SetSleep(request, &config));
  RETURN_IF_ERROR(SetHistogram(request, &config));
  RETURN_IF_ERROR(SetPower(request, &config));
  ASSIGN_OR_RETURN(config.clock, ParseClock(request.clock));
  config.clock_name = request.clock == "0" ? "monotonic" : request.clock == "1" ? "realtime" : request.clock;
  ASSIGN_OR_RETURN(int64_t seconds, ParseDurationSeconds(request.duration));
  config.duration_ns = seconds * kNsPerSec;
  if (request.main_affinity) {
    ASSIGN_OR_RETURN(config.main_cpus, ParseCpuSet(*request.main_affinity, machine.online, machine.allowed));
  }
  if (request.aligned_us) config.aligned = true, config.align_offset_ns = *request.aligned_us * 1000;
  if (request.sec_aligned_us) config.sec_aligned = true, config.align_offset_ns = *request.sec_aligned_us * 1000;

  int64_t distance = config.histogram ? 0 : request.distance_us.value_or(500);
  int64_t interval = request.interval_us.value_or(1000);
  for (int64_t i = 0; i < place.count; ++i) {
    ThreadConfig thread;
    thread.index = static_cast<int>(i);
    if (!place.cpus.empty()) thread.cpu = place.cpus[static_cast<size_t>(i) % place.cpus.size()];
    thread.priority = static_cast<int>(request.prio_spread ? std::max<int64_t>(priority - i, 1) : priority);
    thread.interval_ns = (interval + i * distance) * 1000;
    config.threads.push_back(thread);
  }
  config.unit_ns = request.nsecs ? 1 : 1000;
  config.break_value = request.break_us;
  config.fifo = request.fifo;
  config.json = request.json;
  config.loops = request.loops > 0 ? static_cast<uint64_t>(request.loops) : 0;
  config.mlock = request.mlock;
  config.refresh_on_max = request.refresh_on_max;
  config.quiet = request.quiet;
  config.resolution = request.resolution;
  config.unbuffered = request.unbuffered;
  config.verbose = request.verbose;
  config.debug = request.debug;
  config.oscope = static_cast<uint64_t>(request.oscope.value_or(1));
  config.spike = request.spike.value_or(0);
  config.spike_nodes = static_cast<uint64_t>(request.spike_nodes);
  config.warm_up_ns = static_cast<int64_t>(request.warm_up_ns);
  config.finish = request.finish;
  config.worst = static_cast<size_t>(request.worst);
  if (request.fail_above_us) config.fail_above_ns = *request.fail_above_us * 1000;
  RETURN_IF_ERROR(SetSmi(request, machine, &config));
  RETURN_IF_ERROR(SetDeadline(&config));
  return config;
}

}  // namespace brink::latency
