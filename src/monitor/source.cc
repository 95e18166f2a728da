#include "monitor/source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/thread.h"
#include "brink/abi/snapshot.h"
#include "cfi.skel.h"
#include "cfi_lsm.skel.h"
#include "cfi_lsm_scalar.skel.h"
#include "cfi/facts.h"
#include "cfi_scalar.skel.h"
#include "session/core.h"
#include "snap/syscalls.h"
#include "snapshot/prime.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostWarmPages = 1500, kMostWarmFiles = 1000;
constexpr size_t kMostCallHooks = 64;  // the end of each takes the kernel tens of milliseconds
constexpr uint64_t kRefreshNs = 1'000'000'000;  // of held events: CPUs come and go

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
  const auto code = facts.Code(start, end - start), call = SystemCallCode(facts.machine());
  for (auto at = code.begin(); (at = std::search(at, code.end(), call.begin(), call.end())) != code.end(); ++at) {
    const uint64_t address = start + static_cast<uint64_t>(at - code.begin());
    if (at - code.begin() + static_cast<ptrdiff_t>(call.size()) < static_cast<ptrdiff_t>(code.size()) && facts.IsBoundary(address) == Known::kYes) ways.push_back(address + call.size());
  }
  return ways;
}

// The kernel's name for a call in its tracepoints; "" where there is none.
std::string TracepointOfCall(uint32_t nr) {
  static constexpr std::pair<std::string_view, const char*> kOthers[] = {{"umount2", "umount"}, {"stat", "newstat"}, {"fstat", "newfstat"}, {"lstat", "newlstat"}, {"uname", "newuname"}, {"sendfile", "sendfile64"}};
  std::string name = snap::SyscallName(static_cast<int>(nr));
  for (const auto& [call, other] : kOthers) {
    if (name == call) name = other;
  }
  for (const char* folder : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    if (access((std::string(folder) + "/events/syscalls/sys_enter_" + name).c_str(), F_OK) == 0) return name;
  }
  return "";
}

// Calls that a kernel may have been built without; then nobody can make them.
bool IsOptional(std::string_view call) {
  for (std::string_view name : {"init_module", "finit_module", "delete_module", "kexec_load", "userfaultfd", "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter"}) {
    if (call == name) return true;
  }
  return false;
}

const char* const kPrograms[] = {"cfi_sys_enter", "cfi_sys_exit", "cfi_call_enter", "cfi_call_exit", "cfi_signal", "cfi_switch", "cfi_exec", "cfi_fork", "cfi_prime", "brink_walk_on_event"};

}  // namespace

StatusOr<std::unique_ptr<CheckSource>> CheckSource::Create(CheckRequest request) {
  std::unique_ptr<CheckSource> source(new CheckSource);
  if (request.depth == 0 || request.depth > BRINK_CFI_DEPTH) return InvalidArgument(absl::StrFormat("--depth: 1 to %d", BRINK_CFI_DEPTH));
  source->request_ = std::move(request);
  RETURN_IF_ERROR(source->HoldHardware());
  RETURN_IF_ERROR(source->ChooseCheckPoints());
  WalkSourceOptions walk;
  walk.depth = source->request_.depth;
  walk.budget_ns = source->request_.budget_ns;
  walk.share_permille = source->request_.share_permille;
  walk.cache_bytes = source->request_.cache_bytes;
  walk.object = {.elf = cfi_bpf::elf_bytes, .scalar = cfi_scalar_bpf::elf_bytes, .configure = [s = source.get()](bpf_object* object) { return s->Configure(object); }};
  ASSIGN_OR_RETURN(source->walk_, WalkSource::Create(walk));
  return source;
}

// Which depends on what entries are judged by.
Status CheckSource::ChooseCheckPoints() {
  RETURN_IF_ERROR(ChooseCalls(request_.set, request_.calls, held_ ? Entries::kRecorded : Entries::kWalked, &hooked_));
  if (!request_.attach_only) std::copy(std::begin(hooked_.call), std::end(hooked_.call), request_.config.call);
  return ChooseHook();
}

Status CheckSource::ChooseHook() {
  if (request_.hook == Hook::kRaw) return OkStatus();
  std::string missing;
  for (uint32_t nr = 0; nr < BRINK_CFI_CALLS; ++nr) {
    if (!(hooked_.call[nr] & (BRINK_CFI_AT_ENTER | BRINK_CFI_AT_EXIT))) continue;
    const std::string name = TracepointOfCall(nr);
    if (name.empty() && IsOptional(snap::SyscallName(static_cast<int>(nr)))) continue;
    if (name.empty()) missing = snap::SyscallName(static_cast<int>(nr));
    if (hooked_.call[nr] & BRINK_CFI_AT_ENTER) enters_.push_back("sys_enter_" + name);
    if (hooked_.call[nr] & BRINK_CFI_AT_EXIT) exits_.push_back("sys_exit_" + name);
  }
  if (request_.hook == Hook::kCalls && !missing.empty()) return NotFound("--hook calls: the kernel has no tracepoint for " + missing + " (or tracefs is not mounted)");
  if (missing.empty() && (request_.hook == Hook::kCalls || request_.stays || enters_.size() + exits_.size() <= kMostCallHooks)) return OkStatus();
  enters_.clear();
  exits_.clear();
  return OkStatus();
}

Status CheckSource::AttachCalls(const bpf_program* program, const char* side) {
  for (const std::string& name : side == std::string_view("enter") ? enters_ : exits_) {
    bpf_link* link = bpf_program__attach_tracepoint(program, "syscalls", name.c_str());
    if (!link) return ErrnoError(errno, "attach to syscalls:" + name);
    links_.push_back(link);
  }
  return OkStatus();
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

// Then what enters handlers, and what begins in none, must be known.
bool CheckSource::WatchesSigreturn() const {
  return std::any_of(std::begin(hooked_.call), std::end(hooked_.call), [](uint8_t how) { return how & BRINK_CFI_SIGRETURN; });
}

Status CheckSource::Configure(bpf_object* object) const {
  RETURN_IF_ERROR(SetRodata(object, "cfi_config", &request_.config, sizeof request_.config));
  auto wanted = [&](std::string_view name) {
    if (name == "cfi_signal") return request_.signals || WatchesSigreturn();
    if (name == "cfi_switch") return request_.switches;
    if (name == "cfi_prime") return held_.has_value();
    if (name == "cfi_exec") return held_.has_value() || WatchesSigreturn();
    if (name == "cfi_fork") return WatchesSigreturn();
    if (name == "cfi_call_enter") return !enters_.empty();
    if (name == "cfi_call_exit") return !exits_.empty();
    if (name == "cfi_sys_enter" || name == "cfi_sys_exit") {
      const uint8_t side = name == "cfi_sys_enter" ? BRINK_CFI_AT_ENTER : BRINK_CFI_AT_EXIT;
      return !by_calls() && std::any_of(std::begin(hooked_.call), std::end(hooked_.call), [side](uint8_t how) { return how & side; });
    }
    return name == "brink_walk_on_event" ? request_.samples : true;
  };
  for (const char* name : kPrograms) {
    if (bpf_program* program = bpf_object__find_program_by_name(object, name)) bpf_program__set_autoload(program, wanted(name));
  }
  return OkStatus();
}

// Held by user branches only: then neither the kernel's own way to the check nor other programs burn any.
Status CheckSource::HoldHardware() {
  if (request_.history == History::kWalk) return OkStatus();
  auto held = HeldEvents::Open(HeldFlags(TriggerSide::kUser));
  if (!held.ok()) return request_.history == History::kLbr ? held.status() : OkStatus();
  held_.emplace(std::move(*held));
  request_.config.flags |= BRINK_CFI_CFG_SNAPSHOT;
  return OkStatus();
}

void CheckSource::OnTick(uint64_t now_ns) {
  walk_->OnTick(now_ns);
  if (!held_ || now_ns < next_refresh_ns_) return;
  next_refresh_ns_ = now_ns + kRefreshNs;
  (void)held_->Refresh();
}

Status CheckSource::Load(SourceContext& context) {
  RETURN_IF_ERROR(walk_->Load(context));
  if (held_) {
    if (const bpf_program* prime = bpf_object__find_program_by_name(walk_->object(), "cfi_prime")) PrimeSnapshots(prime, held_->cpus());
  }
  Warm();
  return request_.config.deny ? LoadLsm(context) : OkStatus();
}

// The programs of the security hooks share every map with the others; what they are told is the same.
Status CheckSource::LoadLsm(SourceContext& context) {
  Status status;
  for (auto elf : {cfi_lsm_bpf::elf_bytes, cfi_lsm_scalar_bpf::elf_bytes}) {
    size_t size = 0;
    bpf_object__close(lsm_);
    const void* bytes = elf(&size);
    lsm_ = bpf_object__open_mem(bytes, size, nullptr);
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
    if (!WarmOne(path)) return;
  }
}

void CheckSource::WarmFile(const std::string& path) {
  struct stat info = {};
  MutexLock lock(mutex_);
  if (!request_.warm_later || known_.size() > kMostWarmFiles || !known_.insert(path).second) return;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  waiting_.emplace(static_cast<uint64_t>(info.st_size), path);
  wake_.NotifyOne();
}

void CheckSource::WarmLoop() {
  while (true) {
    std::string path;
    {
      MutexLock lock(mutex_);
      while (!stop_ && waiting_.empty()) wake_.Wait(mutex_);
      if (stop_) return;
      path = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    if (!WarmOne(path)) return;
  }
}

// False: nothing more has room.
bool CheckSource::WarmOne(const std::string& path) {
  auto file = elf::File::Open(path);
  auto facts = file.ok() ? Facts::Load(*file) : StatusOr<Facts>(file.status());
  if (!facts.ok()) return true;
  const uint64_t object = ++number_ << 48 | 1;
  for (const elf::Segment& segment : file->segments()) {
    if (!segment.load() || !segment.executable()) continue;
    const uint64_t last = segment.offset + segment.file_size;
    for (uint64_t page = segment.offset & ~uint64_t{4095}; page < last; page += 4096) {
      if (warmed_ >= kMostWarmPages) return false;
      const uint64_t vaddr = segment.vaddr - segment.offset + page;
      std::string code(4096 + BRINK_WALK_TAIL, '\0');
      auto bytes = file->ReadRange(page, std::min<uint64_t>(code.size(), file->size() - page));
      if (!bytes.ok()) continue;
      std::memcpy(code.data(), bytes->data(), bytes->size());
      const std::span<const uint8_t> bytes_of_page(reinterpret_cast<const uint8_t*>(code.data()), code.size());
      if (!walk_->Warm(bytes_of_page, WaysIn(*facts, std::max(vaddr, segment.vaddr), vaddr + 4096), object)) return false;
      ++warmed_;
      MutexLock lock(mutex_);
      if (stop_) return false;
    }
  }
  return true;
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
      if (!bpf_program__autoload(program) || bpf_program__type(program) == BPF_PROG_TYPE_PERF_EVENT || bpf_program__name(program) == std::string_view("cfi_prime")) continue;
      if (bpf_program__type(program) == BPF_PROG_TYPE_TRACEPOINT) {
        RETURN_IF_ERROR(AttachCalls(program, bpf_program__name(program) == std::string_view("cfi_call_enter") ? "enter" : "exit"));
        continue;
      }
      // In the order of cfi.bpf.c: signals are counted before a thread is known to be in no handler (execs, forks).
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
  // The first word of a CPU's place for threads' turns: calls that were passed over. They would have been checks.
  const int turns = bpf_object__find_map_fd_by_name(walk_->object(), "cfi_turns");
  const uint32_t zero = 0, value_size = turns >= 0 ? bpf_map__value_size(bpf_object__find_map_by_name(walk_->object(), "cfi_turns")) : 0;
  std::vector<uint64_t> places(static_cast<size_t>(cpus) * value_size / 8);
  if (value_size && bpf_map_lookup_elem(turns, &zero, places.data()) == 0) {
    for (size_t at = 0; at < places.size(); at += value_size / 8) {
      sums[BRINK_CFI_CNT_CHECKS] += places[at];
      sums[BRINK_CFI_CNT_THROTTLED] += places[at];
    }
  }
  return sums;
}

std::vector<StatLine> CheckSource::Report() { return walk_->Report(); }

}  // namespace brink::cfi
