#include "session/side_band.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "kernel/perf_event.h"
#include "kernel/proc_task.h"
#include "session/synth.h"

namespace brink {
namespace {

perf_event_attr DummyAttr() {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.sample_type = kSideBandSampleType;
  attr.sample_id_all = 1;
  attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 1;
  attr.ksymbol = attr.bpf_event = 1;
  attr.cgroup = 1;
  attr.namespaces = 1;
  attr.build_id = 1;
  attr.exclude_kernel = 0;
  attr.read_format = PERF_FORMAT_LOST;  // Linux 6.0
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  attr.watermark = 1;
  return attr;
}

// Records of an unprivileged ring end here: kernel.perf_event_mlock_kb is 516 by default.
constexpr size_t kFewestPages = 8;

}  // namespace

StatusOr<std::unique_ptr<PerfRing>> OpenSideBandRing(int cpu, size_t pages) {
  Status status;
  for (; pages >= kFewestPages; pages /= 2) {
    perf_event_attr attr = DummyAttr();
    attr.wakeup_watermark = static_cast<uint32_t>(pages * 4096 / 4);
    auto event = OpenPerfEvent(attr, {.pid = -1, .cpu = cpu}, "dummy (mappings and tasks of all processes)");
    if (!event.ok()) return event.status();
    auto ring = PerfRing::Map(std::move(*event), pages);
    if (ring.ok()) return ring;
    status = ring.status();
    if (ErrnoOf(status) != EPERM && ErrnoOf(status) != ENOMEM) break;
  }
  return status;
}

void SideBandFilter::FollowChildrenInProc() {
  if (follow_all_ || !children_) return;
  std::vector<TaskStat> others;
  for (pid_t pid : ListProcesses()) {
    auto stat = ReadTaskStat(pid);
    if (stat.ok() && !follows(pid)) others.push_back(*stat);
  }
  // Numbers wrap, so a child may be listed before its parent.
  for (size_t before = others.size() + 1; others.size() < before;) {
    before = others.size();
    std::erase_if(others, [this](const TaskStat& task) {
      if (!follows(task.parent)) return false;
      Follow(task.id);
      return true;
    });
  }
}

void SideBandFilter::ForgetEnded(uint64_t now_ns) {
  constexpr uint64_t kLastRecords = 1'000'000'000;
  absl::erase_if(ended_, [&](auto& process) {
    if (process.second) {
      if (now_ns - process.second < kLastRecords) return false;
      followed_.erase(process.first);
      return true;
    }
    // One whose other threads run on, or that is not waited for, is still there.
    if (kill(process.first, 0) != 0 && errno == ESRCH) process.second = now_ns;
    return false;
  });
}

bool SideBandFilter::TakeTask(std::span<const std::byte> record, bool fork) {
  struct {
    perf_event_header header;
    uint32_t pid, ppid, tid, ptid;
    uint64_t time;
  } task;
  if (record.size() < sizeof(task)) return false;
  std::memcpy(&task, record.data(), sizeof(task));
  const pid_t pid = static_cast<pid_t>(task.pid);
  const bool process = task.pid == task.tid;
  if (!follow_all_ && fork && process) {
    if (children_ && followed_.contains(static_cast<pid_t>(task.ppid))) {
      followed_.insert(pid);
    } else {
      followed_.erase(pid);  // the number of one that has ended, used again
    }
  }
  if (fork && process) ended_.erase(pid);
  else if (process && !follow_all_ && followed_.contains(pid)) ended_.try_emplace(pid, false);
  bool ours = follow_all_ || followed_.contains(pid);
  if (ours && !fork && process) callbacks_.process_changed(pid, true);
  return ours;
}

bool SideBandFilter::Take(std::span<const std::byte> record) {
  perf_event_header header;
  std::memcpy(&header, record.data(), sizeof(header));
  auto word = [&](size_t offset) {
    uint64_t value = 0;
    if (record.size() >= offset + 8) std::memcpy(&value, record.data() + offset, 8);
    return value;
  };
  switch (header.type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      return TakeTask(record, header.type == PERF_RECORD_FORK);
    case PERF_RECORD_COMM:
    case PERF_RECORD_MMAP2:
    case PERF_RECORD_NAMESPACES: {
      pid_t pid = static_cast<pid_t>(word(8));
      if (!follow_all_ && !followed_.contains(pid)) return false;
      if (header.type != PERF_RECORD_NAMESPACES && (header.type == PERF_RECORD_MMAP2 || (header.misc & PERF_RECORD_MISC_COMM_EXEC))) {
        callbacks_.process_changed(pid, false);
      }
      return true;
    }
    case PERF_RECORD_LOST:
      callbacks_.overflow(word(16));
      return true;
    case PERF_RECORD_KSYMBOL:
    case PERF_RECORD_BPF_EVENT:
    case PERF_RECORD_CGROUP:
      return true;
    default:
      return false;
  }
}

}  // namespace brink
