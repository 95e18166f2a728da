#include "source/walk_source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <absl/strings/str_format.h>

#include "brink/abi/session.h"
#include "brink/abi/walk_state.h"
#include "session/core.h"
#include "walk.skel.h"
#include "walk_scalar.skel.h"

namespace brink {
namespace {

// Shares of the code cache: a page costs 12.6 KB beside about 400 micro-ops of 32 bytes in hot code.
constexpr double kPageShare = 0.5;
// Lines of a page that hold lifted code, at the most in the mean.
constexpr uint32_t kLinesPerPage = 44;
// Steps that a stack may take for each branch asked for; real code needs 5 to 12.
constexpr uint32_t kStepsPerBranch = 128;
constexpr uint32_t kMinSteps = 4096;

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
    lines_fd_ = bpf_object__find_map_fd_by_name(object, "walk_xlat");
    processes_fd_ = bpf_object__find_map_fd_by_name(object, "walk_procs");
    return OkStatus();
  }

  bool PutLine(uint64_t hash, uint32_t slot) override {
    brink_walk_xlat entry{.slot = slot, .reserved = 0};
    return bpf_map_update_elem(lines_fd_, &hash, &entry, BPF_ANY) == 0;
  }
  void RemoveLine(uint64_t hash) override { bpf_map_delete_elem(lines_fd_, &hash); }
  bool PutProcess(uint64_t asid, const brink_walk_proc& proc) override { return bpf_map_update_elem(processes_fd_, &asid, &proc, BPF_ANY) == 0; }
  void RemoveProcess(uint64_t asid) override { bpf_map_delete_elem(processes_fd_, &asid); }
  // Interrupt-mode walks run inside RCU read sections: the system-wide barrier waits for a grace period.
  void WaitForWalks() override { ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0); }

  MappedArray<brink_uop> uops;
  MappedArray<brink_walk_page> pages;

 private:
  int lines_fd_ = -1, processes_fd_ = -1;
};

WalkSource::WalkSource(const WalkSourceOptions& options) : options_(options) {}

WalkSource::~WalkSource() {
  service_.reset();
  maps_.reset();
  bpf_object__close(object_);
}

StatusOr<std::unique_ptr<WalkSource>> WalkSource::Create(const WalkSourceOptions& options) {
  WalkSourceOptions checked = options;
  if (checked.depth == 0) checked.depth = kWalkDefaultDepth;
  if (checked.depth > BRINK_WALK_IRQ_DEPTH) {
    return InvalidArgument(absl::StrFormat("--depth %d: a walk inside the sampling event takes at most %d branches", checked.depth, BRINK_WALK_IRQ_DEPTH));
  }
  if (checked.budget_ns > kWalkMaxBudgetNs) return InvalidArgument("--walk-budget: at most 100us, because interrupts are off meanwhile");
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
          .max_delay_ns = 0};
}

Status WalkSource::LoadObject(SourceContext& context, const void* elf, size_t size) {
  object_ = bpf_object__open_mem(elf, size, nullptr);
  if (!object_) return BpfLoadError(errno, "open the walker");
  RETURN_IF_ERROR(context.Share(object_));
  int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return ErrnoError(-cpus, "count CPUs");
  uint64_t page_bytes = static_cast<uint64_t>(static_cast<double>(options_.cache_bytes) * kPageShare);
  uint32_t pages = static_cast<uint32_t>(std::clamp<uint64_t>(page_bytes / sizeof(brink_walk_page), 64, 1 << 20));
  uint32_t uops = static_cast<uint32_t>(std::clamp<uint64_t>((options_.cache_bytes - page_bytes) / sizeof(brink_uop), 16384, 1 << 26));
  const std::pair<const char*, uint32_t> sizes[] = {{"walk_pages", pages},
                                                    {"walk_uops", uops},
                                                    {"walk_xlat", pages * kLinesPerPage},
                                                    {"walk_state", static_cast<uint32_t>(cpus)},
                                                    {"walk_out", static_cast<uint32_t>(cpus)}};
  for (const auto& [name, entries] : sizes) bpf_map__set_max_entries(bpf_object__find_map_by_name(object_, name), entries);
  brink_walk_config config{};
  config.depth = options_.depth;
  config.max_steps = options_.max_steps;
  config.budget_ns = static_cast<uint32_t>(options_.budget_ns);
  config.kind_mask = options_.kind_mask;
  config.bucket_permille = options_.share_permille;
  config.bucket_burst_ns = 10'000'000;
  RETURN_IF_ERROR(SetRodata(object_, "walk_config", &config, sizeof(config)));
  int error = bpf_object__load(object_);
  return error ? BpfLoadError(-error, "load the walker") : OkStatus();
}

Status WalkSource::Load(SourceContext& context) {
  size_t size = 0;
  const void* elf = walk_bpf::elf_bytes(&size);
  if (!LoadObject(context, elf, size).ok()) {
    // Older verifiers give up on the vector part: walk without it rather than not at all.
    bpf_object__close(object_);
    elf = walk_scalar_bpf::elf_bytes(&size);
    RETURN_IF_ERROR(LoadObject(context, elf, size));
    scalar_ = true;
  }
  maps_ = std::make_unique<Maps>();
  RETURN_IF_ERROR(maps_->Map(object_));
  LiftServiceOptions lift;
  lift.vetting.allow_device = options_.allow_device;
  service_ = std::make_unique<LiftService>(maps_->uops.span(), maps_->pages.span(), maps_.get(), lift);
  return OkStatus();
}

bpf_program* WalkSource::program() { return object_ ? bpf_object__find_program_by_name(object_, "brink_walk_on_event") : nullptr; }

Status WalkSource::Start(SourceContext& context) {
  period_ns_ = context.period_ns();
  service_->Start();
  return OkStatus();
}

void WalkSource::OnRecord(std::span<const std::byte> record) {
  brink_rec_header header;
  if (record.size() < sizeof(header)) return;
  std::memcpy(&header, record.data(), sizeof(header));
  if (header.type == BRINK_REC_MISS) service_->Enqueue(record);
}

void WalkSource::OnSample(const brink_sample& sample) { tally_.Add(sample); }

void WalkSource::OnProcessChange(pid_t tgid, bool exited) {
  if (exited && service_) service_->Forget(tgid);
}

void WalkSource::Stop() {
  if (service_) service_->Stop();
}

std::vector<StatLine> WalkSource::Report() {
  if (!service_) return {};
  std::vector<std::string> notes = service_->notes();
  if (scalar_) notes.push_back("this kernel's verifier refuses the vector part: vector code ends a walk");
  return WalkReport(tally_, service_->stats(), notes, options_.depth, period_ns_);
}

}  // namespace brink
