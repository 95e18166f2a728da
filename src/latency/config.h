// What a run of `brink latency` measures: the words of the command line (Request), and what they come to (Config).
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace brink::latency {

enum class Policy { kOther, kFifo, kRr, kBatch, kIdle, kDeadline };
std::string_view PolicyName(Policy policy);

enum class Sleep { kAbsolute, kRelative, kNanosleep, kPosixTimer };
enum class Format { kText, kCyclictest, kJson, kCsv };
enum class Finish { kFirst, kAll };
enum class Power { kDmaLatency, kIdleStates, kSystem };

// Options as typed, cyclictest's meanings; nothing is checked against the machine yet.
struct Request {
  std::optional<std::string> affinity;       // -a; "" = without a set
  std::optional<std::string> main_affinity;  // --mainaffinity
  std::optional<int64_t> aligned_us, sec_aligned_us;
  int64_t break_us = 0;                      // -b, in the display unit
  std::string clock = "monotonic";
  std::optional<int64_t> distance_us;
  std::string duration;
  std::optional<int64_t> deepest_idle_state;
  bool default_system = false, laptop = false;
  int64_t dma_latency_us = 0;
  std::string fifo, histfile, json;
  int64_t histogram = 0;                     // buckets; 0 = off
  bool histogram_all = false;
  std::optional<int64_t> interval_us;
  int64_t loops = 0;
  bool mlock = false, refresh_on_max = false, nsecs = false, quiet = false, resolution = false, unbuffered = false;
  bool verbose = false, smp = false, smi = false, debug = false, prio_spread = false;
  std::optional<int64_t> oscope;
  std::optional<int64_t> priority;
  std::string policy;                        // "" = not given
  bool relative = false, nanosleep = false, posix_timers = false;
  std::optional<int64_t> spike;
  int64_t spike_nodes = 1024;
  std::optional<int64_t> threads;            // 0 = one a CPU
  bool threads_given = false;
  // brink's own
  std::string format;                        // "" = text, or cyclictest through that name
  std::string msr_root = "/dev/cpu";
  uint64_t warm_up_ns = 0;
  Finish finish = Finish::kFirst;
  std::optional<int64_t> fail_above_us;
  int64_t worst = 20;
};

// The machine as far as Resolve needs it.
struct Machine {
  std::vector<int> online, allowed;  // ascending
  bool genuine_intel = false;
  uint32_t family = 0;
  std::string vendor;
  static Machine Read();
};

struct ThreadConfig {
  int index = 0;
  int cpu = -1;  // -1: anywhere
  int node = 0;
  int priority = 0;
  int64_t interval_ns = 1'000'000;
};

struct Config {
  std::vector<ThreadConfig> threads;
  std::vector<int> main_cpus;  // empty: as inherited
  Policy policy = Policy::kOther;
  int64_t dl_runtime_ns = 0, dl_period_ns = 0;
  Sleep sleep = Sleep::kAbsolute;
  clockid_t clock = CLOCK_MONOTONIC;
  std::string clock_name = "monotonic";
  bool aligned = false, sec_aligned = false;
  int64_t align_offset_ns = 0;
  int64_t unit_ns = 1000;      // 1 with -N
  int64_t break_value = 0;     // in units; 0 = off
  int64_t duration_ns = 0;     // 0 = endless
  Power power = Power::kDmaLatency;
  int64_t deepest_idle_state = -2;
  int32_t dma_latency_us = 0;
  std::string fifo, histfile, json;
  int64_t histogram = 0;
  bool histogram_all = false;
  uint64_t loops = 0;          // 0 = endless
  bool mlock = false, refresh_on_max = false, quiet = false, resolution = false, unbuffered = false;
  bool verbose = false, smi = false, debug = false;
  bool cpus_from_affinity = false;  // -v prints "Using N cpus."
  uint64_t oscope = 1;
  int64_t spike = 0;           // in units; 0 = off
  uint64_t spike_nodes = 1024;
  Format format = Format::kText;
  std::string msr_root;
  int64_t warm_up_ns = 0;
  Finish finish = Finish::kFirst;
  std::optional<int64_t> fail_above_ns;
  size_t worst = 20;
  std::vector<std::string> warnings;  // for stderr, each one line, in cyclictest's words where it has them
  std::vector<std::string> notes;     // likewise, without a head
};

// What the words come to on this machine. Errors are usage errors. Pure.
StatusOr<Config> Resolve(const Request& request, const Machine& machine);

// "30", "1m", "2H", "1d"; "" = 0. An unknown unit is refused.
StatusOr<int64_t> ParseDurationSeconds(std::string_view text);
// A clock's id: monotonic 0 realtime 1 boottime tai aux0..aux7.
StatusOr<clockid_t> ParseClock(std::string_view text);

}  // namespace brink::latency
