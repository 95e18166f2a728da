#include "latency/oslat_text.h"

#include <algorithm>
#include <functional>

#include <absl/strings/str_format.h>

namespace brink::latency {
namespace {

// One line: a label, and what `cell` says of each CPU.
void AppendLine(std::string* out, const std::string& label, const Document& document, const std::function<std::string(const ThreadResult&)>& cell, const char* unit) {
  *out += label + "\t";
  for (const ThreadResult& cpu : document.result.threads) *out += " " + cell(cpu);
  *out += std::string(*unit ? " (" : "") + unit + (*unit ? ")" : "") + "\n";
}

std::string Us(int64_t ns) { return std::to_string((ns + 999) / 1000); }

}  // namespace

std::vector<uint64_t> OslatBuckets(const ThreadResult& cpu, size_t count) {
  std::vector<uint64_t> buckets(count, 0);
  uint64_t gaps = 0;
  cpu.values.ForEach([&](int64_t low, int64_t, uint64_t n) {
    auto index = static_cast<size_t>(std::max<int64_t>(1, (low + 999) / 1000));
    buckets[std::min(index, count) - 1] += n;
    gaps += n;
  });
  // Turns of the loop without a gap that counts are below a microsecond.
  if (cpu.loops > gaps) buckets[0] += cpu.loops - gaps;
  return buckets;
}

std::string OslatText(const Document& document, size_t count, bool omit_zeros) {
  std::vector<std::vector<uint64_t>> all;
  for (const ThreadResult& cpu : document.result.threads) all.push_back(OslatBuckets(cpu, count));
  std::string out;
  AppendLine(&out, "        Core:", document, [](const ThreadResult& cpu) { return std::to_string(cpu.cpu); }, "");
  AppendLine(&out, "Counter Freq:", document, [](const ThreadResult& cpu) { return absl::StrFormat("%.0f", cpu.counter_mhz); }, "Mhz");
  for (size_t bucket = 0; bucket < count; ++bucket) {
    if (omit_zeros && std::all_of(all.begin(), all.end(), [&](const auto& buckets) { return buckets[bucket] == 0; })) continue;
    absl::StrAppendFormat(&out, "    %03d (us):\t", bucket + 1);
    for (const auto& buckets : all) absl::StrAppendFormat(&out, " %d", buckets[bucket]);
    out += bucket + 1 == count ? " (including overflows)\n" : "\n";
  }
  auto least = [](const ThreadResult& cpu) { return cpu.loops > cpu.values.total() ? int64_t{1} : cpu.values.min(); };
  AppendLine(&out, "     Minimum:", document, [&](const ThreadResult& cpu) { return Us(least(cpu)); }, "us");
  // Of gaps: oslat's includes each turn of the loop as 1 us.
  AppendLine(&out, "     Average:", document, [](const ThreadResult& cpu) {
    double turns = static_cast<double>(std::max(cpu.loops, cpu.values.total())), quiet = turns - static_cast<double>(cpu.values.total());
    return absl::StrFormat("%.3f", turns > 0 ? (cpu.values.sum() / 1000 + quiet) / turns : 0.0);
  }, "us");
  AppendLine(&out, "     Maximum:", document, [](const ThreadResult& cpu) { return Us(std::max<int64_t>(cpu.values.max(), cpu.loops ? 1 : 0)); }, "us");
  AppendLine(&out, "     Max-Min:", document, [&](const ThreadResult& cpu) { return std::to_string((cpu.values.max() + 999) / 1000 - (least(cpu) + 999) / 1000); }, "us");
  AppendLine(&out, "    Duration:", document, [&](const ThreadResult&) { return absl::StrFormat("%.3f", static_cast<double>(document.result.elapsed_ns) / 1e9); }, "sec");
  return out;
}

}  // namespace brink::latency
