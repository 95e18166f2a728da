#include "walk/recording_check.h"

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/stop.h"
#include "perfdata/reader.h"
#include "symbol/address_space.h"

namespace brink::testing_support {
namespace {

using perfdata::Comm;
using perfdata::Mmap;
using perfdata::Record;
using perfdata::Sample;
using perfdata::Task;

// Program text from the files that were mapped. Whole files are kept: tests map few.
class Texts {
 public:
  explicit Texts(symbol::ObjectTable* objects) : objects_(*objects), spaces_(objects) {}

  void Apply(const Record& record) {
    if (const auto* mmap = std::get_if<Mmap>(&record.body)) {
      spaces_.Mmap({.pid = static_cast<int32_t>(mmap->pid), .start = mmap->start, .length = mmap->length, .page_offset = mmap->pgoff,
                    .path = mmap->filename, .build_id = mmap->build_id, .kernel = record.cpumode() == 1, .executable = !mmap->data});
    } else if (const auto* task = std::get_if<Task>(&record.body)) {
      auto as_int = [](uint32_t id) { return static_cast<int32_t>(id); };
      if (task->exit) spaces_.Exit(as_int(task->pid), as_int(task->tid));
      else spaces_.Fork(as_int(task->pid), as_int(task->tid), as_int(task->ppid), as_int(task->ptid));
    } else if (const auto* comm = std::get_if<Comm>(&record.body)) {
      spaces_.Comm(static_cast<int32_t>(comm->pid), static_cast<int32_t>(comm->tid), comm->comm, comm->exec);
    }
  }

  bool Mapped(int32_t pid, uint64_t address) const { return spaces_.Find(pid, address) != nullptr; }

  std::string Code(int32_t pid, uint64_t address, size_t size) {
    const symbol::Mapping* mapping = spaces_.Find(pid, address);
    if (!mapping) return {};
    const std::string& path = objects_[mapping->object].path;
    auto [it, fresh] = files_.try_emplace(path);
    if (fresh && !path.empty() && path[0] == '/') {
      auto content = ReadFile(path, size_t{512} << 20);
      if (content.ok()) it->second = *std::move(content);
    }
    uint64_t offset = address - mapping->start + mapping->page_offset;
    if (offset >= it->second.size()) return {};
    return it->second.substr(offset, size);
  }

 private:
  symbol::ObjectTable& objects_;
  symbol::AddressSpaces spaces_;
  std::map<std::string, std::string> files_;
};

void AddSample(const Sample& sample, bool kernel_ip, Texts* texts, RecordingVerdict* verdict) {
  ++verdict->samples;
  auto note = perfdata::ReadSampleNote(sample.raw);
  if (note) {
    if (note->stop < verdict->stops.size()) ++verdict->stops[note->stop];
    verdict->steps += note->steps;
    verdict->walk_ns += note->walk_ns;
    bool started = note->stop != BRINK_STOP_MISS && note->stop != BRINK_STOP_THROTTLED && note->stop != BRINK_STOP_TRANSLATION_BUSY;
    verdict->warm_samples += started;
    verdict->warm_branches += started ? sample.branches.size() : 0;
  }
  if (sample.branches.empty()) return;
  ++verdict->with_stack;
  verdict->branches += sample.branches.size();
  int32_t pid = static_cast<int32_t>(sample.pid);
  for (const BranchEntry& entry : sample.branches) verdict->unmapped += !texts->Mapped(pid, entry.from);
  bool future = note && note->direction == BRINK_DIR_FUTURE;
  CheckStack(sample.branches, future && !kernel_ip ? sample.ip : 0,
             [&](uint64_t address, size_t size) { return texts->Code(pid, address, size); }, &verdict->code);
}

}  // namespace

StatusOr<RecordingVerdict> CheckRecording(const std::string& path) {
  ASSIGN_OR_RETURN(auto reader, perfdata::Reader::Open(path));
  symbol::ObjectTable objects;
  Texts texts(&objects);
  RecordingVerdict verdict;
  Record record;
  while (true) {
    ASSIGN_OR_RETURN(bool more, reader->Next(&record));
    if (!more) break;
    if (const Sample* sample = record.sample()) AddSample(*sample, record.cpumode() == 1, &texts, &verdict);
    else texts.Apply(record);
  }
  if (!reader->stats().complete()) return DataLoss(path + ": damaged: " + reader->stats().problems[0].what);
  return verdict;
}

std::string Describe(const RecordingVerdict& verdict) {
  std::string out = absl::StrFormat("%d samples, %d stacks, %d branches, mean depth %.1f, %d ranges, %d wrong, %d unreadable, %d unmapped;",
                                    verdict.samples, verdict.with_stack, verdict.branches, verdict.mean_depth(), verdict.code.ranges,
                                    verdict.code.wrong, verdict.code.unreadable, verdict.unmapped);
  for (int stop = 0; stop < BRINK_STOP_MAX; ++stop) {
    if (verdict.stops[static_cast<size_t>(stop)]) {
      absl::StrAppendFormat(&out, " %s %.1f%%", std::string(StopReasonName(stop)), 100 * verdict.share(static_cast<brink_stop>(stop)));
    }
  }
  if (verdict.steps) absl::StrAppendFormat(&out, "; %.1f ns a step", static_cast<double>(verdict.walk_ns) / static_cast<double>(verdict.steps));
  return out;
}

}  // namespace brink::testing_support
