#include "agent/flight.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "session/synth.h"

namespace brink::agent {
namespace {

constexpr pid_t kNobody = -1;
constexpr uint64_t kDropEveryNs = 1'000'000'000;
// A process whose records are longer than this is read anew from /proc, which forgets what it has unmapped.
constexpr uint64_t kMostProcessBytes = 4u << 20;

FlightRecorder::Kept Copy(std::span<const std::byte> bytes, const SideBandId& id) { return {{bytes.begin(), bytes.end()}, id}; }

uint32_t TypeOf(std::span<const std::byte> record) {
  perf_event_header header;
  std::memcpy(&header, record.data(), sizeof(header));
  return header.type;
}

// Whose record it is: the process that it names, not the one that happened to run.
pid_t OwnerOf(const PerfRecordView& view) {
  if (view.record.size() < 16) return kNobody;
  switch (TypeOf(view.record)) {
    case PERF_RECORD_MMAP: case PERF_RECORD_MMAP2: case PERF_RECORD_COMM: case PERF_RECORD_FORK: case PERF_RECORD_EXIT: case PERF_RECORD_NAMESPACES: {
      pid_t pid;
      std::memcpy(&pid, view.record.data() + 8, sizeof(pid));
      return pid;
    }
    default: return kNobody;
  }
}

// PERF_RECORD_EXIT of a process's leader: pid, ppid, tid, ptid.
bool IsProcessExit(std::span<const std::byte> record) {
  if (record.size() < 24 || TypeOf(record) != PERF_RECORD_EXIT) return false;
  uint32_t ids[4];
  std::memcpy(ids, record.data() + 8, sizeof(ids));
  return ids[0] == ids[2];
}

// What the synthesiser says about a process, kept.
class KeepSink : public RecordSink {
 public:
  explicit KeepSink(std::vector<FlightRecorder::Kept>* out) : out_(out) {}
  bool PutPerfRecord(std::span<const std::byte> record) override {
    SideBandId id;
    if (record.size() < sizeof(id)) return true;
    std::memcpy(&id, record.data() + record.size() - sizeof(id), sizeof(id));
    out_->push_back(Copy(record.first(record.size() - sizeof(id)), id));
    return true;
  }
  void PutLost(LossCause, const Loss&, uint64_t) override {}

 private:
  std::vector<FlightRecorder::Kept>* out_;
};

}  // namespace

FlightRecorder::FlightRecorder(const FlightLimits& limits, size_t cpus) : limits_(limits), cpu_bytes_(std::max<uint64_t>(limits.bytes / std::max<size_t>(cpus, 1), 64u << 10)) {}

Status FlightRecorder::OnSample(const SampleView& sample) {
  const auto* begin = reinterpret_cast<const std::byte*>(sample.head);
  MutexLock lock(mutex_);
  Cpu& cpu = cpus_[sample.head->cpu];
  cpu.samples.push_back({{begin, begin + sample.head->header.size}, {}});
  cpu.times.push_back(sample.head->time_ns);
  cpu.bytes += sample.head->header.size;
  ++facts_.seen;
  TrimCpu(&cpu);
  return OkStatus();
}

void FlightRecorder::TrimCpu(Cpu* cpu) {
  while (!cpu->samples.empty()) {
    const bool old = cpu->times.front() + limits_.window_ns < cpu->times.back();
    if (!old && cpu->bytes <= cpu_bytes_) return;
    if (!old) ++facts_.evicted_by_size;
    cpu->bytes -= cpu->samples.front().bytes.size();
    cpu->samples.pop_front();
    cpu->times.pop_front();
  }
}

Status FlightRecorder::OnPerfRecord(const PerfRecordView& view) {
  if (view.record.size() < sizeof(perf_event_header)) return OkStatus();
  const pid_t owner = OwnerOf(view);
  MutexLock lock(mutex_);
  Process& process = processes_[owner];
  // The number of a process that ended may come back.
  if (process.ended_ns && TypeOf(view.record) == PERF_RECORD_FORK) process.ended_ns = 0;
  if (IsProcessExit(view.record)) process.ended_ns = std::max<uint64_t>(view.id.time_ns, 1);
  process.records.push_back(Copy(view.record, view.id));
  process.bytes += view.record.size();
  side_band_bytes_ += view.record.size();
  if (process.bytes > kMostProcessBytes) Compact(owner, &process);
  if (side_band_bytes_ > limits_.side_band_bytes) DropEnded(UINT64_MAX);
  return OkStatus();
}

void FlightRecorder::Compact(pid_t pid, Process* process) {
  side_band_bytes_ -= process->bytes;
  if (pid == kNobody) {
    // Names of BPF programs and groups, the kernel's own mappings at the front: the older half of what came later goes.
    process->records.erase(process->records.begin() + static_cast<ptrdiff_t>(process->records.size() / 4), process->records.begin() + static_cast<ptrdiff_t>(process->records.size() / 2));
  } else {
    process->records.clear();
    KeepSink sink(&process->records);
    Synthesizer(sink).Process(pid, 0);
  }
  process->bytes = 0;
  for (const Kept& kept : process->records) process->bytes += kept.bytes.size();
  side_band_bytes_ += process->bytes;
  ++facts_.compacted;
}

// Processes that ended before anything that is held; with UINT64_MAX all that ended, the first ones first, until there is
// room.
void FlightRecorder::DropEnded(uint64_t now_ns) {
  const bool need_room = now_ns == UINT64_MAX;
  std::vector<std::pair<uint64_t, pid_t>> ended;
  for (const auto& [pid, process] : processes_) {
    if (process.ended_ns && (need_room || process.ended_ns + 2 * limits_.window_ns < now_ns)) ended.emplace_back(process.ended_ns, pid);
  }
  std::sort(ended.begin(), ended.end());
  for (const auto& [time, pid] : ended) {
    if (need_room && side_band_bytes_ <= limits_.side_band_bytes / 2) return;
    side_band_bytes_ -= processes_[pid].bytes;
    processes_.erase(pid);
  }
}

Status FlightRecorder::OnRound(uint64_t time_ns) {
  MutexLock lock(mutex_);
  round_ns_ = std::max(round_ns_, time_ns);
  if (time_ns != UINT64_MAX && time_ns >= next_drop_ns_) {
    next_drop_ns_ = time_ns + kDropEveryNs;
    DropEnded(time_ns);
    // A CPU that has gone idle keeps no samples from before the window either.
    for (auto& [number, cpu] : cpus_) {
      while (!cpu.samples.empty() && cpu.times.front() + limits_.window_ns < time_ns) {
        cpu.bytes -= cpu.samples.front().bytes.size();
        cpu.samples.pop_front();
        cpu.times.pop_front();
      }
    }
  }
  round_.NotifyAll();
  return OkStatus();
}

FlightFacts FlightRecorder::facts() const {
  MutexLock lock(mutex_);
  FlightFacts facts = facts_;
  facts.side_band_bytes = side_band_bytes_;
  uint64_t first = UINT64_MAX, last = 0;
  for (const auto& [number, cpu] : cpus_) {
    facts.samples += cpu.samples.size();
    facts.bytes += cpu.bytes;
    if (cpu.times.empty()) continue;
    first = std::min(first, cpu.times.front());
    last = std::max(last, cpu.times.back());
  }
  facts.span_ns = last > first ? last - first : 0;
  return facts;
}

FlightRecorder::Tape FlightRecorder::Take(uint64_t time_ns, uint64_t wait_ns) {
  MutexLock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
  while (round_ns_ < time_ns) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !round_.WaitFor(mutex_, left)) break;
  }
  Tape tape;
  tape.until_ns = round_ns_;
  for (const auto& [pid, process] : processes_) tape.side_band.insert(tape.side_band.end(), process.records.begin(), process.records.end());
  for (const auto& [number, cpu] : cpus_) tape.samples.insert(tape.samples.end(), cpu.samples.begin(), cpu.samples.end());
  auto time_of = [](const Kept& kept) { return reinterpret_cast<const brink_sample*>(kept.bytes.data())->time_ns; };
  std::stable_sort(tape.side_band.begin(), tape.side_band.end(), [](const Kept& a, const Kept& b) { return a.id.time_ns < b.id.time_ns; });
  std::stable_sort(tape.samples.begin(), tape.samples.end(), [&](const Kept& a, const Kept& b) { return time_of(a) < time_of(b); });
  return tape;
}

StatusOr<uint64_t> WriteTape(const FlightRecorder::Tape& tape, FileSpec file) {
  ASSIGN_OR_RETURN(std::unique_ptr<FileConsumer> consumer, FileConsumer::Create(std::move(file), {.size_limit = [] {}, .rotate = [] {}}));
  for (const FlightRecorder::Kept& kept : tape.side_band) RETURN_IF_ERROR(consumer->OnPerfRecord({.record = kept.bytes, .id = kept.id}));
  uint64_t samples = 0;
  for (const FlightRecorder::Kept& kept : tape.samples) {
    auto view = ViewSample(kept.bytes);
    if (!view) continue;
    RETURN_IF_ERROR(consumer->OnSample(*view));
    ++samples;
  }
  RETURN_IF_ERROR(consumer->OnRound(UINT64_MAX));
  RETURN_IF_ERROR(consumer->Finish());
  return samples;
}

}  // namespace brink::agent
