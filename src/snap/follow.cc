#include "snap/follow.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "base/fd.h"
#include "brink/abi/session.h"
#include "brink/abi/walk.h"
#include "brink/abi/walk_assist.h"
#include "brink/abi/walk_state.h"
#include "snap_follow.skel.h"
#include "snap_follow_impl.skel.h"

namespace brink::snap {
namespace {

constexpr uint8_t kBreakpoint = 0xcc;
// A probe on this nop becomes a call of the kernel's once it has been hit (Linux 6.18).
constexpr uint8_t kNop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00}, kCall = 0xe8;
// Rare events, each asked for: more of a CPU than a profile may take.
constexpr uint32_t kSharePermille = 50, kWaitPermille = 50, kWaitBurstNs = 300'000'000;

}  // namespace

void ProbedPages::Add(const std::string& program, std::span<const Place> places) {
  UniqueFd file(open(program.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return;
  std::map<uint64_t, std::vector<uint64_t>> by_page;
  std::set<uint64_t> seen;
  for (const Place& place : places) {
    if (!seen.insert(place.offset).second) continue;
    const uint64_t page = place.offset / BRINK_WALK_PAGE_SIZE;
    by_page[page].push_back(place.offset);
    // The page before has the head of this one.
    if (page > 0 && place.offset % BRINK_WALK_PAGE_SIZE < BRINK_WALK_TAIL) by_page[page - 1].push_back(place.offset);
  }
  for (auto& [page, offsets] : by_page) {
    Page known;
    known.code.resize(BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL);
    const ssize_t bytes = pread(file.get(), known.code.data(), known.code.size(), static_cast<off_t>(page * BRINK_WALK_PAGE_SIZE));
    if (bytes < BRINK_WALK_PAGE_SIZE) continue;
    known.code.resize(static_cast<size_t>(bytes));
    std::sort(offsets.begin(), offsets.end());
    for (uint64_t offset : offsets) known.probed.push_back(static_cast<uint32_t>(offset - page * BRINK_WALK_PAGE_SIZE));
    pages_.push_back(std::move(known));
  }
}

bool ProbedPages::Restore(std::span<const uint8_t> code, std::vector<uint8_t>* meant) const {
  for (const Page& page : pages_) {
    const size_t size = std::min(code.size(), page.code.size());
    size_t at = 0;
    bool same = true;
    for (uint32_t probed : page.probed) {
      if (probed >= size || !same) break;
      // Behind the head of an optimised probe.
      if (probed < at) continue;
      same = std::equal(code.begin() + static_cast<ptrdiff_t>(at), code.begin() + probed, page.code.begin() + static_cast<ptrdiff_t>(at));
      const bool nop = probed + sizeof(kNop) <= size && std::equal(std::begin(kNop), std::end(kNop), page.code.begin() + probed);
      if (nop && code[probed] == kCall) {
        at = probed + sizeof(kNop);
        continue;
      }
      same = same && (code[probed] == page.code[probed] || code[probed] == kBreakpoint);
      at = probed + 1;
    }
    if (!same || !std::equal(code.begin() + static_cast<ptrdiff_t>(at), code.begin() + static_cast<ptrdiff_t>(size), page.code.begin() + static_cast<ptrdiff_t>(at))) continue;
    meant->assign(code.begin(), code.end());
    std::copy_n(page.code.begin(), size, meant->begin());
    return true;
  }
  return false;
}

std::string WhyNotFollowed(const Trigger& trigger) {
  switch (trigger.kind) {
    case TriggerKind::kExit: return "the process ends here: nothing follows";
    case TriggerKind::kSignal: return trigger.fatal_only ? "the signal ends the process: nothing follows" : "";
    case TriggerKind::kSyscallEnter: return "the thread goes into the kernel first, for as long as it likes: ask for the call's end (syscall:NAME)";
    case TriggerKind::kManual: return "a moment of every CPU has no thread that could be followed";
    case TriggerKind::kFentry: case TriggerKind::kFexit: return "a trampoline's program cannot hand the thread over: ask for it by kprobe or kretprobe";
    default: return "";
  }
}

StatusOr<std::unique_ptr<WalkSource>> MakeFollower(uint32_t depth, const std::vector<TriggerPlan>& plans, std::function<Status(bpf_object*)> configure) {
  auto pages = std::make_shared<ProbedPages>();
  // A page may hold places of several triggers.
  std::map<std::string, std::vector<Place>> by_program;
  for (const TriggerPlan& plan : plans) {
    std::vector<Place>& all = by_program[plan.program];
    all.insert(all.end(), plan.places.begin(), plan.places.end());
  }
  for (const auto& [program, places] : by_program) {
    if (!places.empty()) pages->Add(program, places);
  }
  WalkSourceOptions options;
  options.mode = WalkMode::kTask;
  options.depth = depth;
  options.share_permille = kSharePermille;
  options.wait_permille = kWaitPermille;
  options.wait_burst_ns = kWaitBurstNs;
  options.object.task = snap_follow_bpf::elf_bytes;
  options.object.task_impl = snap_follow_impl_bpf::elf_bytes;
  options.object.configure = std::move(configure);
  if (!pages->empty()) options.restore = [pages](std::span<const uint8_t> code, std::vector<uint8_t>* meant) { return pages->Restore(code, meant); };
  return WalkSource::Create(options);
}

Status ConfigureFollower(bpf_object* object, std::span<const std::unique_ptr<TriggerObject>> triggers) {
  std::set<std::string> wanted;
  for (const auto& trigger : triggers) {
    if (const char* name = trigger->FollowerName()) wanted.insert(name);
  }
  bpf_program* program;
  bpf_object__for_each_program(program, object) {
    const std::string name = bpf_program__name(program);
    bpf_program__set_autoload(program, wanted.contains(name));
    if (name == "snap_follow_umulti") bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(kTraceUprobeMulti));
  }
  const bpf_map* slots = bpf_object__find_map_by_name(object, "walk_slots");
  bpf_map* from = bpf_object__find_map_by_name(object, "snap_follow_from");
  if (!slots || !from) return Internal("the follower's object lacks its maps");
  if (int error = bpf_map__set_max_entries(from, bpf_map__max_entries(slots))) return ErrnoError(-error, "size the follower's slots");
  return OkStatus();
}

}  // namespace brink::snap
