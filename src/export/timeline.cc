#include "export/timeline.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "report/table.h"

namespace brink::exporter {
namespace {

using report::JsonString;
using symbol::FunctionId;

constexpr uint64_t kUnknownPeriodNs = 1'000'000;

// What a sample stands for on the time axis.
uint64_t SpanNs(const TimedSample& sample, bool clock) { return clock && sample.period ? sample.period : kUnknownPeriodNs; }

std::string Process(const SampleCollector& samples, int32_t pid) {
  std::string name = samples.NameOf(pid);
  return name.empty() ? absl::StrFormat("process %d", pid) : name;
}

std::string ThreadName(const SampleCollector& samples, const ThreadSamples& thread) {
  std::string name = samples.NameOf(thread.tid);
  return name.empty() ? absl::StrFormat("thread %d", thread.tid) : name;
}

// Microseconds with ns digits.
std::string Micros(uint64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

// The open slices of one thread.
class Slices {
 public:
  Slices(const ThreadSamples& thread, report::Program& program, std::string* out) : thread_(thread), program_(program), out_(*out) {}

  void Step(const std::vector<FunctionId>& functions, uint64_t time, uint64_t end) {
    if (time > end_) Close(0, end_);  // nothing is known between the last sample's end and this one
    size_t common = 0;
    while (common < open_.size() && common < functions.size() && open_[common].first == functions[common]) ++common;
    Close(common, time);
    for (size_t i = common; i < functions.size(); ++i) open_.emplace_back(functions[i], time);
    end_ = end;
  }
  void Finish() { Close(0, end_); }

 private:
  void Close(size_t keep, uint64_t time) {
    while (open_.size() > keep) {
      auto [function, begin] = open_.back();
      open_.pop_back();
      const symbol::Function& named = (*program_.symbolizer)[function];
      out_ += absl::StrFormat(",\n{\"ph\":\"X\",\"cat\":\"stack\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s,\"name\":%s,\"args\":{\"object\":%s}}", thread_.pid, thread_.tid,
                              Micros(begin), Micros(time - begin), JsonString(named.name), JsonString(program_.objects[named.object].ShortName()));
    }
  }

  const ThreadSamples& thread_;
  report::Program& program_;
  std::string& out_;
  std::vector<std::pair<FunctionId, uint64_t>> open_;  // root first, with their beginnings
  uint64_t end_ = 0;
};

}  // namespace

std::string FrameName(const StackNode& node, report::Program& program) {
  const symbol::Function& function = (*program.symbolizer)[program.FunctionAt(node.place)];
  return function.name;
}

std::vector<ThreadSamples> ByThread(const SampleCollector& samples) {
  std::vector<ThreadSamples> threads;
  std::map<std::pair<int32_t, int32_t>, size_t> index;
  for (const TimedSample& sample : samples.samples()) {
    auto [it, fresh] = index.try_emplace({sample.pid, sample.tid}, threads.size());
    if (fresh) threads.push_back({.pid = sample.pid, .tid = sample.tid, .samples = {}});
    threads[it->second].samples.push_back(sample);
  }
  for (ThreadSamples& thread : threads) {
    std::stable_sort(thread.samples.begin(), thread.samples.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  }
  return threads;
}

std::string FoldedText(const SampleCollector& samples, report::Program& program) {
  std::map<std::string, uint64_t> lines;
  std::map<std::pair<uint32_t, int32_t>, uint64_t> stacks;  // leaf, thread
  const bool counted = samples.samples().empty() || samples.samples()[0].tid >= 0;
  for (const TimedSample& sample : samples.samples()) stacks[{sample.node, sample.tid}] += counted ? 1 : sample.period;
  for (const auto& [stack, count] : stacks) {
    std::string line = samples.NameOf(stack.second);
    if (line.empty()) line = stack.second < 0 ? "all" : absl::StrFormat("thread %d", stack.second);
    std::replace(line.begin(), line.end(), ';', ':');
    std::vector<uint32_t> path;
    for (uint32_t node = stack.first; node != 0; node = samples.nodes()[node].parent) path.push_back(node);
    for (size_t i = path.size(); i-- > 0;) {
      const StackNode& node = samples.nodes()[path[i]];
      std::string name = FrameName(node, program);
      std::replace(name.begin(), name.end(), ';', ':');
      const symbol::ObjectKind kind = program.objects[node.place.object].kind;
      const bool kernel = kind == symbol::ObjectKind::kKernel || kind == symbol::ObjectKind::kModule || kind == symbol::ObjectKind::kBpf;
      line += ";" + name + (kernel ? "_[k]" : "");
    }
    lines[EscapeForTerminal(line)] += count;
  }
  std::string out;
  for (const auto& [line, count] : lines) absl::StrAppendFormat(&out, "%s %d\n", line, count);
  return out;
}

std::string PerfettoJson(const SampleCollector& samples, report::Program& program) {
  const bool clock = program.facts.cpu_ns != 0;
  std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"brink\",\"recording\":" + JsonString(program.facts.path) + "},\"traceEvents\":[\n";
  out += "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"ts\":0,\"name\":\"trace_name\",\"args\":{\"name\":\"brink\"}}";
  std::map<int32_t, bool> told;
  for (const ThreadSamples& thread : ByThread(samples)) {
    if (!std::exchange(told[thread.pid], true)) {
      out += absl::StrFormat(",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"ts\":0,\"name\":\"process_name\",\"args\":{\"name\":%s}}", thread.pid, thread.pid, JsonString(Process(samples, thread.pid)));
    }
    out += absl::StrFormat(",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"ts\":0,\"name\":\"thread_name\",\"args\":{\"name\":%s}}", thread.pid, thread.tid, JsonString(ThreadName(samples, thread)));
    Slices slices(thread, program, &out);
    for (size_t i = 0; i < thread.samples.size(); ++i) {
      const TimedSample& sample = thread.samples[i];
      // A sample speaks for its period; one and a half, so that jitter makes no holes.
      uint64_t end = sample.time + SpanNs(sample, clock) * 3 / 2;
      if (i + 1 < thread.samples.size()) end = std::min(end, thread.samples[i + 1].time);
      slices.Step(FunctionsOf(samples.nodes(), sample.node, program), sample.time, end);
    }
    slices.Finish();
  }
  return out + "\n]}\n";
}

std::string SpeedscopeJson(const SampleCollector& samples, report::Program& program, const std::string& name) {
  const bool clock = program.facts.cpu_ns != 0;
  // A frame is a function (or what stands for one); frames are shared by all profiles.
  std::map<FunctionId, size_t> frames;
  std::string frame_list, profiles;
  auto frame = [&](FunctionId function) {
    auto [it, fresh] = frames.try_emplace(function, frames.size());
    if (fresh) {
      const symbol::Function& named = (*program.symbolizer)[function];
      frame_list += (frames.size() > 1 ? ",\n{\"name\":" : "{\"name\":") + JsonString(named.name) + ",\"file\":" + JsonString(program.objects[named.object].ShortName()) + "}";
    }
    return it->second;
  };
  for (const ThreadSamples& thread : ByThread(samples)) {
    std::string stacks, weights;
    uint64_t total = 0;
    for (const TimedSample& sample : thread.samples) {
      stacks += stacks.empty() ? "[" : ",[";
      bool first = true;
      for (FunctionId function : FunctionsOf(samples.nodes(), sample.node, program)) {
        absl::StrAppendFormat(&stacks, "%s%d", first ? "" : ",", frame(function));
        first = false;
      }
      stacks += "]";
      const uint64_t weight = clock ? SpanNs(sample, clock) : 1;
      absl::StrAppendFormat(&weights, "%s%d", weights.empty() ? "" : ",", weight);
      total += weight;
    }
    profiles += profiles.empty() ? "" : ",\n";
    profiles += "{\"type\":\"sampled\",\"name\":" + JsonString(absl::StrFormat("%s (%d/%d)", ThreadName(samples, thread), thread.pid, thread.tid)) +
                absl::StrFormat(",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%d", clock ? "nanoseconds" : "none", total) + ",\"samples\":[" + stacks + "],\"weights\":[" + weights + "]}";
  }
  return "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"brink\",\"name\":" + JsonString(name) + ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[" +
         frame_list + "]},\n\"profiles\":[" + profiles + "]}\n";
}

}  // namespace brink::exporter
