#include <cstdio>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "latency/clock.h"
#include "latency/outputs.h"
#include "latency/parse_cyclic.h"

namespace brink::latency {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "brink.latency.v1";

std::string WallTime(int64_t ns) {
  time_t seconds = static_cast<time_t>(ns / kNsPerSec);
  struct tm parts = {};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%09dZ", text, ns % kNsPerSec);
}

// Figures of a histogram; null where there are no values.
Json HistogramJson(const LogHistogram& values) {
  Json json = {{"count", values.total()}};
  auto add = [&](const char* key, auto value) { json[key] = values.total() ? Json(value) : Json(nullptr); };
  add("min_ns", values.min());
  add("mean_ns", values.mean());
  add("stddev_ns", values.StdDev());
  constexpr std::pair<const char*, double> kPercentiles[] = {{"p50_ns", 50}, {"p90_ns", 90}, {"p99_ns", 99}, {"p99_9_ns", 99.9}, {"p99_99_ns", 99.99}};
  for (auto [key, percent] : kPercentiles) add(key, values.Percentile(percent));
  add("max_ns", values.max());
  Json buckets = Json::array();
  values.ForEach([&](int64_t low, int64_t high, uint64_t count) { buckets.push_back({low, high, count}); });
  json["buckets"] = std::move(buckets);
  return json;
}

LogHistogram ReadHistogram(const Json& json) {
  LogHistogram values;
  for (const Json& bucket : json.at("buckets")) {
    int64_t low = bucket.at(0).get<int64_t>();
    if (low < 0) continue;
    values.AddBucket(LogHistogram::BucketOf(low), bucket.at(2).get<uint64_t>());
  }
  if (values.total()) {
    double mean = json.at("mean_ns").get<double>();
    values.SetExact(json.at("min_ns").get<int64_t>(), json.at("max_ns").get<int64_t>(), mean * static_cast<double>(values.total()));
  }
  return values;
}

Json ThreadJson(const ThreadResult& thread) {
  Json json = {{"index", thread.index}, {"tid", thread.tid}};
  json["cpu"] = thread.cpu >= 0 ? Json(thread.cpu) : Json(nullptr);
  json["node"] = thread.node;
  json["policy"] = PolicyName(thread.policy);
  json["priority"] = thread.priority;
  json["interval_ns"] = thread.interval_ns;
  json["latency"] = HistogramJson(thread.values);
  json["corrected"] = HistogramJson(thread.Corrected());
  json["missed_periods"] = thread.missed;
  json["clock_steps"] = thread.clock_steps;
  json["early"] = thread.early;
  json["overflows"] = thread.overflows;
  json["overflow_values_ns"] = thread.overflow_values_ns;
  json["smi"] = thread.smi;
  json["page_faults"] = thread.page_faults;
  Json worst = Json::array();
  for (const WorstSample& sample : thread.worst) worst.push_back({{"ns", sample.value_ns}, {"cycle", sample.cycle}, {"when_ns", sample.when_ns}});
  json["worst"] = std::move(worst);
  if (!thread.parts.empty()) {
    Json parts;
    for (size_t i = 0; i < thread.parts.size() && i < kPartCount; ++i) parts[kPartNames[i]] = HistogramJson(thread.parts[i]);
    json["parts"] = std::move(parts);
  }
  if (thread.loops) json["loops"] = thread.loops, json["counter_mhz"] = thread.counter_mhz;
  if (!thread.refused.empty()) json["refused"] = thread.refused;
  return json;
}

std::optional<Policy> PolicyOf(const std::string& name) {
  for (Policy policy : {Policy::kOther, Policy::kFifo, Policy::kRr, Policy::kBatch, Policy::kIdle, Policy::kDeadline}) {
    if (name == PolicyName(policy)) return policy;
  }
  return std::nullopt;
}

ThreadResult ReadThread(const Json& json) {
  ThreadResult thread;
  thread.index = json.at("index").get<int>();
  thread.tid = json.at("tid").get<int>();
  thread.cpu = json.at("cpu").is_null() ? -1 : json.at("cpu").get<int>();
  thread.node = json.value("node", 0);
  thread.policy = PolicyOf(json.value("policy", std::string("other"))).value_or(Policy::kOther);
  thread.priority = json.value("priority", 0);
  thread.interval_ns = json.value("interval_ns", int64_t{0});
  thread.values = ReadHistogram(json.at("latency"));
  thread.cycles = thread.values.total();
  thread.missed = json.value("missed_periods", uint64_t{0});
  if (thread.missed) thread.corrected = ReadHistogram(json.at("corrected"));
  thread.clock_steps = json.value("clock_steps", uint64_t{0});
  thread.early = json.value("early", uint64_t{0});
  thread.overflows = json.value("overflows", uint64_t{0});
  thread.smi = json.value("smi", uint64_t{0});
  thread.page_faults = json.value("page_faults", uint64_t{0});
  for (const Json& sample : json.value("worst", Json::array())) thread.worst.push_back({sample.at("ns"), sample.at("cycle"), sample.at("when_ns")});
  if (json.contains("parts")) {
    for (const char* name : kPartNames) thread.parts.push_back(ReadHistogram(json.at("parts").at(name)));
  }
  thread.loops = json.value("loops", uint64_t{0});
  thread.counter_mhz = json.value("counter_mhz", 0.0);
  thread.sum_units = thread.values.sum() / 1000;
  return thread;
}

Json SpikeJson(const SpikeReport& spike) {
  const Parts& p = spike.parts;
  Json json = {{"deadline_mono_ns", spike.deadline_ns}, {"now_mono_ns", spike.now_ns}, {"lateness_ns", spike.lateness_ns}, {"tid", spike.tid}, {"cpu", spike.cpu},
               {"cycle", spike.cycle}, {"cause", CauseName(spike.cause)}, {"subject", spike.subject}, {"verdict", spike.verdict},
               {"parts", {{"timer_late", p.timer_late}, {"interrupt", p.interrupt}, {"wait", p.wait}, {"blocked", p.blocked}, {"user", p.user}}}};
  Json lines = Json::array();
  for (const BlameLine& line : spike.lines) lines.push_back({{"part", line.part}, {"ns", line.ns}, {"text", line.text}});
  json["lines"] = std::move(lines);
  json["stack_of"] = spike.stack_of;
  json["kernel_stack"] = spike.kernel_stack;
  json["user_stack"] = spike.user_stack;
  json["branches"] = spike.branches;
  json["branches_missing"] = spike.branches_missing.empty() ? Json(nullptr) : Json(spike.branches_missing);
  json["occupant"] = spike.occupant.empty() ? Json(nullptr) : Json(spike.occupant);
  json["previous_interrupt_ns"] = spike.previous_ns ? Json(spike.previous_ns) : Json(nullptr);
  json["previous_branches"] = spike.previous_branches;
  json["walked"] = spike.walked_of.empty() ? Json(nullptr) : Json({{"of", spike.walked_of}, {"branches", spike.walked}, {"ended", spike.walked_end}});
  return json;
}

SpikeReport ReadSpike(const Json& json) {
  SpikeReport spike;
  spike.deadline_ns = json.at("deadline_mono_ns");
  spike.now_ns = json.at("now_mono_ns");
  spike.lateness_ns = json.at("lateness_ns");
  spike.tid = json.at("tid");
  spike.cpu = json.at("cpu");
  spike.cycle = json.at("cycle");
  spike.subject = json.at("subject");
  spike.verdict = json.at("verdict");
  for (int i = 0; i <= static_cast<int>(Cause::kLastCycle); ++i) {
    if (json.at("cause") == CauseName(static_cast<Cause>(i))) spike.cause = static_cast<Cause>(i);
  }
  const Json& parts = json.at("parts");
  spike.parts = {parts.at("timer_late"), parts.at("interrupt"), parts.at("wait"), parts.at("blocked"), parts.at("user")};
  for (const Json& line : json.at("lines")) spike.lines.push_back({line.at("part"), line.at("ns"), line.at("text")});
  spike.stack_of = json.at("stack_of");
  spike.kernel_stack = json.at("kernel_stack").get<std::vector<std::string>>();
  spike.user_stack = json.at("user_stack").get<std::vector<std::string>>();
  spike.branches = json.at("branches").get<std::vector<std::string>>();
  if (!json.at("branches_missing").is_null()) spike.branches_missing = json.at("branches_missing");
  // Of later versions.
  if (json.contains("occupant") && json["occupant"].is_string()) spike.occupant = json["occupant"];
  if (json.contains("previous_interrupt_ns") && json["previous_interrupt_ns"].is_number()) spike.previous_ns = json["previous_interrupt_ns"];
  spike.previous_branches = json.value("previous_branches", std::vector<std::string>{});
  if (json.contains("walked") && json["walked"].is_object()) {
    const Json& walked = json["walked"];
    spike.walked_of = walked.at("of");
    spike.walked = walked.at("branches").get<std::vector<std::string>>();
    spike.walked_end = walked.at("ended");
  }
  return spike;
}

Json DiffJson(const PathDiff& diff) {
  Json rows = Json::array();
  for (const PathRow& row : diff.rows) rows.push_back({{"path", row.path}, {"late", row.late}, {"normal", row.normal}});
  return {{"late", diff.late}, {"normal", diff.normal}, {"paths", std::move(rows)}};
}

PathDiff ReadDiff(const Json& json) {
  PathDiff diff;
  diff.late = json.at("late");
  diff.normal = json.at("normal");
  for (const Json& row : json.at("paths")) diff.rows.push_back({row.at("path"), row.at("late"), row.at("normal")});
  return diff;
}

}  // namespace

std::string ResultJson(const Document& document) {
  const Result& result = document.result;
  Json json = {{"schema", kSchema}, {"kind", document.kind}, {"time", WallTime(result.start_wall_ns)}, {"mono_ns", result.start_mono_ns},
               {"end_time", WallTime(result.end_wall_ns)}, {"command_line", result.command_line}, {"clock", result.clock}, {"elapsed_ns", result.elapsed_ns},
               {"ended_by", result.ended_by}, {"cpu_seconds", result.cpu_seconds}};
  json["break"] = result.broke ? Json({{"tid", result.broke->tid}, {"value", result.broke->value}, {"unit", result.unit_ns == 1 ? "ns" : "us"}}) : Json(nullptr);
  json["total"] = HistogramJson(Total(result));
  json["total_corrected"] = HistogramJson(TotalCorrected(result));
  Json threads = Json::array();
  for (const ThreadResult& thread : result.threads) threads.push_back(ThreadJson(thread));
  json["threads"] = std::move(threads);
  Json spikes = Json::array();
  for (const SpikeReport& spike : document.spikes) spikes.push_back(SpikeJson(spike));
  json["spikes"] = std::move(spikes);
  json["tail_paths"] = document.tail_paths;
  json["path_diff"] = DiffJson(document.path_diff);
  json["notices"] = result.notices;
  return AsciiJson(json) + "\n";
}

StatusOr<Document> ParseResultJson(std::string_view text) {
  auto json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded() || !json.is_object() || json.value("schema", "") != kSchema) return InvalidArgument("not a result of brink latency (schema brink.latency.v1)");
  Document document;
  try {
    document.kind = json.at("kind");
    Result& result = document.result;
    result.command_line = json.at("command_line");
    result.clock = json.at("clock");
    result.elapsed_ns = json.at("elapsed_ns");
    result.ended_by = json.at("ended_by");
    result.cpu_seconds = json.at("cpu_seconds");
    result.start_mono_ns = json.at("mono_ns");
    if (!json.at("break").is_null()) {
      result.broke = Break{json.at("break").at("tid"), json.at("break").at("value")};
      result.unit_ns = json.at("break").at("unit") == "ns" ? 1 : 1000;
    }
    for (const Json& thread : json.at("threads")) result.threads.push_back(ReadThread(thread));
    for (const Json& spike : json.at("spikes")) document.spikes.push_back(ReadSpike(spike));
    document.tail_paths = json.at("tail_paths").get<std::vector<std::string>>();
    if (json.contains("path_diff")) document.path_diff = ReadDiff(json["path_diff"]);
    result.notices = json.at("notices").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    return InvalidArgument(std::string("result of brink latency: ") + error.what());
  }
  return document;
}

StatusOr<Document> ParseAny(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return InvalidArgument("the file is empty");
  if (text[first] == '{' && text.find("\"file_version\"") != std::string_view::npos && text.find(kSchema) == std::string_view::npos) {
    Document document;
    ASSIGN_OR_RETURN(document.result, ResultFromCyclicJson(text));
    return document;
  }
  if (text[first] == '{') return ParseResultJson(text);
  Document document;
  ASSIGN_OR_RETURN(document.result, ResultFromCyclicText(text));
  return document;
}

}  // namespace brink::latency
