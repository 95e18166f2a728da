#include "monitor/source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/thread.h"
#include "cfi.skel.h"
#include "cfi_lsm.skel.h"
#include "cfi_lsm_scalar.skel.h"
#include "cfi/facts.h"
#include "cfi_scalar.skel.h"
#include "session/core.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostWarmPages = 1500;

// Where a walk may come into a page: at functions, and behind system calls, where checks begin.
std::vector<uint64_t> WaysIn(Facts& facts, uint64_t start, uint64_t end) {
  std::vector<uint64_t> ways;
  for (uint64_t at = start; at < end && at < start + decode::kMaxInsnBytes; ++at) {
    if (facts.IsBoundary(at) != Known::kYes) continue;
    ways.push_back(at);
    break;
  }
  const auto& functions = facts.functions();
  auto it = std::lower_bound(functions.begin(), functions.end(), start, [](const Function& f, uint64_t a) { return f.start < a; });
  for (; it != functions.end() && it->start < end; ++it) ways.push_back(it->start);
  const auto code = facts.Code(start, end - start);
  for (size_t i = 0; i + 2 < code.size(); ++i) {
    if (code[i] == 0x0f && code[i + 1] == 0x05 && facts.IsBoundary(start + i) == Known::kYes) ways.push_back(start + i + 2);
  }
  return ways;
}

const char* const kPrograms[] = {"cfi_sys_enter", "cfi_sys_exit", "cfi_signal", "cfi_switch", "brink_walk_on_event"};

}  // namespace

StatusOr<std::unique_ptr<CheckSource>> CheckSource::Create(CheckRequest request) {
  std::unique_ptr<CheckSource> source(new CheckSource);
  if (request.depth == 0 || request.depth > BRINK_CFI_DEPTH) return InvalidArgument(absl::StrFormat("--depth: 1 to %d", BRINK_CFI_DEPTH));
  if (!request.attach_only) RETURN_IF_ERROR(ChooseCalls(request.set, request.calls, &request.config));
  source->request_ = std::move(request);
  WalkSourceOptions walk;
  walk.depth = source->request_.depth;
  walk.budget_ns = source->request_.budget_ns;
  walk.share_permille = source->request_.share_permille;
  walk.cache_bytes = source->request_.cache_bytes;
  walk.object = {.elf = cfi_bpf::elf_bytes, .scalar = cfi_scalar_bpf::elf_bytes, .configure = [s = source.get()](bpf_object* object) { return s->Configure(object); }};
  ASSIGN_OR_RETURN(source->walk_, WalkSource::Create(walk));
  return source;
}

CheckSource::~CheckSource() {
  Stop();
  bpf_object__close(lsm_);
}

SourceTraits CheckSource::traits() const {
  SourceTraits traits = walk_->traits();
  traits.name = "cfi";
  traits.sampling_events = request_.samples;
  traits.filters_in_bpf = false;
  return traits;
}

Status CheckSource::Configure(bpf_object* object) const {
  RETURN_IF_ERROR(SetRodata(object, "cfi_config", &request_.config, sizeof request_.config));
  auto wanted = [&](std::string_view name) {
    if (name == "cfi_signal") return request_.signals;
    if (name == "cfi_switch") return request_.switches;
    return name == "brink_walk_on_event" ? request_.samples : true;
  };
  for (const char* name : kPrograms) {
    if (bpf_program* program = bpf_object__find_program_by_name(object, name)) bpf_program__set_autoload(program, wanted(name));
  }
  return OkStatus();
}

Status CheckSource::Load(SourceContext& context) {
  RETURN_IF_ERROR(walk_->Load(context));
  Warm();
  return request_.config.deny ? LoadLsm(context) : OkStatus();
}

// The programs of the security hooks share every map with the others; what they are told is the same.
Status CheckSource::LoadLsm(SourceContext& context) {
  Status status;
  for (auto elf : {cfi_lsm_bpf::elf_bytes, cfi_lsm_scalar_bpf::elf_bytes}) {
    size_t size = 0;
    bpf_object__close(lsm_);
    lsm_ = bpf_object__open_mem(elf(&size), size, nullptr);
    if (!lsm_) return BpfLoadError(errno, "open the programs of the security hooks");
    RETURN_IF_ERROR(context.Share(lsm_));
    RETURN_IF_ERROR(SetRodata(lsm_, "cfi_config", &request_.config, sizeof request_.config));
    brink_walk_config walk = walk_->walk_config();
    RETURN_IF_ERROR(SetRodata(lsm_, "walk_config", &walk, sizeof walk));
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, lsm_) {
      const char* name = bpf_map__name(map);
      if (bpf_map__is_internal(map)) continue;
      const int fd = bpf_object__find_map_fd_by_name(walk_->object(), name);
      if (fd >= 0) bpf_map__reuse_fd(map, fd);
    }
    const int error = bpf_object__load(lsm_);
    if (!error) return OkStatus();
    status = BpfLoadError(-error, "--deny needs BPF LSM (CONFIG_BPF_LSM, and bpf in /sys/kernel/security/lsm)");
  }
  return status;
}

bpf_program* CheckSource::program() { return request_.samples ? walk_->program() : nullptr; }

// What a check needs next is not known yet: whole files, as far as there is room.
void CheckSource::Warm() {
  for (const std::string& path : request_.warm) {
    {
      MutexLock lock(mutex_);
      if (!known_.insert(path).second) continue;
    }
    WarmOne(path, false);
  }
}

void CheckSource::WarmFile(const std::string& path) {
  MutexLock lock(mutex_);
  if (!request_.warm_later || known_.size() > kMostWarmPages || !known_.insert(path).second) return;
  waiting_.push_back(path);
  wake_.NotifyOne();
}

void CheckSource::WarmLoop() {
  while (true) {
    std::string path;
    {
      MutexLock lock(mutex_);
      while (!stop_ && waiting_.empty()) wake_.Wait(mutex_);
      if (stop_) return;
      path = std::move(waiting_.front());
      waiting_.pop_front();
    }
    WarmOne(path, true);
  }
}

void CheckSource::WarmOne(const std::string& path, bool running) {
  auto file = elf::File::Open(path);
  auto facts = file.ok() ? Facts::Load(*file) : StatusOr<Facts>(file.status());
  if (!facts.ok()) return;
  const uint64_t object = ++number_ << 48 | 1;
  for (const elf::Segment& segment : file->segments()) {
    if (!segment.load() || !segment.executable()) continue;
    const uint64_t last = segment.offset + segment.file_size;
    for (uint64_t page = segment.offset & ~uint64_t{4095}; page < last && warmed_ < kMostWarmPages; page += 4096) {
      const uint64_t vaddr = segment.vaddr - segment.offset + page;
      std::string code(4096 + 64, '\0');
      auto bytes = file->ReadRange(page, std::min<uint64_t>(code.size(), file->size() - page));
      if (!bytes.ok()) continue;
      std::memcpy(code.data(), bytes->data(), bytes->size());
      const std::span<const uint8_t> bytes_of_page(reinterpret_cast<const uint8_t*>(code.data()), code.size());
      for (uint64_t at : WaysIn(*facts, std::max(vaddr, segment.vaddr), vaddr + 4096)) walk_->Warm(bytes_of_page, at, object, running);
      ++warmed_;
      // The service's queue is for what is missed now.
      if (running) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

Status CheckSource::Start(SourceContext& context) {
  RETURN_IF_ERROR(walk_->Start(context));
  if (request_.warm_later) {
    ASSIGN_OR_RETURN(warmer_, StartThread("the thread that lifts ahead", [this] { WarmLoop(); }));
  }
  for (bpf_object* object : {walk_->object(), lsm_}) {
    bpf_program* program = nullptr;
    if (!object) continue;
    bpf_object__for_each_program(program, object) {
      if (!bpf_program__autoload(program) || bpf_program__type(program) == BPF_PROG_TYPE_PERF_EVENT) continue;
      bpf_link* link = bpf_program__attach(program);
      if (!link) return ErrnoError(errno, std::string("attach ") + bpf_program__name(program));
      links_.push_back(link);
    }
  }
  return OkStatus();
}

void CheckSource::Stop() {
  for (bpf_link* link : links_) bpf_link__destroy(link);
  links_.clear();
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  if (warmer_.joinable()) warmer_.join();
  if (walk_) walk_->Stop();
}

CheckCounts CheckSource::counts() const {
  CheckCounts sums = {};
  const int cpus = libbpf_num_possible_cpus();
  const int fd = walk_->object() ? bpf_object__find_map_fd_by_name(walk_->object(), "cfi_counts") : -1;
  if (cpus <= 0 || fd < 0) return sums;
  std::vector<uint64_t> cells(static_cast<size_t>(cpus));
  for (uint32_t i = 0; i < BRINK_CFI_CNT_MAX; ++i) {
    if (bpf_map_lookup_elem(fd, &i, cells.data()) != 0) continue;
    for (uint64_t cell : cells) sums[i] += cell;
  }
  return sums;
}

std::vector<StatLine> CheckSource::Report() { return walk_->Report(); }

}  // namespace brink::cfi
