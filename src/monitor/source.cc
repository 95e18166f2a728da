#include "monitor/source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <absl/strings/str_format.h>

#include "cfi.skel.h"
#include "cfi/facts.h"
#include "cfi_scalar.skel.h"
#include "session/core.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostWarmPages = 1500;

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

CheckSource::~CheckSource() { Stop(); }

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
  return OkStatus();
}

bpf_program* CheckSource::program() { return request_.samples ? walk_->program() : nullptr; }

// What a check needs next is not known yet: whole files, as far as there is room.
void CheckSource::Warm() {
  uint64_t number = 1;
  for (const std::string& path : request_.warm) {
    auto file = elf::File::Open(path);
    auto facts = file.ok() ? Facts::Load(*file) : StatusOr<Facts>(file.status());
    if (!facts.ok()) continue;
    ++number;
    for (const elf::Segment& segment : file->segments()) {
      if (!segment.load() || !segment.executable()) continue;
      const uint64_t last = segment.offset + segment.file_size;
      for (uint64_t page = segment.offset & ~uint64_t{4095}; page < last && warmed_ < kMostWarmPages; page += 4096) {
        const uint64_t vaddr = segment.vaddr - segment.offset + page;
        uint64_t at = std::max(vaddr, segment.vaddr);
        const uint64_t end = vaddr + 4096;
        while (at < end && facts->IsBoundary(at) != Known::kYes) ++at;
        if (at >= end) continue;
        std::string code(4096 + 64, '\0');
        auto bytes = file->ReadRange(page, std::min<uint64_t>(code.size(), file->size() - page));
        if (!bytes.ok()) continue;
        std::memcpy(code.data(), bytes->data(), bytes->size());
        walk_->Warm({reinterpret_cast<const uint8_t*>(code.data()), code.size()}, at, number << 48 | 1);
        ++warmed_;
      }
    }
  }
}

Status CheckSource::Start(SourceContext& context) {
  RETURN_IF_ERROR(walk_->Start(context));
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, walk_->object()) {
    if (!bpf_program__autoload(program) || bpf_program__type(program) == BPF_PROG_TYPE_PERF_EVENT) continue;
    bpf_link* link = bpf_program__attach(program);
    if (!link) return ErrnoError(errno, std::string("attach ") + bpf_program__name(program));
    links_.push_back(link);
  }
  return OkStatus();
}

void CheckSource::Stop() {
  for (bpf_link* link : links_) bpf_link__destroy(link);
  links_.clear();
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
