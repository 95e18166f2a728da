#include "cfi/replay.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include "perfdata/reader.h"
#include "report/feed.h"

namespace brink::cfi {
namespace {

class Replayer {
 public:
  explicit Replayer(const ReplayOptions& options) : options_(options), map_({.locate = options.locate, .facts = options.facts, .max_files = options.max_files}) {}

  Status Run(const std::string& path, ReplayReport* report) {
    ASSIGN_OR_RETURN(auto reader, perfdata::Reader::Open(path));
    map_.options().locate.other_host = report::RecordedElsewhere(reader->features());
    report::ApplyBuildIds(reader->features(), &map_.objects());
    perfdata::Record record;
    while (true) {
      ASSIGN_OR_RETURN(bool more, reader->Next(&record));
      if (!more) break;
      lost_ = reader->stats().lost_records + reader->stats().lost_samples > 0;
      if (const perfdata::Sample* sample = record.sample()) Add(*reader, record, *sample, report);
      else report::ApplyRecord(record, &map_.spaces());
    }
    report->lost = reader->stats().lost_records + reader->stats().lost_samples;
    report->damaged = !reader->stats().complete();
    report->files = map_.loaded();
    report->missing = map_.missing();
    report->files_missing = map_.missing().size();
    for (auto& [place, event] : events_) report->events.push_back(std::move(event));
    std::stable_sort(report->events.begin(), report->events.end(), [](const Event& a, const Event& b) {
      return a.violation.severity != b.violation.severity ? a.violation.severity > b.violation.severity : a.time_ns < b.time_ns;
    });
    return OkStatus();
  }

 private:
  void Add(const perfdata::Reader& reader, const perfdata::Record& record, const perfdata::Sample& sample, ReplayReport* report) {
    ++report->samples;
    if (sample.branches.empty()) return;
    report::StackMeta meta;
    uint64_t kinds = 0;
    if (record.event >= 0) {
      const perfdata::EventInfo& event = reader.events()[static_cast<size_t>(record.event)];
      meta = report::MetaOf(event);
      kinds = event.attr.branch_sample_type;
      if (event.notes && event.notes->sample_notes) {
        auto note = perfdata::ReadSampleNote(sample.raw);
        if (note && (note->flags & BRINK_SAMPLE_FILTERED)) meta.contiguous = false;
      }
    }
    if (meta.call_stack) return;
    pid_ = static_cast<int32_t>(sample.pid);
    map_.Enter(pid_, options_.jit_allowed, lost_);
    constexpr uint64_t kBoth = perfdata::kBranchAnyCall | perfdata::kBranchAnyReturn;
    // Hardware that records the newest branch twice.
    auto records = sample.branches;
    if (report::NewestTwice(records, meta)) records = records.subspan(1);
    Window window{.records = records, .contiguous = meta.contiguous, .calls_and_returns = meta.contiguous || (kinds & kBoth) == kBoth};
    ++report->windows;
    if (options_.on_window) options_.on_window(window, map_);
    Check(window, map_, &report->totals);
    for (const Violation& violation : report->totals.violations) Keep(violation, window, sample, report);
  }

  void Keep(const Violation& violation, const Window& window, const perfdata::Sample& sample, ReplayReport* report) {
    const Place from = map_.At(violation.from), to = map_.At(violation.to);
    const auto place = std::tuple(violation.policy, from.module, from.facts ? from.address : violation.from, to.module, to.facts ? to.address : violation.to);
    if (auto it = events_.find(place); it != events_.end()) {
      ++it->second.count;
      it->second.violation.severity = std::max(it->second.violation.severity, violation.severity);
      return;
    }
    if (events_.size() >= options_.max_places) {
      ++report->untold;
      return;
    }
    Event event{.violation = violation, .from = map_.Describe(violation.from), .to = map_.Describe(violation.to), .pid = pid_, .tid = static_cast<int32_t>(sample.tid), .time_ns = sample.time,
                .window_len = window.records.size(), .contiguous = window.contiguous};
    event.comm = std::string(map_.spaces().CommOf(pid_, event.tid));
    event.branches.assign(window.records.begin(), window.records.end());
    events_.emplace(place, std::move(event));
  }

  const ReplayOptions& options_;
  ProcessMap map_;
  int32_t pid_ = 0;
  bool lost_ = false;
  std::map<std::tuple<Policy, uint32_t, uint64_t, uint32_t, uint64_t>, Event> events_;
};

}  // namespace

StatusOr<ReplayReport> Replay(const std::string& path, const ReplayOptions& options) {
  ReplayReport report;
  Replayer replayer(options);
  RETURN_IF_ERROR(replayer.Run(path, &report));
  return report;
}

}  // namespace brink::cfi
