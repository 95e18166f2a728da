#include "latency/cpu_set.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"

namespace brink::latency {
namespace {

Status Bad(std::string_view text, std::string_view why) {
  return InvalidArgument("CPU set '" + EscapeForTerminal(text) + "': " + std::string(why) + "; forms: 0,2 0-3 0-7:2 !1 +0-1 all");
}

StatusOr<std::vector<int>> ParseRange(std::string_view whole, std::string_view piece) {
  uint64_t step = 1;
  if (size_t colon = piece.find(':'); colon != std::string_view::npos) {
    auto parsed = ParseUint(piece.substr(colon + 1));
    if (!parsed.ok() || *parsed == 0 || *parsed > 65535) return Bad(whole, "what follows ':' is no step");
    step = *parsed;
    piece = piece.substr(0, colon);
  }
  size_t dash = piece.find('-');
  auto first = ParseUint(piece.substr(0, dash));
  auto last = dash == std::string_view::npos ? first : ParseUint(piece.substr(dash + 1));
  if (!first.ok() || !last.ok() || *first > 65535 || *last > 65535) return Bad(whole, "'" + EscapeForTerminal(piece) + "' is no CPU number or range");
  if (*last < *first) return Bad(whole, "a range runs backwards");
  std::vector<int> cpus;
  for (uint64_t cpu = *first; cpu <= *last; cpu += step) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

bool Has(const std::vector<int>& set, int cpu) { return std::binary_search(set.begin(), set.end(), cpu); }

}  // namespace

StatusOr<std::vector<int>> ParseCpuSet(std::string_view text, const std::vector<int>& online, const std::vector<int>& allowed) {
  std::string_view rest = text;
  bool negate = false, relative = false;
  if (!rest.empty() && rest[0] == '!') negate = true, rest.remove_prefix(1);
  if (!rest.empty() && rest[0] == '+') relative = true, rest.remove_prefix(1);
  if (rest.empty()) return Bad(text, "it is empty");
  std::vector<int> named;
  if (rest == "all") {
    named = relative ? allowed : online;
    relative = false;
  } else {
    for (std::string_view piece : Split(rest, ',')) {
      ASSIGN_OR_RETURN(std::vector<int> range, ParseRange(text, piece));
      named.insert(named.end(), range.begin(), range.end());
    }
  }
  std::vector<int> cpus;
  for (int cpu : named) {
    if (relative) {
      if (static_cast<size_t>(cpu) >= allowed.size()) return Bad(text, "+" + std::to_string(cpu) + " is beyond the " + std::to_string(allowed.size()) + " allowed CPUs");
      cpu = allowed[static_cast<size_t>(cpu)];
    }
    if (!Has(online, cpu)) return Bad(text, "CPU " + std::to_string(cpu) + " is not online");
    cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  if (negate) {
    std::vector<int> others;
    for (int cpu : allowed) {
      if (!Has(cpus, cpu)) others.push_back(cpu);
    }
    cpus = std::move(others);
  }
  if (cpus.empty()) return Bad(text, "no CPU is left");
  return cpus;
}

std::vector<int> OnlineCpus() {
  auto text = ReadFile("/sys/devices/system/cpu/online");
  if (text.ok()) {
    auto cpus = ParseCpuList(Trim(*text));
    if (cpus.ok() && !cpus->empty()) return *cpus;
  }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < ::sysconf(_SC_NPROCESSORS_ONLN); ++cpu) cpus.push_back(cpu);
  return cpus;
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  size_t size = CPU_ALLOC_SIZE(65536);
  cpu_set_t* set = CPU_ALLOC(65536);
  if (::sched_getaffinity(0, size, set) == 0) {
    const auto count = static_cast<size_t>(CPU_COUNT_S(size, set));
    for (int cpu = 0; cpus.size() < count && cpu < 65536; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus.empty() ? OnlineCpus() : cpus;
}

}  // namespace brink::latency
