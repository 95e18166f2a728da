#include "source/walk_report.h"

#include <algorithm>
#include <bit>

#include <absl/strings/str_format.h>

#include "base/stop.h"
#include "base/units.h"

namespace brink {
namespace {

constexpr size_t kKeptTimes = 16384;

double Share(uint64_t part, uint64_t whole) { return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

std::string StopsText(const WalkTally& tally) {
  std::vector<std::pair<uint64_t, std::string_view>> ranked;
  for (int stop = 0; stop < BRINK_STOP_MAX; ++stop) {
    if (tally.stops[stop]) ranked.emplace_back(tally.stops[stop], StopReasonName(stop));
  }
  std::sort(ranked.rbegin(), ranked.rend());
  std::string text;
  for (const auto& [count, name] : ranked) absl::StrAppendFormat(&text, "%s%s %.1f%%", text.empty() ? "" : ", ", std::string(name), 100 * Share(count, tally.samples));
  return text;
}

std::string Key(std::string_view name) {
  std::string key = "walk_stop_" + std::string(name);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

}  // namespace

void WalkTally::Add(const brink_sample& sample) {
  ++samples;
  ++stops[sample.stop < BRINK_STOP_MAX ? sample.stop : 0];
  steps += sample.steps;
  walk_ns += sample.walk_ns;
  longest_ns = std::max<uint64_t>(longest_ns, sample.walk_ns);
  over_budget += budget_ns && sample.walk_ns > budget_ns;
  ++all_ns[std::min<int>(std::bit_width(sample.walk_ns), kBuckets - 1)];
  compat += (sample.flags & BRINK_SAMPLE_COMPAT) != 0;
  if (sample.nr == 0) return;
  ++stacks;
  branches += sample.nr;
  if (sample.stop != BRINK_STOP_FULL) return;
  ++full_ns[std::min<int>(std::bit_width(sample.walk_ns), kBuckets - 1)];
  if (full_times.size() < kKeptTimes) full_times.push_back(sample.walk_ns);
}

std::vector<StatLine> WalkReport(const WalkTally& tally, const LiftStats& lift, const AssistTotals& assist, const std::vector<std::string>& notes,
                                 uint32_t depth, uint64_t period_ns) {
  std::vector<StatLine> lines;
  auto add = [&](std::string name, double value, std::string text) { lines.push_back({std::move(name), value, std::move(text)}); };
  double mean = Share(tally.branches, tally.stacks), full = Share(tally.stops[BRINK_STOP_FULL], tally.samples);
  add("walk_stacks", static_cast<double>(tally.stacks),
      absl::StrFormat("walk: %d stacks of %d samples, mean depth %.1f of %d, %.1f%% full", tally.stacks, tally.samples, mean, depth, 100 * full));
  add("walk_mean_depth", mean, "");
  add("walk_full_share", full, "");
  add("walk_stops", 0, "walk ends: " + StopsText(tally));
  for (int stop = 0; stop < BRINK_STOP_MAX; ++stop) {
    if (tally.stops[stop]) add(Key(StopReasonName(stop)), static_cast<double>(tally.stops[stop]), "");
  }
  std::vector<uint32_t> times = tally.full_times;
  double median = 0;
  if (!times.empty()) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    median = times[times.size() / 2];
  }
  double step_ns = Share(tally.walk_ns, tally.steps), stack_ns = Share(tally.walk_ns, tally.samples);
  std::string cost = absl::StrFormat("walk cost: %.1f ns a step, %s a sample, full stacks %s at the median, longest %s", step_ns,
                                     FormatDuration(static_cast<uint64_t>(stack_ns)), FormatDuration(static_cast<uint64_t>(median)),
                                     FormatDuration(tally.longest_ns));
  if (period_ns) absl::StrAppendFormat(&cost, "; %.2f%% of the sampled time", 100 * stack_ns / static_cast<double>(period_ns));
  add("walk_step_ns", step_ns, cost);
  add("walk_sample_ns", stack_ns, "");
  add("walk_full_median_ns", median, "");
  add("walk_longest_ns", static_cast<double>(tally.longest_ns), "");
  add("walk_budget_ns", static_cast<double>(tally.budget_ns), "");
  add("walk_over_budget", static_cast<double>(tally.over_budget), "");
  for (int bits = 0; bits < WalkTally::kBuckets; ++bits) {
    if (tally.all_ns[bits]) add(absl::StrFormat("walk_samples_below_%d_ns", uint64_t{1} << bits), static_cast<double>(tally.all_ns[bits]), "");
  }
  std::string code = absl::StrFormat("walk code: %d instructions lifted in %d pages (%.1f%% end a walk), %d misses, %d ahead, %d evicted",
                                     lift.instructions, lift.pages, 100 * Share(lift.unsupported, lift.instructions), lift.misses, lift.ahead, lift.evicted);
  if (lift.queue_full) absl::StrAppendFormat(&code, ", %d dropped", lift.queue_full);
  if (lift.cache_full) absl::StrAppendFormat(&code, ", %d found no room (say a larger --code-cache)", lift.cache_full);
  add("walk_misses", static_cast<double>(lift.misses), code);
  add("walk_lift_cpu_ns", static_cast<double>(lift.busy_ns + lift.helper_ns), "");
  static constexpr const char* kWhat[BRINK_ASSIST_KINDS] = {"code", "vector registers"};
  static constexpr const char* kKeys[BRINK_ASSIST_KINDS] = {"walk_waits_code", "walk_waits_vectors"};
  for (int kind = 0; kind < BRINK_ASSIST_KINDS; ++kind) {
    if (!assist.asked[kind]) continue;
    add(kKeys[kind], static_cast<double>(assist.asked[kind]),
        absl::StrFormat("walk waits: %d for %s, %d of them walked further, %s each", assist.asked[kind], kWhat[kind], assist.helped[kind],
                        FormatDuration(assist.waited_ns[kind] / assist.asked[kind])));
    add(std::string(kKeys[kind]) + "_helped", static_cast<double>(assist.helped[kind]), "");
    add(std::string(kKeys[kind]) + "_ns", static_cast<double>(assist.waited_ns[kind]), "");
  }
  if (lift.refused || lift.limited || lift.gone) {
    add("walk_refused", static_cast<double>(lift.refused),
        absl::StrFormat("walk processes: %d judged, %d refused, %d without segment bases, %d gone before", lift.vetted, lift.refused, lift.limited, lift.gone));
  }
  if (tally.compat) {
    add("walk_compat_samples", static_cast<double>(tally.compat),
        absl::StrFormat("walk note: %d samples in 32-bit code have no branches: 64-bit code is walked (hop and step do not follow it either)", tally.compat));
  }
  for (const std::string& note : notes) add("walk_note", 0, "walk note: " + note);
  return lines;
}

}  // namespace brink
