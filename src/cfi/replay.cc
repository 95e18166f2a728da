#include "cfi/replay.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include <absl/strings/str_format.h>

#include "perfdata/reader.h"
#include "report/feed.h"
#include "symbol/address_space.h"

namespace brink::cfi {
namespace {

using symbol::ObjectKind;

// Facts of the files that a recording names, loaded at first sight.
class FileFacts {
 public:
  FileFacts(const symbol::ObjectTable& objects, const ReplayOptions& options) : objects_(objects), options_(options) {}

  struct Entry {
    std::unique_ptr<Facts> facts;  // null: not at hand
    bool loader = false;
  };
  Entry& Of(symbol::ObjectId id) {
    auto it = entries_.find(id);
    if (it == entries_.end()) {
      if (entries_.size() >= options_.max_files) entries_.clear();
      it = entries_.emplace(id, Load(objects_[id])).first;
    }
    return it->second;
  }
  std::map<std::string, uint64_t> missing;
  uint64_t loaded = 0;
  symbol::LocateOptions locate;

 private:
  Entry Load(const symbol::Object& object) {
    Entry entry;
    entry.loader = object.ShortName().starts_with("ld-linux") || object.ShortName().starts_with("ld-2.") || object.ShortName().starts_with("ld-musl");
    symbol::LocatedFile file = symbol::Locate(object, locate);
    if (file.file) {
      if (auto facts = Facts::Load(*file.file, options_.facts); facts.ok()) {
        entry.facts = std::make_unique<Facts>(std::move(*facts));
        ++loaded;
        return entry;
      }
    }
    missing.try_emplace(object.path, 0);
    return entry;
  }

  const symbol::ObjectTable& objects_;
  const ReplayOptions& options_;
  std::map<symbol::ObjectId, Entry> entries_;
};

class Replayer : public CodeMap {
 public:
  explicit Replayer(const ReplayOptions& options) : options_(options), spaces_(&objects_), files_(objects_, options) {}

  Status Run(const std::string& path, ReplayReport* report) {
    ASSIGN_OR_RETURN(auto reader, perfdata::Reader::Open(path));
    files_.locate = options_.locate;
    files_.locate.other_host = report::RecordedElsewhere(reader->features());
    report::ApplyBuildIds(reader->features(), &objects_);
    perfdata::Record record;
    while (true) {
      ASSIGN_OR_RETURN(bool more, reader->Next(&record));
      if (!more) break;
      lost_ = reader->stats().lost_records + reader->stats().lost_samples > 0;
      if (const perfdata::Sample* sample = record.sample()) Add(*reader, record, *sample, report);
      else report::ApplyRecord(record, &spaces_);
    }
    report->lost = reader->stats().lost_records + reader->stats().lost_samples;
    report->damaged = !reader->stats().complete();
    report->files = files_.loaded;
    report->missing = files_.missing;
    report->files_missing = files_.missing.size();
    for (auto& [place, event] : events_) report->events.push_back(std::move(event));
    std::stable_sort(report->events.begin(), report->events.end(), [](const Event& a, const Event& b) {
      return a.violation.severity != b.violation.severity ? a.violation.severity > b.violation.severity : a.time_ns < b.time_ns;
    });
    return OkStatus();
  }

  Place At(uint64_t address) override {
    if (symbol::AddressSpaces::IsVsyscall(address)) return {.memory = MemoryKind::kVdso};
    const symbol::Mapping* mapping = spaces_.Find(pid_, address);
    if (!mapping || !mapping->executable) {
      // With losses a mapping may be one that nobody told of.
      const bool sure = spaces_.KnowsProcess(pid_) && !lost_;
      return {.memory = sure ? MemoryKind::kNotCode : MemoryKind::kUnknown};
    }
    const symbol::Object& object = objects_[mapping->object];
    if (object.path == "[uprobes]") return {.memory = MemoryKind::kUprobes};
    if (object.kind == ObjectKind::kVdso) return {.memory = MemoryKind::kVdso};
    if (object.kind != ObjectKind::kFile) {
      const bool explained = options_.jit_allowed || !spaces_.JitDumpOf(pid_).empty();
      return {.memory = object.kind == ObjectKind::kNone ? MemoryKind::kUnknown : explained ? MemoryKind::kJit : MemoryKind::kAnonymous};
    }
    FileFacts::Entry& entry = files_.Of(mapping->object);
    if (!entry.facts) {
      ++files_.missing[object.path];
      return {.memory = MemoryKind::kFile, .module = mapping->object};
    }
    auto inside = entry.facts->AddressOfOffset(mapping->page_offset + (address - mapping->start));
    if (!inside) return {.memory = MemoryKind::kFile, .module = mapping->object};
    return {.memory = MemoryKind::kFile, .facts = entry.facts.get(), .address = *inside, .module = mapping->object, .loader = entry.loader};
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
    constexpr uint64_t kBoth = perfdata::kBranchAnyCall | perfdata::kBranchAnyReturn;
    // Hardware that records the newest branch twice.
    auto records = sample.branches;
    if (report::NewestTwice(records, meta)) records = records.subspan(1);
    Window window{.records = records, .contiguous = meta.contiguous, .calls_and_returns = meta.contiguous || (kinds & kBoth) == kBoth};
    ++report->windows;
    if (options_.on_window) options_.on_window(window, *this);
    Check(window, *this, &report->totals);
    for (const Violation& violation : report->totals.violations) Keep(violation, window, sample, report);
  }

  void Keep(const Violation& violation, const Window& window, const perfdata::Sample& sample, ReplayReport* report) {
    const Place from = At(violation.from), to = At(violation.to);
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
    Event event{.violation = violation, .from = Describe(violation.from), .to = Describe(violation.to), .pid = pid_, .tid = static_cast<int32_t>(sample.tid), .time_ns = sample.time,
                .window_len = window.records.size(), .contiguous = window.contiguous};
    event.comm = std::string(spaces_.CommOf(pid_, event.tid));
    event.branches.assign(window.records.begin(), window.records.end());
    events_.emplace(place, std::move(event));
  }

  EventSide Describe(uint64_t address) {
    EventSide side{.address = address};
    const symbol::Mapping* mapping = spaces_.Find(pid_, address);
    if (mapping) {
      side.module = objects_[mapping->object].path;
      side.build_id = objects_[mapping->object].build_id;
    }
    const Place place = At(address);
    if (!place.facts) return side;
    side.offset = place.address;
    if (const Function* function = place.facts->Find(place.address)) {
      const std::string_view name = place.facts->NameOf(*function);
      if (!name.empty()) side.symbol = absl::StrFormat("%s+%#x", std::string(name), place.address - function->start);
    } else if (const PltSlot* slot = place.facts->FindPlt(place.address)) {
      side.symbol = slot->name + "@plt";
    }
    auto code = place.facts->Code(place.address, 8);
    side.bytes.assign(reinterpret_cast<const char*>(code.data()), code.size());
    return side;
  }

  const ReplayOptions& options_;
  symbol::ObjectTable objects_;
  symbol::AddressSpaces spaces_;
  FileFacts files_;
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
