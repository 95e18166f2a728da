#include "session/report.h"

#include <nlohmann/json.hpp>

#include <absl/strings/str_format.h>

#include "base/ascii_json.h"
#include "base/strings.h"
#include "base/units.h"

namespace brink {
namespace {

// 1234567 -> "1,234,567".
std::string Grouped(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

const char* ReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::kCommandEnded: return "command ended";
    case EndReason::kTargetEnded: return "target ended";
    case EndReason::kInterrupted: return "interrupted";
    case EndReason::kDuration: return "duration reached";
    case EndReason::kSizeLimit: return "size limit reached";
    case EndReason::kReplayDone: return "replay done";
    case EndReason::kConsumerFailed: return "output failed";
  }
  return "";
}

std::string LossText(const RecordResult& result) {
  std::string text;
  for (size_t i = 0; i < result.books.lost.size(); ++i) {
    const Loss& loss = result.books.lost[i];
    if (loss.records == 0) continue;
    LossCause cause = static_cast<LossCause>(i);
    absl::StrAppendFormat(&text, "%s%s %s %s", text.empty() ? "" : ", ", LossCauseName(cause), Grouped(loss.records),
                          IsSampleLoss(cause) ? "samples" : "records");
    if (loss.bytes) text += " (" + FormatSize(loss.bytes) + ")";
  }
  return text;
}

// What a cause means and what helps, for those that occurred.
std::string LossHelp(const RecordResult& result) {
  auto help = [](LossCause cause) -> const char* {
    switch (cause) {
      case LossCause::kRingFull: return "the ring was not emptied in time: a larger --ring-size or a lower -F helps";
      case LossCause::kRingContended: return "samples that interrupted another one: a lower -F helps";
      case LossCause::kNoBuffer: return "the file was not written in time: more --buffers, a faster disk or a lower -F helps";
      case LossCause::kWriter: return "the disk was full or the reader of the stream left";
      case LossCause::kThrottled: return "walks take no more than --walk-share of a CPU: a larger one, a smaller --depth or a lower -F loses fewer";
      case LossCause::kLate: return "the thread came back to its program too late, or elsewhere (a signal), to be walked";
      case LossCause::kSideBand: return "mappings were read again from /proc: a larger --side-band-pages helps";
      default: return nullptr;
    }
  };
  std::string text;
  for (size_t i = 0; i < result.books.lost.size(); ++i) {
    LossCause cause = static_cast<LossCause>(i);
    if (result.books.lost[i].records == 0 || !help(cause)) continue;
    absl::StrAppendFormat(&text, "    %s: %s\n", LossCauseName(cause), help(cause));
  }
  return text;
}

std::string ThreadTable(const RecordResult& result, size_t most) {
  const auto& threads = result.counts.threads;
  if (threads.empty()) return {};
  const size_t others = result.counts.other_threads;
  std::string text = absl::StrFormat("  threads: %d\n", threads.size() + others);
  for (size_t i = 0; i < std::min(most, threads.size()); ++i) {
    const auto& thread = threads[i];
    absl::StrAppendFormat(&text, "  %9s samples  %d/%d %s\n", Grouped(thread.samples), thread.pid, thread.tid, EscapeForTerminal(thread.comm));
  }
  const size_t shown = std::min(most, threads.size());
  uint64_t rest = result.counts.other_samples;
  for (size_t i = shown; i < threads.size(); ++i) rest += threads[i].samples;
  if (rest) absl::StrAppendFormat(&text, "  %9s samples  of %d more threads\n", Grouped(rest), threads.size() - shown + others);
  return text;
}

}  // namespace

std::string ReportText(const RecordResult& result, const ReportOptions& options) {
  std::string text = absl::StrFormat("[ brink record: %s sample%s", Grouped(result.books.written.records), result.books.written.records == 1 ? "" : "s");
  if (result.counts.branches) text += ", " + Grouped(result.counts.branches) + " branches";
  if (result.expected && *result.expected >= 10) {
    absl::StrAppendFormat(&text, " (%.1f %% of %s expected in %s of CPU time)", 100.0 * static_cast<double>(result.books.sent()) / *result.expected,
                          Grouped(static_cast<uint64_t>(*result.expected)), FormatDuration(result.busy->total()));
  }
  absl::StrAppendFormat(&text, ", %s", FormatSize(result.bytes));
  if (!options.pipe) text += " in " + EscapeForTerminal(result.path) + (result.files > 1 ? absl::StrFormat(" (the last of %d files)", result.files) : "");
  text += " ]\n";
  std::string lost = LossText(result);
  text += lost.empty() ? "  lost: nothing\n" : "  lost: " + lost + "\n" + LossHelp(result);
  if (result.disk_was_full) text += "  the disk was full for a time; if feature sections are missing: brink report --repair\n";
  if (result.books.tasks_lost) text += "  not followed (task set full): " + Grouped(result.books.tasks_lost) + " processes\n";
  if (result.books.without_stack) text += "  samples without a branch stack: " + Grouped(result.books.without_stack) + "\n";
  for (const StatLine& line : result.source_stats) {
    if (!line.text.empty()) text += "  " + line.text + "\n";
  }
  text += ThreadTable(result, options.most_threads);
  for (const std::string& note : result.notes) text += "  " + note + "\n";
  const uint64_t later = result.own.total() - std::min(result.own.total(), result.own_start_ns);
  absl::StrAppendFormat(&text, "  brink itself: %s of CPU time, %s of it to start, then %.2f %% of one CPU; at most %d of %d buffers waiting; ended: %s\n",
                        FormatDuration(result.own.total()), FormatDuration(result.own_start_ns),
                        result.elapsed_ns ? 100.0 * static_cast<double>(later) / static_cast<double>(result.elapsed_ns) : 0.0, result.most_dirty,
                        result.buffers, ReasonName(result.reason));
  if (options.pipe) return text;
  std::string path = EscapeForTerminal(result.path);
  bool usual = path == "brink.data";
  if (options.aggregate) return text + "Next: brink report -i " + path + "   (or: brink merge, brink export)\n";
  return text + "Next: brink report" + (usual ? "" : " -i " + path) + "   (or: perf report -i " + path + ")\n";
}

std::string ReportJson(const RecordResult& result) {
  nlohmann::json json = {{"schema", "brink.record/1"},
                         {"end_reason", ReasonName(result.reason)},
                         {"samples_sent", result.books.sent()},
                         {"samples_written", result.books.written.records},
                         {"sample_bytes_written", result.books.written.bytes},
                         {"samples_lost", result.books.samples_lost().records},
                         {"sample_bytes_lost", result.books.samples_lost().bytes},
                         {"samples_emitted_by_bpf", result.counters[BRINK_CNT_EMITTED]},
                         {"branches", result.counts.branches},
                         {"side_band_records", result.books.side_band},
                         {"side_band_lost", result.books.side_band_lost().records},
                         {"events", result.books.events},
                         {"filtered", result.books.filtered},
                         {"without_stack", result.books.without_stack},
                         {"tasks_lost", result.books.tasks_lost},
                         {"file", result.path},
                         {"file_bytes", result.bytes},
                         {"files", result.files},
                         {"disk_was_full", result.disk_was_full},
                         {"elapsed_ns", result.elapsed_ns},
                         {"own_cpu_ns", result.own.total()},
                         {"own_start_cpu_ns", result.own_start_ns},
                         {"buffers", result.buffers},
                         {"buffers_waiting_max", result.most_dirty},
                         {"notes", result.notes}};
  json["busy_ns"] = result.busy ? nlohmann::json(result.busy->total()) : nlohmann::json();
  json["samples_expected"] = result.expected ? nlohmann::json(*result.expected) : nlohmann::json();
  json["command_status"] = result.command_status ? nlohmann::json(*result.command_status) : nlohmann::json();
  json["lost"] = nlohmann::json::object();
  for (size_t i = 0; i < result.books.lost.size(); ++i) {
    const Loss& loss = result.books.lost[i];
    json["lost"][LossCauseName(static_cast<LossCause>(i))] = {{"records", loss.records}, {"bytes", loss.bytes}};
  }
  json["threads"] = nlohmann::json::array();
  for (const auto& thread : result.counts.threads) {
    json["threads"].push_back({{"pid", thread.pid}, {"tid", thread.tid}, {"comm", EscapeForTerminal(thread.comm)}, {"samples", thread.samples}});
  }
  json["other_threads"] = {{"threads", result.counts.other_threads}, {"samples", result.counts.other_samples}};
  json["source"] = nlohmann::json::object();
  for (const StatLine& line : result.source_stats) json["source"][line.name] = line.value;
  return AsciiJson(json);
}

}  // namespace brink
