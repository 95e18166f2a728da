#include "source/walk_source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <absl/strings/str_format.h>

#include "brink/abi/session.h"
#include "brink/abi/walk_state.h"
#include "session/core.h"
#include "source/grace_period.h"
#include "walk/line_table.h"
#include "walk.skel.h"
#include "walk_scalar.skel.h"
#include "walk_task.skel.h"
#include "walk_task_impl.skel.h"

namespace brink {
namespace {

// Of the code cache: a page that walks come through takes 6 KB of micro-ops or more, and one of its lines 350 bytes
// in the mean.
constexpr uint64_t kBytesPerPage = 6144, kBytesPerLine = 350;
// Steps that a stack may take for each branch asked for; real code needs 5 to 12.
constexpr uint32_t kStepsPerBranch = 128;
constexpr uint32_t kMinSteps = 4096;
// Of the budget, for what follows a walk's last step: handing the branches over, a miss record.
constexpr uint32_t kReserveNs = 4'000, kReserveNsPerBranch = 8;
// Task mode: walks that may be under way at once. One a CPU runs, others have been preempted.
constexpr uint32_t kSlotsPerCpu = 2, kMoreSlots = 16;
// A walk that was preempted comes back within scheduling latency; beyond, memory is reused later instead.
constexpr uint64_t kWalkTaskMaxDelayNs = 60'000'000;  // above WALK_LATE_END_NS of bpf/walk/task.h
constexpr auto kEpochPatience = std::chrono::milliseconds(200);

// One array map that user space writes without system calls.
template <typename T>
class MappedArray {
 public:
  ~MappedArray() {
    if (data_) ::munmap(data_, bytes_);
  }
  Status Map(const bpf_map* map, const char* name) {
    count_ = bpf_map__max_entries(map);
    size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    bytes_ = (count_ * sizeof(T) + page - 1) / page * page;
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
    if (at == MAP_FAILED) return ErrnoError(errno, std::string("map ") + name);
    data_ = static_cast<T*>(at);
    return OkStatus();
  }
  std::span<T> span() const { return {data_, count_}; }

 private:
  T* data_ = nullptr;
  size_t count_ = 0, bytes_ = 0;
};

}  // namespace

class WalkSource::Maps : public WalkTables {
 public:
  Status Map(const bpf_object* object) {
    RETURN_IF_ERROR(uops.Map(bpf_object__find_map_by_name(object, "walk_uops"), "the micro-ops"));
    RETURN_IF_ERROR(pages.Map(bpf_object__find_map_by_name(object, "walk_pages"), "the code pages"));
    RETURN_IF_ERROR(buckets_.Map(bpf_object__find_map_by_name(object, "walk_xlat"), "the table of code lines"));
    lines_ = walk::LineTable(buckets_.span());
    processes_fd_ = bpf_object__find_map_fd_by_name(object, "walk_procs");
    const bpf_map* flights = bpf_object__find_map_by_name(object, "walk_flights");
    return flights ? flights_.Map(flights, "the walks under way") : OkStatus();
  }

  void PutLines(std::span<const uint64_t> hashes, uint32_t slot) override {
    for (uint64_t hash : hashes) lines_.Put(hash, slot);
  }
  void RemoveLine(uint64_t hash) override { lines_.Remove(hash); }
  bool PutProcess(uint64_t asid, const brink_walk_proc& proc) override { return bpf_map_update_elem(processes_fd_, &asid, &proc, BPF_ANY) == 0; }
  void RemoveProcess(uint64_t asid) override { bpf_map_delete_elem(processes_fd_, &asid); }

  // Interrupt-mode walks run inside RCU read sections: the system-wide barrier waits for a grace period. Task-mode walks
  // are preemptible and no grace period of ours covers them: the barrier orders what was unlinked before the epochs
  // that are read here, and a walk begins its epoch before it looks anything up.
  bool WaitForWalks() override {
    // Where CPUs run without a tick (nohz_full) the kernel refuses; an update of a map of maps waits for readers too.
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0 && !grace_.Wait()) return false;
    auto patience = std::chrono::steady_clock::now() + kEpochPatience;
    for (brink_walk_flight& flight : flights_.span()) {
      uint64_t seen = __atomic_load_n(&flight.epoch, __ATOMIC_ACQUIRE);
      while (seen % 2 != 0 && __atomic_load_n(&flight.epoch, __ATOMIC_ACQUIRE) == seen) {
        if (std::chrono::steady_clock::now() > patience) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    return true;
  }

  uint64_t OldestUnderWay() const {
    uint64_t oldest = UINT64_MAX;
    for (brink_walk_flight& flight : flights_.span()) {
      uint64_t since = __atomic_load_n(&flight.since_ns, __ATOMIC_ACQUIRE);
      if (since != 0) oldest = std::min(oldest, since);
    }
    return oldest;
  }

  MappedArray<brink_uop> uops;
  MappedArray<brink_walk_page> pages;

 private:
  MappedArray<brink_walk_flight> flights_;
  GracePeriod grace_;
  MappedArray<brink_walk_xlat> buckets_;
  walk::LineTable lines_;
  int processes_fd_ = -1;
};

WalkDefaults WalkDefaultsFor(uint64_t frequency) {
  const uint32_t depth = frequency == 0 ? kWalkDefaultDepth : frequency <= 125 ? 256 : frequency <= 250 ? 128 : kWalkDefaultDepth;
  if (frequency > 250) return {.depth = depth, .share_permille = 5, .wait_permille = 3};
  return {.depth = depth, .share_permille = 20, .wait_permille = 10};
}

WalkSource::WalkSource(const WalkSourceOptions& options) : options_(options) {}

WalkSource::~WalkSource() {
  assist_.reset();
  service_.reset();
  maps_.reset();
  bpf_object__close(object_);
}

StatusOr<std::unique_ptr<WalkSource>> WalkSource::Create(const WalkSourceOptions& options) {
  WalkSourceOptions checked = options;
  if (checked.depth == 0) checked.depth = kWalkDefaultDepth;
  bool task = checked.mode != WalkMode::kInterrupt;
  if (!task && checked.depth > BRINK_WALK_IRQ_DEPTH) {
    return InvalidArgument(absl::StrFormat("--depth %d: a walk inside the sampling event takes at most %d branches", checked.depth, BRINK_WALK_IRQ_DEPTH));
  }
  if (!task && checked.budget_ns > kWalkMaxBudgetNs) return InvalidArgument("--walk-budget: at most 100us, because interrupts are off meanwhile");
  if (checked.budget_ns > kWalkTaskMaxBudgetNs) return InvalidArgument("--walk-budget: at most 10ms");
  if (checked.max_steps == 0) checked.max_steps = std::max(kMinSteps, checked.depth * kStepsPerBranch);
  return std::unique_ptr<WalkSource>(new WalkSource(checked));
}

SourceTraits WalkSource::traits() const {
  return {.name = "walk",
          .id = BRINK_SOURCE_WALK,
          .direction = BRINK_DIR_FUTURE,
          .contiguous = options_.kind_mask == BRINK_WALK_ALL_KINDS,
          .branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_TYPE_SAVE,
          .depth = options_.depth,
          .sampling_events = true,
          .filters_in_bpf = true,
          .user_only = true,
          .max_delay_ns = may_be_task() ? kWalkTaskMaxDelayNs : 0};
}

Status WalkSource::LoadObject(SourceContext& context, const void* elf, size_t size) {
  bpf_object__close(object_);
  object_ = bpf_object__open_mem(elf, size, nullptr);
  if (!object_) return BpfLoadError(errno, "open the walker");
  RETURN_IF_ERROR(context.Share(object_));
  int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return ErrnoError(-cpus, "count CPUs");
  bool deferred = bpf_object__find_map_by_name(object_, "walk_slots") != nullptr;
  uint32_t slots = static_cast<uint32_t>(cpus) * (deferred ? kSlotsPerCpu : 1) + (deferred ? kMoreSlots : 0);
  uint32_t pages = static_cast<uint32_t>(std::clamp<uint64_t>(options_.cache_bytes / kBytesPerPage, 64, 1 << 20));
  uint32_t uops = static_cast<uint32_t>(std::clamp<uint64_t>(options_.cache_bytes / sizeof(brink_uop), 16384, uint64_t{1} << (32 - BRINK_LINK_SHIFT)));
  uint32_t buckets = walk::LineTable::BucketsFor(options_.cache_bytes / kBytesPerLine);
  uint32_t mask = buckets - 1;
  RETURN_IF_ERROR(SetRodata(object_, "walk_xlat_mask", &mask, sizeof mask));
  const std::pair<const char*, uint32_t> sizes[] = {{"walk_pages", pages},
                                                    {"walk_uops", uops},
                                                    {"walk_xlat", buckets},
                                                    {"walk_state", slots},
                                                    {"walk_out", slots},
                                                    {"walk_slots", slots},
                                                    {"walk_assist_rings", static_cast<uint32_t>(cpus)},
                                                    {"walk_flights", slots}};
  for (const auto& [name, entries] : sizes) {
    if (bpf_map* map = bpf_object__find_map_by_name(object_, name)) bpf_map__set_max_entries(map, entries);
  }
  if (deferred) {
    RETURN_IF_ERROR(SetRodata(object_, "walk_slot_count", &slots, sizeof slots));
    brink_walk_assist assist{};
    if (options_.wait_permille != 0 && WalkAssist::Permitted()) assist = WalkAssist::Configuration();
    assist.permille = options_.wait_permille;
    assist.burst_ns = options_.wait_burst_ns;
    RETURN_IF_ERROR(SetRodata(object_, "walk_assist", &assist, sizeof assist));
    assisted_ = assist.lift;
    const bool tried = options_.try_at_once && options_.depth <= BRINK_WALK_IRQ_DEPTH;
    const uint64_t budget = options_.budget_ns ? options_.budget_ns : kWalkTaskDefaultBudgetNs;
    const uint32_t at_once = static_cast<uint32_t>(std::min(budget, kWalkTryBudgetNs));
    const uint32_t try_ns = tried ? at_once - std::min(at_once / 4, kReserveNs / 2) : 0;
    RETURN_IF_ERROR(SetRodata(object_, "walk_first_ns", &try_ns, sizeof try_ns));
  }
  brink_walk_config config{};
  config.depth = options_.depth;
  config.max_steps = options_.max_steps;
  const uint64_t by_depth = options_.depth > kWalkDefaultDepth ? kWalkMaxBudgetNs : kWalkDefaultBudgetNs;
  const uint64_t in_interrupt = options_.interrupt_budget_ns ? options_.interrupt_budget_ns : by_depth;
  config.budget_ns = static_cast<uint32_t>(options_.budget_ns ? options_.budget_ns : deferred ? kWalkTaskDefaultBudgetNs : in_interrupt);
  config.reserve_ns = std::min(config.budget_ns / 4, kReserveNs + kReserveNsPerBranch * options_.depth);
  config.kind_mask = options_.kind_mask;
  config.bucket_permille = options_.share_permille;
  config.bucket_burst_ns = options_.burst_ns;
  tally_.budget_ns = config.budget_ns;
  config_ = config;
  RETURN_IF_ERROR(SetRodata(object_, "walk_config", &config, sizeof(config)));
  uint32_t goes_on = options_.goes_on;
  RETURN_IF_ERROR(SetRodata(object_, "walk_goes_on", &goes_on, sizeof goes_on));
  if (options_.object.configure) RETURN_IF_ERROR(options_.object.configure(object_));
  if (int error = bpf_object__load(object_)) return BpfLoadError(-error, "load the walker");
  return OkStatus();
}

Status WalkSource::LoadInterrupt(SourceContext& context) {
  size_t size = 0;
  const bool own = options_.object.elf == nullptr;
  const void* elf = own ? walk_bpf::elf_bytes(&size) : options_.object.elf(&size);
  if (LoadObject(context, elf, size).ok()) return OkStatus();
  // Older verifiers give up on the vector part: walk without it rather than not at all.
  elf = own ? walk_scalar_bpf::elf_bytes(&size) : options_.object.scalar(&size);
  RETURN_IF_ERROR(LoadObject(context, elf, size));
  scalar_ = true;
  return OkStatus();
}

Status WalkSource::LoadTask(SourceContext& context) {
  size_t size = 0;
  const bool own = options_.object.task == nullptr;
  const void* elf = own ? walk_task_bpf::elf_bytes(&size) : options_.object.task(&size);
  if (LoadObject(context, elf, size).ok()) return OkStatus();
  elf = own ? walk_task_impl_bpf::elf_bytes(&size) : options_.object.task_impl(&size);
  return LoadObject(context, elf, size);
}

Status WalkSource::Load(SourceContext& context) {
  Status loaded = may_be_task() ? LoadTask(context) : LoadInterrupt(context);
  if (!loaded.ok() && options_.depth_is_wish) options_.depth = std::min<uint32_t>(options_.depth, BRINK_WALK_IRQ_DEPTH);
  bool fits = options_.depth <= BRINK_WALK_IRQ_DEPTH && options_.budget_ns <= kWalkMaxBudgetNs;
  if (!loaded.ok() && options_.mode == WalkMode::kPreferTask && fits) {
    notes_.push_back("walks happen in the sampling interrupt, because task mode does not load: " + std::string(loaded.message()));
    loaded = LoadInterrupt(context);
  }
  RETURN_IF_ERROR(loaded);
  maps_ = std::make_unique<Maps>();
  RETURN_IF_ERROR(maps_->Map(object_));
  LiftServiceOptions lift;
  lift.vetting.allow_device = options_.allow_device;
  lift.restore = options_.restore;
  service_ = std::make_unique<LiftService>(maps_->uops.span(), maps_->pages.span(), maps_.get(), lift);
  return OkStatus();
}

bpf_program* WalkSource::program() { return object_ ? bpf_object__find_program_by_name(object_, "brink_walk_on_event") : nullptr; }

Status WalkSource::Start(SourceContext& context) {
  period_ns_ = context.period_ns();
  RETURN_IF_ERROR(service_->Start());
  const bpf_map* rings = bpf_object__find_map_by_name(object_, "walk_assist_rings");
  if (rings && assisted_) {
    auto assist = WalkAssist::Start(rings, [this](std::span<const std::byte> record) { service_->LiftNow(record); });
    if (assist.ok()) assist_ = std::move(*assist);
    else notes_.push_back("walks do not wait for code or registers: " + Message(assist.status()));
  }
  return OkStatus();
}

void WalkSource::OnRecord(std::span<const std::byte> record) {
  brink_rec_header header;
  if (record.size() < sizeof(header)) return;
  std::memcpy(&header, record.data(), sizeof(header));
  if (header.type == BRINK_REC_MISS) service_->Enqueue(record);
}

void WalkSource::OnSample(const brink_sample& sample) { tally_.Add(sample); }

uint64_t WalkSource::OldestUnderWay() { return maps_ ? maps_->OldestUnderWay() : UINT64_MAX; }

void WalkSource::OnProcessChange(pid_t tgid, bool exited) {
  if (exited && service_) service_->Forget(tgid);
}

void WalkSource::Stop() {
  assist_.reset();
  if (service_) service_->Stop();
}

std::vector<StatLine> WalkSource::Report() {
  if (!service_) return {};
  std::vector<std::string> notes = service_->notes();
  notes.insert(notes.end(), notes_.begin(), notes_.end());
  if (scalar_) notes.push_back("this kernel's verifier refuses the vector part: vector code ends a walk");
  return WalkReport(tally_, service_->stats(), AssistSums(), notes, options_.depth, period_ns_);
}

AssistTotals WalkSource::AssistSums() const {
  AssistTotals totals;
  const bpf_map* map = bpf_object__find_map_by_name(object_, "walk_assist_state");
  if (!map) return totals;
  std::vector<brink_assist_state> cpus(static_cast<size_t>(libbpf_num_possible_cpus()));
  const uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(map), &zero, cpus.data())) return totals;
  for (const brink_assist_state& cpu : cpus) {
    for (int kind = 0; kind < BRINK_ASSIST_KINDS; ++kind) {
      totals.asked[kind] += cpu.asked[kind];
      totals.helped[kind] += cpu.helped[kind];
      totals.waited_ns[kind] += cpu.waited_ns[kind];
    }
  }
  return totals;
}

}  // namespace brink
