// Event names, as perf spells them, to the numbers of perf_event_open.
//
// Accepted: cycles, cpu-clock ... (generic hardware, software and cache names), rHEX, PMU/term=value,term/ by the sysfs
// format files, names listed in a core PMU's sysfs events (branch-brs), CATEGORY:NAME tracepoints,
// mem:ADDR[/LENGTH][:rwx] hardware breakpoints; each with modifiers after ':' (u k h p G H).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink {

struct EventSpec {
  std::string name;  // as written, without blanks
  std::string pmu;   // sysfs name of its PMU; "" for generic, tracepoint and breakpoint events
  uint32_t type = 0;
  uint64_t config = 0;
  uint64_t config1 = 0;  // breakpoints: address
  uint64_t config2 = 0;  // breakpoints: length
  uint32_t bp_type = 0;  // HW_BREAKPOINT_*; 0 for others
  uint64_t period = 0;   // from a "period=" term; 0 = not given
  uint64_t frequency = 0;  // from a "freq=" term
  uint8_t precise = 0;
  bool exclude_user = false, exclude_kernel = false, exclude_hv = false;
  bool exclude_host = false, exclude_guest = false;
  std::vector<int> cpus;  // the only CPUs this PMU serves (hybrid, uncore); empty: all

  bool is_clock() const;       // cpu-clock or task-clock: sampled by an hrtimer
  bool is_software() const;
  bool is_tracepoint() const;
  bool is_breakpoint() const;
  bool is_hardware() const { return !is_software() && !is_tracepoint() && !is_breakpoint(); }
};

// Where the kernel's files are; tests point them at a folder of their own.
struct KernelRoots {
  std::string sysfs = "/sys";
  std::vector<std::string> tracefs;  // empty: TracefsRoot()
};

// One event. Errors quote the text, say what is wrong and propose near names.
StatusOr<EventSpec> ParseEvent(std::string_view text, const KernelRoots& roots = {});
// A comma list; commas between the slashes of PMU/.../ do not separate.
StatusOr<std::vector<EventSpec>> ParseEventList(std::string_view text, const KernelRoots& roots = {});

// Sysfs names of the core PMUs ("cpu", or "cpu_core" and "cpu_atom", or "armv8_pmuv3_0"...). Empty: no hardware PMU.
std::vector<std::string> CorePmus(const KernelRoots& roots = {});

}  // namespace brink
