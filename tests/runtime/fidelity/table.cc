#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/stop.h"
#include "truth.h"

namespace brink::fidelity {

std::string Table(const std::vector<std::pair<std::string, Tally>>& tallies, uint32_t depth) {
  std::string out = absl::StrFormat("%-16s %8s %6s %9s %9s %6s %6s %7s %6s  %s\n", "program", "windows", "wrong", "explained", "disturbed",
                                    "full", ">=half", "depth", "steps", "stops of the shortened");
  Tally all;
  auto line = [&](const std::string& name, const Tally& t) {
    double judged = std::max(1u, t.exact_full + t.shortened);
    absl::StrAppendFormat(&out, "%-16s %8d %6d %9d %9d %5.1f%% %5.1f%% %7.1f %6.0f ", name, t.windows, t.wrong, t.explained, t.disturbed,
                          100 * t.exact_full / judged, 100 * t.at_least_half / judged, t.branches / judged,
                          t.steps / judged);
    for (const auto& [stop, count] : t.stops) absl::StrAppendFormat(&out, " %s %d", std::string(StopReasonName(stop)), count);
    out += "\n";
  };
  for (const auto& [name, tally] : tallies) {
    line(name, tally);
    all.Add(tally);
  }
  line("all", all);
  absl::StrAppendFormat(&out, "\ndepth asked for %d; instructions at which walks ended early:\n", depth);
  std::vector<std::pair<uint32_t, std::string>> order;
  for (const auto& [what, count] : all.at_instruction) order.push_back({count, what});
  std::sort(order.rbegin(), order.rend());
  if (order.size() > 40) order.resize(40);
  for (const auto& [count, what] : order) absl::StrAppendFormat(&out, "%8d %s\n", count, what);
  return out;
}

}  // namespace brink::fidelity
