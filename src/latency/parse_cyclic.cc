#include "latency/parse_cyclic.h"

#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace brink::latency {
namespace {

// Blank- or tab-separated decimal numbers up to the first other word.
std::vector<int64_t> Numbers(std::string_view text) {
  std::vector<int64_t> numbers;
  std::string copy(text);
  const char* at = copy.c_str();
  while (true) {
    char* end = nullptr;
    int64_t value = std::strtoll(at, &end, 10);
    if (end == at) return numbers;
    numbers.push_back(value);
    at = end;
  }
}

std::vector<uint64_t> Counts(std::string_view text) {
  std::vector<uint64_t> counts;
  for (int64_t value : Numbers(text)) counts.push_back(static_cast<uint64_t>(value));
  return counts;
}

bool TakeStatus(const std::string& line, CyclicOutput* out) {
  CyclicOutput::Status status;
  long smi = 0;
  int end = 0;
  if (std::sscanf(line.c_str(), "T:%d (%ld) P:%ld I:%ld C:%lu Min:%ld Act:%ld Avg:%ld Max:%ld%n", &status.index, &status.tid, &status.priority,
                  &status.interval_us, &status.cycles, &status.min, &status.act, &status.avg, &status.max, &end) != 9 || !end) {
    return false;
  }
  if (std::sscanf(line.c_str() + end, " SMI:%ld", &smi) == 1) status.smi = static_cast<uint64_t>(smi);
  if (status.index < 0 || status.index > 65536) return false;
  if (out->statuses.size() <= static_cast<size_t>(status.index)) out->statuses.resize(static_cast<size_t>(status.index) + 1);
  out->statuses[static_cast<size_t>(status.index)] = status;
  return true;
}

bool TakeSample(const std::string& line, CyclicOutput* out) {
  CyclicOutput::Sample sample;
  long smi = 0;
  int end = 0;
  if (std::sscanf(line.c_str(), "%d:%lu:%8ld%n", &sample.thread, &sample.cycle, &sample.value, &end) != 3 || !end) return false;
  if (line[static_cast<size_t>(end)] != '\0') {
    if (std::sscanf(line.c_str() + end, "%ld", &smi) != 1) return false;
    sample.smi = smi;
  }
  out->samples.push_back(sample);
  return true;
}

bool TakeSpike(const std::string& line, CyclicOutput* out) {
  CyclicOutput::Spike spike;
  unsigned long seen = 0;
  if (std::sscanf(line.c_str(), "T:%d Spike:%ld: TS: %ld", &spike.thread, &spike.value, &spike.when_us) == 3) {
    out->spikes.push_back(spike);
    return true;
  }
  if (std::sscanf(line.c_str(), "spikes = %lu", &seen) != 1) return false;
  out->spikes_seen = seen;
  return true;
}

bool TakeOverflowLog(const std::string& line, CyclicOutput* out) {
  int thread = 0, end = 0;
  if (std::sscanf(line.c_str(), "# Thread %d:%n", &thread, &end) != 1 || !end || thread < 0 || thread > 65536) return false;
  auto index = static_cast<size_t>(thread);
  if (out->overflow_cycles.size() <= index) out->overflow_cycles.resize(index + 1), out->overflow_others.resize(index + 1);
  std::string rest = line.substr(static_cast<size_t>(end));
  size_t others = rest.find('#');
  out->overflow_cycles[index] = Counts(rest.substr(0, others));
  if (others != std::string::npos) {
    auto counts = Counts(rest.substr(others + 1));
    if (!counts.empty()) out->overflow_others[index] = counts[0];
  }
  return true;
}

bool TakeHeaded(std::string_view line, CyclicOutput* out) {
  auto after = [&](std::string_view head) -> std::optional<std::string_view> {
    if (!line.starts_with(head)) return std::nullopt;
    return line.substr(head.size());
  };
  if (auto rest = after("# /dev/cpu_dma_latency set to ")) {
    auto numbers = Numbers(*rest);
    if (!numbers.empty()) out->dma_latency_us = numbers[0];
    return true;
  }
  if (auto rest = after("policy: ")) {
    out->policy = std::string(rest->substr(0, rest->find(':')));
    ++out->frames;
    return true;
  }
  if (after("# Histogram Overflow at cycle number:")) return true;
  if (auto rest = after("# Histogram Overflows:")) return out->overflows = Counts(*rest), true;
  if (line == "# Histogram") return out->has_histogram = true;
  if (auto rest = after("# Total:")) return out->totals = Counts(*rest), out->has_total_line = true;
  if (auto rest = after("# Min Latencies:")) return out->min = Numbers(*rest), true;
  if (auto rest = after("# Avg Latencies:")) return out->avg = Numbers(*rest), true;
  if (auto rest = after("# Max Latencies:")) return out->max = Numbers(*rest), true;
  if (auto rest = after("# SMIs:")) return out->smis = Counts(*rest), true;
  if (auto rest = after("# Thread Ids:")) return out->thread_ids = Numbers(*rest), true;
  auto number = [](std::string_view text) { auto all = Numbers(text); return all.empty() ? 0 : all[0]; };
  if (auto rest = after("# Break thread:")) return out->break_thread = number(*rest), true;
  if (auto rest = after("# Break value:")) return out->break_value = number(*rest), true;
  return false;
}

bool TakeBucket(std::string_view line, CyclicOutput* out) {
  if (line.size() < 8 || line.find(':') != std::string_view::npos || line[0] < '0' || line[0] > '9') return false;
  auto numbers = Numbers(line);
  if (numbers.size() < 2) return false;
  out->buckets.push_back({numbers[0], {}});
  for (size_t i = 1; i < numbers.size(); ++i) out->buckets.back().second.push_back(static_cast<uint64_t>(numbers[i]));
  return true;
}

// Cursor movements of the live frame.
std::string WithoutEscapes(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\033') {
      out += line[i];
      continue;
    }
    while (i + 1 < line.size() && !(line[i] >= 'A' && line[i] <= 'Z')) ++i;
  }
  return out;
}

// `count` values of one display bucket: the linear histogram has no finer ones.
void AddUnits(ThreadResult* thread, int64_t value, uint64_t count, int64_t unit_ns) {
  thread->values.Add(value * unit_ns, count);
}

}  // namespace

CyclicOutput ParseCyclicText(std::string_view text) {
  CyclicOutput out;
  for (std::string_view raw : Split(text, '\n')) {
    std::string line = WithoutEscapes(raw);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    if (line.empty()) continue;
    if (TakeStatus(line, &out) || TakeSpike(line, &out) || TakeOverflowLog(line, &out) || TakeHeaded(line, &out) || TakeSample(line, &out) || TakeBucket(line, &out)) continue;
    out.other.push_back(line);
  }
  return out;
}

StatusOr<Result> ResultFromCyclicText(std::string_view text) {
  CyclicOutput parsed = ParseCyclicText(text);
  Result result;
  result.clock = "unknown";
  size_t threads = std::max(parsed.statuses.size(), parsed.min.size());
  for (const auto& sample : parsed.samples) threads = std::max(threads, static_cast<size_t>(std::max(sample.thread, 0)) + 1);
  if (!threads || threads > 65536) return InvalidArgument("no status line, histogram or sample of cyclictest in it");
  result.threads.resize(threads);
  for (size_t i = 0; i < threads; ++i) {
    ThreadResult& thread = result.threads[i];
    thread.index = static_cast<int>(i);
    for (const auto& [value, counts] : parsed.buckets) {
      if (i < counts.size() && counts[i]) AddUnits(&thread, value, counts[i], result.unit_ns);
    }
    for (const auto& sample : parsed.samples) {
      if (sample.thread == thread.index) AddUnits(&thread, sample.value, 1, result.unit_ns);
    }
    thread.overflows = i < parsed.overflows.size() ? parsed.overflows[i] : 0;
    // Of an overflow only the largest is known.
    if (thread.overflows && i < parsed.max.size()) AddUnits(&thread, parsed.max[i], thread.overflows, result.unit_ns);
    thread.cycles = thread.values.total();
    if (i < parsed.statuses.size()) {
      const auto& status = parsed.statuses[i];
      thread.tid = static_cast<pid_t>(status.tid);
      thread.priority = static_cast<int>(status.priority);
      thread.interval_ns = status.interval_us * 1000;
      if (!thread.cycles && status.cycles) {
        result.notices.push_back("no histogram (-h) in the file: only minimum, average and maximum are known");
        thread.values.Add(status.min * 1000);
        if (status.cycles > 2) thread.values.Add(status.avg * 1000, status.cycles - 2);
        if (status.cycles > 1) thread.values.Add(status.max * 1000);
        thread.cycles = status.cycles;
      }
    }
    thread.sum_units = thread.values.sum() / static_cast<double>(result.unit_ns);
  }
  return result;
}

StatusOr<Result> ResultFromCyclicJson(std::string_view text) {
  auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("file_version") || !json.contains("thread") || !json["thread"].is_object()) {
    return InvalidArgument("not JSON of cyclictest (file_version 1)");
  }
  Result result;
  result.clock = "unknown";
  result.unit_ns = json.value("resolution_in_ns", 0) ? 1 : 1000;
  try {
    for (const auto& [key, value] : json["thread"].items()) {
      ThreadResult thread;
      thread.index = std::atoi(key.c_str());
      thread.cpu = value.value("cpu", -1);
      thread.node = value.value("node", 0);
      uint64_t cycles = value.value("cycles", uint64_t{0});
      if (value.contains("histogram")) {
        for (const auto& [bucket, count] : value["histogram"].items()) AddUnits(&thread, std::atoll(bucket.c_str()), count.get<uint64_t>(), result.unit_ns);
      }
      if (cycles > thread.values.total()) AddUnits(&thread, value.value("max", int64_t{0}), cycles - thread.values.total(), result.unit_ns);
      thread.cycles = cycles;
      thread.sum_units = thread.values.sum() / static_cast<double>(result.unit_ns);
      result.threads.push_back(std::move(thread));
    }
  } catch (const nlohmann::json::exception& error) {
    return InvalidArgument(std::string("JSON of cyclictest: ") + error.what());
  }
  std::sort(result.threads.begin(), result.threads.end(), [](const ThreadResult& a, const ThreadResult& b) { return a.index < b.index; });
  return result;
}

}  // namespace brink::latency
