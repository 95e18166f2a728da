#include "snap/capture.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "base/stop.h"
#include "snap/foreign.h"
#include "snapshot/capture_path.h"

namespace brink::snap {

std::optional<SnapView> ViewSnap(const SampleView& sample) {
  const size_t behind = sizeof(brink_sample) + sample.branches.size_bytes() + sample.chain.size_bytes();
  // All but the stack, whose words end it.
  constexpr size_t kFixed = offsetof(brink_snap, stack);
  if (sample.head->header.size < behind + kFixed) return std::nullopt;
  const auto* at = reinterpret_cast<const std::byte*>(sample.head) + behind;
  size_t left = sample.head->header.size - behind - kFixed;
  SnapView view;
  view.context = {};
  std::memcpy(&view.context, at, kFixed);
  if (view.context.magic != BRINK_SNAP_MAGIC) return std::nullopt;
  at += kFixed;
  view.context.stack_words = std::min<uint64_t>({view.context.stack_words, BRINK_SNAP_STACK, left / sizeof(uint64_t)});
  const size_t stack = view.context.stack_words * sizeof(uint64_t);
  std::memcpy(view.context.stack, at, stack);
  at += stack;
  left -= stack;
  auto take = [&](size_t count, std::vector<brink_snap_event>* events) {
    count = std::min(count, left / sizeof(brink_snap_event));
    events->resize(count);
    if (count) std::memcpy(events->data(), at, count * sizeof(brink_snap_event));
    at += count * sizeof(brink_snap_event);
    left -= count * sizeof(brink_snap_event);
  };
  take(view.context.history, &view.cpu_history);
  take(view.context.task_history, &view.task_history);
  view.left.resize(std::min<size_t>(left / sizeof(BranchEntry), BRINK_MAX_HW_BRANCHES));
  if (!view.left.empty()) std::memcpy(view.left.data(), at, view.left.size() * sizeof(BranchEntry));
  // An empty entry is the end, and above 33 bits the driver's own stand.
  view.left.erase(std::find_if(view.left.begin(), view.left.end(), [](const BranchEntry& entry) { return !entry.from && !entry.to; }), view.left.end());
  for (BranchEntry& entry : view.left) entry.info &= BranchEntry::kInfoMask;
  return view;
}

CaptureNamer::CaptureNamer(SnapSource& source, std::string runtime_root)
    : source_(source), containers_({.runtime_root = std::move(runtime_root), .hierarchy = source.hierarchy()}) {
  // Groups that are there now may be gone when their first capture is named; later ones are told by the kernel.
  for (const CgroupFolder& folder : ListCgroups(source.hierarchy(), "/")) containers_.Learn(folder.id, folder.path);
}

void CaptureNamer::Observe(const PerfRecordView& view) {
  names_.Observe(view, [&](const perfdata::Cgroup& cgroup) {
    if (source_.hierarchy().v2()) containers_.Learn(cgroup.id, cgroup.path);
  });
}

void CaptureNamer::LearnGroups() {
  for (const auto& [id, path] : source_.TakeNewGroups()) containers_.Learn(id, path);
}

std::string CaptureNamer::GroupPath(uint64_t id) {
  LearnGroups();
  return containers_.ById(id).path;
}

namespace {

// The innermost frames of the kernel are the way to our own program.
void DropOwnFrames(std::vector<NamedAddress>* chain) {
  auto own = [](const NamedAddress& at) { return at.symbol.starts_with("bpf_prog_") || at.object.starts_with("bpf_") || IsHookGlue(at.symbol); };
  chain->erase(chain->begin(), std::find_if_not(chain->begin(), chain->end(), own));
}

}  // namespace

Capture CaptureNamer::Name(const SampleView& sample, const SnapView& view, bool lines) {
  Capture capture;
  const int32_t pid = static_cast<int32_t>(sample.head->tgid);
  capture.head = *sample.head;
  capture.context = view.context;
  capture.comm.assign(view.context.comm, strnlen(view.context.comm, sizeof(view.context.comm)));
  const std::vector<ShownTrigger>& shown = source_.shown();
  capture.trigger = &shown[std::min<size_t>(sample.head->event, shown.size() - 1)];
  for (size_t i = 0; i < capture.trigger->values.size(); ++i) {
    // The register's upper half means nothing for an int: the value was read with its own size.
    if (capture.trigger->values[i].name == "ret" && view.context.known >> i & 1) capture.context.ret = static_cast<int64_t>(view.context.value[i]);
  }
  LearnGroups();
  capture.container = containers_.ById(view.context.container_id);
  capture.place = names_.NameOf(pid, sample.head->ip, lines, false);
  NameOwnBranches(sample, view, lines, &capture);
  capture.no_branches = view.context.snapshot_error ? "snapshot: " + std::string(strerror(-view.context.snapshot_error)) : source_.no_branches();
  std::vector<NamedAddress>* chain = nullptr;
  bool leaf = true;
  for (uint64_t address : sample.chain) {
    if (address >= static_cast<uint64_t>(PERF_CONTEXT_MAX)) {
      chain = address == static_cast<uint64_t>(PERF_CONTEXT_USER) ? &capture.user_chain : address == static_cast<uint64_t>(PERF_CONTEXT_KERNEL) ? &capture.kernel_chain : nullptr;
      leaf = true;
      continue;
    }
    if (chain) chain->push_back(names_.NameOf(pid, address, lines, !leaf));
    leaf = false;
  }
  DropOwnFrames(&capture.kernel_chain);
  CutBrokenChain(pid, &capture.user_chain);
  if (view.context.flags & BRINK_SNAP_HAS_SIGNAL) AddGuesses(pid, view.context, lines, &capture.user_chain);
  else AddCaller(pid, capture, lines, &capture.user_chain);
  capture.cpu_history = view.cpu_history;
  capture.task_history = view.task_history;
  return capture;
}

void CaptureNamer::NameBranches(int32_t pid, std::span<const BranchEntry> entries, bool lines, std::vector<NamedBranch>* branches) {
  for (const BranchEntry& entry : entries) {
    branches->push_back({.from = names_.NameOf(pid, entry.from, lines, false), .to = names_.NameOf(pid, entry.to, lines, false), .kind = entry.kind(),
                         .prediction = entry.prediction(), .cycles = entry.cycles()});
  }
}

void CaptureNamer::NameOwnBranches(const SampleView& sample, const SnapView& view, bool lines, Capture* capture) {
  const int32_t pid = static_cast<int32_t>(sample.head->tgid);
  // Of a process whose mappings nobody has told every address would be another's.
  if (!names_.Knows(pid)) return NameBranches(pid, sample.branches, lines, &capture->branches);
  const OwnBranches own = TellOwnBranches(sample.branches, view.left, [&](uint64_t address) { return names_.MappingAt(pid, address) != nullptr; });
  NameBranches(pid, own.entries, lines, &capture->branches);
  for (size_t i = 0; i < own.entries.size(); ++i) capture->branches[i].foreign = own.foreign[i];
  capture->left_at = own.left_at;
}

bool IsFollowUp(const brink_sample& head) { return head.direction == BRINK_DIR_FUTURE; }

bool Follows(const brink_sample& head, const brink_sample& capture) {
  return IsFollowUp(head) && head.time_ns == capture.time_ns && head.tid == capture.tid && head.event == capture.event;
}

void CaptureNamer::AddFollowUp(const SampleView* follow, bool lines, Capture* capture) {
  capture->future = true;
  capture->no_branches.clear();
  if (follow) {
    NameBranches(static_cast<int32_t>(follow->head->tgid), follow->branches, lines, &capture->branches);
    capture->stop = std::string(StopReasonName(follow->head->stop));
  }
  if (capture->branches.empty()) capture->no_branches = follow ? "what follows was not walked: " + capture->stop : source_.WhyNoFollowUp(capture->head.event);
}

// Frame pointers lead astray in code that has none: a chain ends where it leaves executable mappings.
void CaptureNamer::CutBrokenChain(int32_t pid, std::vector<NamedAddress>* chain) const {
  for (size_t i = 1; i < chain->size(); ++i) {
    const symbol::Mapping* mapping = names_.MappingAt(pid, (*chain)[i].address);
    if (mapping && mapping->executable) continue;
    chain->resize(i);
    return;
  }
}

// What frame pointers cannot tell: return addresses on the stack, which may be old ones. Those behind the place where
// the chain goes on are left out.
void CaptureNamer::AddGuesses(int32_t pid, const brink_snap& context, bool lines, std::vector<NamedAddress>* chain) {
  constexpr size_t kMostGuesses = 16;
  std::vector<NamedAddress> guesses;
  bool joins = false;
  for (size_t i = 0; i < std::min<uint64_t>(context.stack_words, BRINK_SNAP_STACK) && guesses.size() < kMostGuesses; ++i) {
    const uint64_t word = context.stack[i];
    const symbol::Mapping* mapping = names_.MappingAt(pid, word);
    if (!mapping || !mapping->executable || !names_.FollowsCall(pid, word)) continue;
    joins = chain->size() > 1 && (*chain)[1].address == word;
    if (joins) break;
    NamedAddress guess = names_.NameOf(pid, word, lines, true);
    guess.guessed = true;
    if (!guess.symbol.empty()) guesses.push_back(std::move(guess));
  }
  chain->insert(chain->begin() + (chain->empty() ? 0 : 1), guesses.begin(), guesses.end());
}

// Frame pointers skip the caller of a function that has not made its frame, or never does: at a function's entry and in
// the C library's wrappers of system calls its return address is on top of the stack.
void CaptureNamer::AddCaller(int32_t pid, const Capture& capture, bool lines, std::vector<NamedAddress>* chain) {
  const TriggerKind kind = capture.trigger->trigger.kind;
  const bool entry = kind == TriggerKind::kUprobe && capture.place.offset == 0;
  const bool call = kind == TriggerKind::kSyscallEnter || kind == TriggerKind::kSyscallExit;
  const uint64_t word = capture.context.stack_word;
  if (!(entry || call) || !(capture.context.flags & BRINK_SNAP_HAS_STACK_WORD) || chain->empty()) return;
  if (chain->size() > 1 && (*chain)[1].address == word) return;
  const symbol::Mapping* mapping = names_.MappingAt(pid, word);
  if (!mapping || !mapping->executable || !names_.FollowsCall(pid, word)) return;
  NamedAddress caller = names_.NameOf(pid, word, lines, true);
  caller.guessed = !entry;
  chain->insert(chain->begin() + 1, std::move(caller));
}

std::string SignalCodeName(int signal, int code) {
  struct Code {
    int signal, code;
    const char* name;
  };
  static constexpr Code kCodes[] = {
      {0, SI_USER, "SI_USER"}, {0, SI_KERNEL, "SI_KERNEL"}, {0, SI_QUEUE, "SI_QUEUE"}, {0, SI_TKILL, "SI_TKILL"}, {0, SI_TIMER, "SI_TIMER"},
      {SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR"}, {SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR"}, {SIGSEGV, 3, "SEGV_BNDERR"}, {SIGSEGV, 4, "SEGV_PKUERR"},
      {SIGBUS, BUS_ADRALN, "BUS_ADRALN"}, {SIGBUS, BUS_ADRERR, "BUS_ADRERR"}, {SIGBUS, BUS_OBJERR, "BUS_OBJERR"},
      {SIGILL, ILL_ILLOPC, "ILL_ILLOPC"}, {SIGILL, ILL_ILLOPN, "ILL_ILLOPN"}, {SIGILL, ILL_PRVOPC, "ILL_PRVOPC"},
      {SIGFPE, FPE_INTDIV, "FPE_INTDIV"}, {SIGFPE, FPE_INTOVF, "FPE_INTOVF"}, {SIGFPE, FPE_FLTDIV, "FPE_FLTDIV"}, {SIGFPE, FPE_FLTINV, "FPE_FLTINV"},
      {SIGTRAP, TRAP_BRKPT, "TRAP_BRKPT"}, {SIGTRAP, TRAP_TRACE, "TRAP_TRACE"}, {SIGSYS, 1, "SYS_SECCOMP"}};
  for (const Code& entry : kCodes) {
    if ((entry.signal == 0 || entry.signal == signal) && entry.code == code) return entry.name;
  }
  return std::to_string(code);
}

std::span<const char* const> RegisterNames() {
#if defined(__x86_64__)
  static constexpr const char* kNames[] = {"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss"};
#else
  static constexpr const char* kNames[] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
                                           "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "lr", "sp", "pc", "pstate"};
#endif
  return kNames;
}

}  // namespace brink::snap
