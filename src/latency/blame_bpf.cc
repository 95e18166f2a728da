#include "latency/blame_bpf.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/strings.h"
#include "kernel/capability.h"
#include "kernel/perf_event.h"
#include "brink/abi/snapshot.h"
#include "latency.skel.h"
#include "latency/blame.h"
#include "latency/cpu_set.h"
#include "snapshot/held_events.h"

namespace brink::latency {
namespace {

// libbpf's own messages, kept for the error line.
thread_local std::string g_messages;
int Keep(enum libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  g_messages += text;
  return 0;
}

std::string LastMessage() {
  // The first that is no follow-up of another.
  auto lines = Split(Trim(g_messages), '\n');
  return lines.empty() ? "" : EscapeForTerminal(lines[0]);
}

class BpfBtf {
 public:
  BpfBtf() : btf_(btf__load_vmlinux_btf()) {}
  ~BpfBtf() { btf__free(btf_); }
  bool HasTracepoint(const std::string& name) const { return btf_ && btf__find_by_name_kind(btf_, ("btf_trace_" + name).c_str(), BTF_KIND_TYPEDEF) > 0; }
  bool ok() const { return btf_ != nullptr; }

 private:
  struct btf* btf_;
};

size_t PageRounded(size_t bytes) {
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

StatusOr<std::unique_ptr<LatencyBpf>> LatencyBpf::Start(const BpfOptions& options) {
  std::unique_ptr<LatencyBpf> self(new LatencyBpf());
  RETURN_IF_ERROR(self->Load(options));
  RETURN_IF_ERROR(self->MapMemory());
  if (options.beat_ns) self->StartHeartbeat(options.beat_ns);
  return self;
}

Status LatencyBpf::Load(const BpfOptions& options) {
  auto before = libbpf_set_print(Keep);
  g_messages.clear();
  skeleton_ = latency_bpf__open();
  if (!skeleton_) {
    libbpf_set_print(before);
    return Internal("the latency programs cannot be opened: " + LastMessage());
  }
  BpfBtf btf;
  if (!btf.ok()) return FailedPrecondition("--blame needs the kernel's type information (brink doctor: kernel.btf)");
  cpu_count_ = static_cast<size_t>(libbpf_num_possible_cpus());
  bpf_map__set_max_entries(skeleton_->maps.lat_cpus, static_cast<uint32_t>(cpu_count_));
  struct bpf_program* program;
  bpf_object__for_each_program(program, skeleton_->obj) {
    std::string section = bpf_program__section_name(program);
    std::string name = section.substr(section.rfind('/') + 1);
    bool there = btf.HasTracepoint(name);
    bool of_watch = std::string_view(bpf_program__name(program)).starts_with("lat_watch_");
    if (of_watch && options.watch.watch == BRINK_LAT_WATCH_OFF) {
      bpf_program__set_autoload(program, false);
      continue;
    }
    bpf_program__set_autoload(program, there);
    if (!there && !name.ends_with("_exit") && !name.ends_with("_end")) missing_.push_back(name);
  }
  brink_lat_config config = options.watch;
  config.self_tgid = static_cast<uint32_t>(::getpid());
  config.futex_syscall = SYS_futex;
  config.irq_vectors = btf.HasTracepoint("local_timer_entry");
  if (options.snapshots) {
    auto held = HeldEvents::Open(HeldFlags(TriggerSide::kKernel));
    if (held.ok()) held_ = std::make_unique<HeldEvents>(std::move(*held));
    else why_no_snapshots_ = Message(held.status());
  } else {
    why_no_snapshots_ = "not asked for";
  }
  config.snapshots = held_ != nullptr;
  std::memcpy(const_cast<brink_lat_config*>(&skeleton_->rodata->lat_cfg), &config, sizeof config);
  int error = latency_bpf__load(skeleton_);
  if (!error) error = latency_bpf__attach(skeleton_);
  libbpf_set_print(before);
  if (error == -EPERM) return PermissionDenied("--blame needs rights for BPF: run as root, or " + SetcapLine());
  if (error) return Annotate(ErrnoError(-error, "the latency programs are refused"), LastMessage());
  return OkStatus();
}

Status LatencyBpf::MapMemory() {
  cpus_bytes_ = PageRounded(cpu_count_ * sizeof(brink_lat_cpu));
  slots_bytes_ = PageRounded(BRINK_LAT_SLOTS * sizeof(brink_lat_slot));
  void* cpus = ::mmap(nullptr, cpus_bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, bpf_map__fd(skeleton_->maps.lat_cpus), 0);
  if (cpus == MAP_FAILED) return ErrnoError(errno, "mapping the CPU logs");
  cpus_ = static_cast<const brink_lat_cpu*>(cpus);
  void* slots = ::mmap(nullptr, slots_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, bpf_map__fd(skeleton_->maps.lat_slots), 0);
  if (slots == MAP_FAILED) return ErrnoError(errno, "mapping the thread slots");
  slots_ = static_cast<brink_lat_slot*>(slots);
  return OkStatus();
}

void LatencyBpf::StartHeartbeat(int64_t period_ns) {
  perf_event_attr attr = {};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.sample_period = static_cast<uint64_t>(period_ns);
  for (int cpu : OnlineCpus()) {
    auto event = OpenPerfEvent(attr, {.pid = -1, .cpu = cpu}, "heartbeat");
    if (!event.ok()) {
      beats_.clear();
      return;
    }
    beats_.push_back(std::move(*event));
  }
  beat_ns_ = period_ns;
}

LatencyBpf::~LatencyBpf() {
  if (cpus_) ::munmap(const_cast<brink_lat_cpu*>(cpus_), cpus_bytes_);
  if (slots_) ::munmap(slots_, slots_bytes_);
  if (skeleton_) latency_bpf__destroy(skeleton_);
}

StatusOr<size_t> LatencyBpf::Register(pid_t tid) {
  size_t index = next_slot_.fetch_add(1);
  if (index >= BRINK_LAT_SLOTS) return ResourceExhausted("more than " + std::to_string(BRINK_LAT_SLOTS) + " threads with --blame");
  auto key = static_cast<uint32_t>(tid);
  auto value = static_cast<uint32_t>(index);
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.lat_threads), &key, &value, BPF_ANY) != 0) return ErrnoError(errno, "registering a thread");
  return index;
}

Status LatencyBpf::Unregister(pid_t tid) {
  auto key = static_cast<uint32_t>(tid);
  if (bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.lat_threads), &key) != 0) return ErrnoError(errno, "forgetting a thread");
  return OkStatus();
}

int LatencyBpf::spike_ring_fd() const { return bpf_map__fd(skeleton_->maps.lat_spikes); }
int LatencyBpf::watch_set_fd() const { return bpf_map__fd(skeleton_->maps.lat_watch_set); }
int LatencyBpf::watch_stats_fd() const { return bpf_map__fd(skeleton_->maps.lat_watch_stats); }
uint64_t LatencyBpf::lost_spikes() const { return skeleton_->bss->lat_spikes_lost; }

StatusOr<std::vector<uint64_t>> LatencyBpf::WatchHistogram() const {
  std::vector<uint64_t> sums(BRINK_LAT_BUCKETS, 0), values(cpu_count_);
  for (uint32_t bucket = 0; bucket < BRINK_LAT_BUCKETS; ++bucket) {
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.lat_watch_histogram), &bucket, values.data()) != 0) return ErrnoError(errno, "histogram of the observed wake-ups");
    for (uint64_t value : values) sums[bucket] += value;
  }
  return sums;
}

}  // namespace brink::latency
