#include "session/file_consumer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "kernel/build_id.h"
#include "session/synth.h"

namespace brink {
namespace {

StatusOr<std::unique_ptr<perfdata::Sink>> OpenDefault(const std::string& path) {
  if (path != "-") return perfdata::OpenFileSink(path);
  UniqueFd fd(dup(STDOUT_FILENO));
  if (!fd.valid()) return ErrnoError(errno, "standard output");
  return std::unique_ptr<perfdata::Sink>(std::make_unique<perfdata::FdSink>(std::move(fd), "standard output"));
}

// A full disk may have room again later; the writer goes on trying and counts.
bool MayRecover(const Status& status) {
  int error = ErrnoOf(status);
  return error == ENOSPC || error == EDQUOT;
}

}  // namespace

perfdata::EventSpec MakeFileEvent(const perf_event_attr& attr, std::string name, const SourceTraits& traits, bool chains, bool cgroups) {
  using namespace perfdata;
  EventSpec event;
  static_assert(sizeof(attr) >= kAttrSizeWritten);
  std::memcpy(static_cast<void*>(&event.attr), &attr, kAttrSizeWritten);
  event.attr.sample_type = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleCpu | kSamplePeriod;
  event.attr.branch_sample_type = traits.branch_sample_type;
  if (traits.branch_sample_type) event.attr.sample_type |= kSampleBranchStack;
  if (chains) event.attr.sample_type |= kSampleCallchain;
  if (cgroups) event.attr.sample_type |= kSampleCgroup;
  event.attr.flags |= kAttrSampleIdAll | kAttrMmap | kAttrMmap2 | kAttrComm | kAttrCommExec | kAttrTask | kAttrKsymbol |
                      kAttrBpfEvent | kAttrUseClockid | kAttrBuildId | kAttrNamespaces | kAttrCgroup;
  // A pinned, inherited or disabled event is our way of recording, not the reader's business.
  event.attr.flags &= ~(kAttrDisabled | kAttrPinned | kAttrEnableOnExec);
  event.attr.clockid = CLOCK_MONOTONIC;
  event.name = std::move(name);
  if (attr.type == PERF_TYPE_TRACEPOINT) {
    // perf refuses a tracepoint without the tracing data of its format; what we have is the output of a BPF program.
    event.attr.type = kTypeSoftware;
    event.attr.config = kSwBpfOutput;
  }
  bool notes = traits.direction == BRINK_DIR_FUTURE;
  if (notes) event.attr.sample_type |= kSampleRaw;
  event.notes = EventNotes{.source = static_cast<uint8_t>(traits.id), .direction = static_cast<uint8_t>(traits.direction),
                           .contiguous = traits.contiguous, .sample_notes = notes};
  return event;
}

FileConsumer::FileConsumer(FileSpec spec, Callbacks callbacks, OpenSink open_sink)
    : spec_(std::move(spec)), callbacks_(std::move(callbacks)), open_sink_(open_sink ? std::move(open_sink) : OpenDefault), batch_(kBatch) {}

StatusOr<std::unique_ptr<FileConsumer>> FileConsumer::Create(FileSpec spec, Callbacks callbacks, OpenSink open_sink) {
  std::unique_ptr<FileConsumer> consumer(new FileConsumer(std::move(spec), std::move(callbacks), std::move(open_sink)));
  RETURN_IF_ERROR(consumer->OpenNext());
  return consumer;
}

std::string FileConsumer::NextPath() {
  MutexLock lock(mutex_);
  ++files_;
  if (spec_.rotating && spec_.rotate_keep && files_ > spec_.rotate_keep) {
    unlink(absl::StrFormat("%s.%06d", spec_.path, files_ - spec_.rotate_keep).c_str());
  }
  path_ = spec_.rotating ? absl::StrFormat("%s.%06d", spec_.path, files_) : spec_.path;
  return path_;
}

Status FileConsumer::OpenNext() {
  std::string path = NextPath();
  ASSIGN_OR_RETURN(std::unique_ptr<perfdata::Sink> sink, open_sink_(path));
  perfdata::WriterOptions options = {.events = spec_.events, .features = spec_.features, .pipe = spec_.pipe,
                                     .compression_level = spec_.compression_level};
  ASSIGN_OR_RETURN(writer_, perfdata::Writer::Create(std::move(sink), std::move(options)));
  bare_before_stack_ = stack_written_ = false;
  return OkStatus();
}

void FileConsumer::WriteBatch() {
  if (used_ == 0) return;
  perfdata::Writer::Outcome outcome = writer_->Append(std::span(batch_).first(used_));
  used_ = 0;
  // A failing sink takes a front part: what is lost are the last samples of the batch.
  size_t lost = std::min<size_t>(outcome.lost.samples, batched_samples_.size());
  for (size_t i = batched_samples_.size() - lost; i < batched_samples_.size(); ++i) settled_.lost += {1, batched_samples_[i]};
  batched_samples_.clear();
  if (!outcome.status.ok() && MayRecover(outcome.status)) {
    MutexLock lock(mutex_);
    disk_full_ = true;
  } else if (!outcome.status.ok() && settled_.status.ok()) {
    settled_.status = outcome.status;
  }
  CheckSize();
}

void FileConsumer::CheckSize() {
  uint64_t size = writer_->size();
  {
    MutexLock lock(mutex_);
    current_bytes_ = size;
  }
  if (limit_told_) return;
  if (spec_.max_size && size >= spec_.max_size) {
    limit_told_ = true;
    callbacks_.size_limit();
  } else if (spec_.rotate_size && size >= spec_.rotate_size) {
    limit_told_ = true;  // until the new file is there
    callbacks_.rotate();
  }
}

template <typename Encode>
Status FileConsumer::Put(Encode encode) {
  size_t size = encode(Room());
  if (size == 0) {
    WriteBatch();
    size = encode(Room());
  }
  if (size == 0) return InvalidArgument("a record is longer than perf.data allows");
  used_ += size;
  return OkStatus();
}

Status FileConsumer::OnSample(const SampleView& sample) {
  const brink_sample& head = *sample.head;
  perfdata::SampleNote note;
  size_t event = std::min<size_t>(head.event, spec_.events.size() - 1);
  perfdata::SampleFields fields = {
      .misc = (head.flags & BRINK_SAMPLE_KERNEL_IP) ? perfdata::kMiscKernel : perfdata::kMiscUser,
      .ip = head.ip, .pid = head.tgid, .tid = head.tid, .time = head.time_ns, .id = writer_->id(event), .cpu = head.cpu,
      .period = head.period, .chain = sample.chain,
      .branches = {static_cast<const brink_branch*>(sample.branches.data()), sample.branches.size()}, .cgroup = head.cgroup_id};
  if (spec_.events[event].attr.sample_type & perfdata::kSampleRaw) {
    note = perfdata::MakeSampleNote(head);
    fields.raw = std::as_bytes(std::span(&note, 1));
  }
  if (sample.branches.empty()) {
    bare_before_stack_ = true;
  } else if (!stack_written_) {
    stack_written_ = true;
    if (bare_before_stack_) RETURN_IF_ERROR(SeparateFirstStack(head.time_ns));
  }
  RETURN_IF_ERROR(Put([&](std::span<std::byte> out) { return writer_->encoder(event).Sample(out, fields); }));
  batched_samples_.push_back(head.header.size);
  {
    MutexLock lock(mutex_);
    threads_.Sample(sample.head->tgid, sample.head->tid, sample.branches.size());
  }
  return OkStatus();
}

// llvm-profgen judges a recording by perf script's text before the first stack: lines that hold nothing but an address
// are a call chain to it, and then it refuses the file. Samples without a stack (warm-up) print such lines. The kernel's
// mapping, told once more, prints a line that ends the run, and changes nothing for anybody.
Status FileConsumer::SeparateFirstStack(uint64_t time_ns) {
  if (kernel_map_.empty()) return OkStatus();
  SideBandId id = {.pid = 0, .tid = 0, .time_ns = time_ns, .cpu = 0, .reserved = 0, .id = writer_->id(0)};
  return PutPerfRecord(kernel_map_, id);
}

Status FileConsumer::PutPerfRecord(std::span<const std::byte> record, const SideBandId& id) {
  return Put([&](std::span<std::byte> out) -> size_t {
    size_t size = record.size() + sizeof(id);
    if (out.size() < size) return 0;
    std::memcpy(out.data(), record.data(), record.size());
    std::memcpy(out.data() + record.size(), &id, sizeof(id));
    return size;
  });
}

Status FileConsumer::OnPerfRecord(const PerfRecordView& view) {
  perf_event_header header;
  std::memcpy(&header, view.record.data(), sizeof(header));
  // The trailer has our layout (kSideBandSampleType); only the id is the dummy's, which the file does not know.
  SideBandId id = view.id;
  id.id = writer_->id(0);
  RETURN_IF_ERROR(PutPerfRecord(view.record, id));
  if (header.type == PERF_RECORD_MMAP2) RememberBuildId(view.record);
  if (header.type == PERF_RECORD_MMAP2 && (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL && kernel_map_.empty()) {
    kernel_map_.assign(view.record.begin(), view.record.end());
  }
  if (header.type == PERF_RECORD_COMM && view.record.size() > 16) {
    uint32_t pid, tid;
    std::memcpy(&pid, view.record.data() + 8, 4);
    std::memcpy(&tid, view.record.data() + 12, 4);
    const char* name = reinterpret_cast<const char*>(view.record.data() + 16);
    MutexLock lock(mutex_);
    threads_.Name(pid, tid, std::string_view(name, strnlen(name, view.record.size() - 16)));
  }
  if (header.type == PERF_RECORD_EXIT && view.record.size() >= 24) {
    uint32_t pid, tid;
    std::memcpy(&pid, view.record.data() + 8, 4);
    std::memcpy(&tid, view.record.data() + 16, 4);
    MutexLock lock(mutex_);
    threads_.End(pid, tid);
  }
  return OkStatus();
}

// The kernel gives no id for a file whose first page is not cached, or that has none: then the file is asked, by the
// path that the record tells. The record is changed in the batch.
void FileConsumer::RememberBuildId(std::span<const std::byte> record) {
  constexpr size_t kName = 72, kIds = 40;  // of PERF_RECORD_MMAP2
  if (record.size() <= kName) return;
  perf_event_header header;
  std::memcpy(&header, record.data(), sizeof(header));
  int32_t pid;
  std::memcpy(&pid, record.data() + 8, 4);
  const char* name = reinterpret_cast<const char*>(record.data() + kName);
  std::string path(name, strnlen(name, record.size() - kName));
  std::string id;
  if (header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
    size_t size = std::min<size_t>(static_cast<uint8_t>(record[kIds]), perfdata::kBuildIdMax);
    id.assign(reinterpret_cast<const char*>(record.data() + kIds + 4), size);
  } else if (!path.empty() && path[0] == '/' && path.substr(0, 2) != "//") {
    auto known = build_ids_.find(path);
    id = known != build_ids_.end() ? known->second.build_id : ReadBuildId("/proc/" + std::to_string(pid) + "/root" + path);
    if (id.empty()) id = ReadBuildId(path);
    if (!id.empty()) {
      std::byte* at = batch_.data() + used_ - record.size() - sizeof(SideBandId);
      header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
      std::memcpy(at, &header, sizeof(header));
      std::memset(at + kIds, 0, 24);
      at[kIds] = static_cast<std::byte>(id.size());
      std::memcpy(at + kIds + 4, id.data(), id.size());
    }
  }
  constexpr size_t kMostFiles = 65536;
  if (id.empty() || path.empty() || build_ids_.size() >= kMostFiles) return;
  uint16_t mode = header.misc & PERF_RECORD_MISC_CPUMODE_MASK;
  // perf's table knows the kernel by its plain name.
  if (mode == PERF_RECORD_MISC_KERNEL && path.rfind("[kernel.kallsyms]", 0) == 0) path = "[kernel.kallsyms]";
  build_ids_[path] = {.pid = -1, .misc = mode, .build_id = id, .filename = path};
}

Status FileConsumer::OnRound(uint64_t time_ns) {
  RETURN_IF_ERROR(Put([&](std::span<std::byte> out) { return perfdata::RecordEncoder::FinishedRound(out, time_ns); }));
  WriteBatch();
  // Cheap (the header's sizes), and the most that a killed collector loses is one round.
  Status status = writer_->Flush();
  return MayRecover(status) ? OkStatus() : status;
}

Status FileConsumer::OnLost(LossCause cause, const Loss& loss, uint64_t time_ns) {
  // The writer itself tells readers about what did not fit onto the disk.
  if (!IsSampleLoss(cause) || cause == LossCause::kWriter) return OkStatus();
  perfdata::SampleId id = {.time = time_ns, .id = writer_->id(0)};
  return Put([&](std::span<std::byte> out) { return writer_->encoder(0).LostSamples(out, loss.records, id); });
}

Settled FileConsumer::Settle() {
  WriteBatch();
  Settled settled = settled_;
  settled_ = {};
  return settled;
}

Status FileConsumer::Flush() {
  WriteBatch();
  Status status = writer_->Flush(/*sync=*/true);
  return MayRecover(status) ? OkStatus() : status;
}

Status FileConsumer::Rotate() {
  if (!spec_.rotating) return Flush();
  RETURN_IF_ERROR(Finish());
  {
    MutexLock lock(mutex_);
    finished_bytes_ += current_bytes_;
    current_bytes_ = 0;
  }
  build_ids_.clear();
  RETURN_IF_ERROR(OpenNext());
  limit_told_ = false;
  return OkStatus();
}

Status FileConsumer::Finish() {
  WriteBatch();
  if (!writer_) return OkStatus();
  std::vector<perfdata::BuildIdEntry> ids;
  for (const auto& [path, entry] : build_ids_) ids.push_back(entry);
  std::sort(ids.begin(), ids.end(), [](auto& a, auto& b) { return a.filename < b.filename; });
  Status status = writer_->Finish(std::move(ids));
  MutexLock lock(mutex_);
  current_bytes_ = writer_->size();
  if (!MayRecover(status)) return status;
  // The data is whole; what was lost is counted, and --repair writes the feature sections when there is room.
  disk_full_ = true;
  return OkStatus();
}

ThreadCounts FileConsumer::counts() const {
  MutexLock lock(mutex_);
  return threads_.Take();
}

std::string FileConsumer::path() const {
  MutexLock lock(mutex_);
  return path_;
}

uint64_t FileConsumer::bytes() const {
  MutexLock lock(mutex_);
  return finished_bytes_ + current_bytes_;
}

uint32_t FileConsumer::files() const {
  MutexLock lock(mutex_);
  return files_;
}

bool FileConsumer::disk_was_full() const {
  MutexLock lock(mutex_);
  return disk_full_;
}

}  // namespace brink
