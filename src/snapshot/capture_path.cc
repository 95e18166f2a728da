#include "snapshot/capture_path.h"

#include <algorithm>
#include <map>

namespace brink {
namespace {

// Longer runs without a taken branch do not occur in compiled code.
constexpr uint64_t kLongestStraightLine = 1 << 20;

bool Kernel(uint64_t address) { return address >> 63; }

// Can straight-line flow lead from the older entry's target to the newer entry's source?
bool Follows(const BranchEntry& older, const BranchEntry& newer, bool both_privileges) {
  if (older.to == 0 || newer.from == 0) return true;  // half records: one side was hidden by privilege
  if (Kernel(older.to) != Kernel(newer.from)) return !both_privileges;
  return newer.from >= older.to && newer.from - older.to < kLongestStraightLine;
}

bool StartsWithAny(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

bool InRanges(const std::vector<CodeRange>& ranges, uint64_t address) {
  auto it = std::upper_bound(ranges.begin(), ranges.end(), address, [](uint64_t a, const CodeRange& range) { return a < range.start; });
  return it != ranges.begin() && std::prev(it)->Contains(address);
}

void SortRanges(std::vector<CodeRange>* ranges) {
  std::sort(ranges->begin(), ranges->end(), [](const CodeRange& a, const CodeRange& b) { return a.start < b.start; });
}

}  // namespace

bool IsHookGlue(std::string_view function) {
  static constexpr std::string_view kPrefixes[] = {
      "bpf_trampoline_", "bpf_dispatcher_", "__bpf_prog_enter", "__bpf_prog_exit", "__bpf_tramp_", "__SCT__tp_func_", "__traceiter_", "__bpf_trace_",
      "bpf_trace_run", "trace_call_bpf", "perf_trace_", "perf_call_bpf_", "perf_syscall_", "kprobe_ftrace_handler", "kprobe_int3_handler",
      "kprobe_dispatcher", "kprobe_perf_func", "kprobe_multi_link_", "optimized_callback", "opt_pre_handler", "aggr_pre_handler", "kretprobe_",
      "__kretprobe_", "rethook_", "arch_rethook_", "ftrace_regs_c", "ftrace_caller", "ftrace_trampoline", "ftrace_ops_", "fprobe_", "__fprobe_",
      "arch_ftrace_ops_", "asm_exc_int3", "exc_int3", "do_int3", "uprobe_dispatcher", "uretprobe_dispatcher", "uprobe_perf_func", "uprobe_notify_resume",
      "bpf_overflow_handler", "__perf_event_overflow", "perf_event_overflow", "bpf_get_branch_snapshot",
  };
  // A compiled program is called bpf_prog_TAG_NAME; bpf_prog_test_run and its like are ordinary code.
  constexpr std::string_view kProgram = "bpf_prog_";
  if (function.substr(0, kProgram.size()) == kProgram) {
    std::string_view tag = function.substr(kProgram.size(), 16);
    return tag.size() == 16 && tag.find_first_not_of("0123456789abcdef") == tag.npos;
  }
  return StartsWithAny(function, kPrefixes);
}

bool IsInterruptReturn(std::string_view function) {
  static constexpr std::string_view kPrefixes[] = {"asm_sysvec_", "asm_common_interrupt", "common_interrupt_return", "asm_exc_nmi", "asm_exc_page_fault",
                                                   "irqentry_exit", "native_irq_return_", "restore_regs_", "error_return", "ret_from_intr", "ret_to_kernel"};
  return StartsWithAny(function, kPrefixes);
}

size_t TrustedLength(std::span<const BranchEntry> entries, bool both_privileges) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].from == 0 && entries[i].to == 0) return i;
    if (i > 0 && !Follows(entries[i], entries[i - 1], both_privileges)) return i;
  }
  return entries.size();
}

bool CapturePath::Contains(uint64_t address) const {
  if (hooked_ && hooked_->Contains(address)) return false;
  return InRanges(own_, address) || InRanges(functions_, address);
}

// Own programs, and glue by name: a trampoline is made anew for each hook, so the learnt one is another.
bool CapturePath::Core(uint64_t address, const CodeLookup& lookup) const {
  if (hooked_ && hooked_->Contains(address)) return false;
  if (InRanges(own_, address)) return true;
  auto range = lookup(address);
  return range && IsHookGlue(range->name);
}

CapturePath CapturePath::Learn(std::span<const std::vector<BranchEntry>> runs, const CodeLookup& lookup, std::vector<CodeRange> own) {
  CapturePath path;
  path.own_ = std::move(own);
  SortRanges(&path.own_);
  std::map<uint64_t, std::pair<CodeRange, size_t>> seen;  // by start: function, runs that held it
  for (const std::vector<BranchEntry>& run : runs) {
    // One capture lies between the newest user branch and now; it begins with the oldest entry that touches glue.
    size_t begin = 0;
    for (size_t i = 0; i < run.size() && Kernel(run[i].from); ++i) {
      if (path.Core(run[i].to, lookup)) begin = i + 1;
    }
    std::map<uint64_t, CodeRange> here;
    for (size_t i = 0; i < begin; ++i) {
      // The oldest one's source is the hooked code, not ours.
      if (auto to = lookup(run[i].to)) here[to->start] = *to;
      auto from = i + 1 < begin ? lookup(run[i].from) : std::nullopt;
      if (from) here[from->start] = *from;
    }
    for (const auto& [start, range] : here) {
      auto& entry = seen[start];
      entry.first = range;
      ++entry.second;
    }
  }
  for (const auto& [start, entry] : seen) {
    if (entry.second * 2 > runs.size()) path.functions_.push_back(entry.first);
  }
  return path;
}

CapturePath CapturePath::For(std::vector<CodeRange> own, const std::optional<CodeRange>& hooked) const {
  CapturePath path = *this;
  path.own_ = std::move(own);
  SortRanges(&path.own_);
  path.hooked_ = hooked;
  return path;
}

size_t CapturePath::Burnt(std::span<const BranchEntry> entries, const CodeLookup& lookup) const {
  auto ours = [&](uint64_t address) { return Contains(address) || Core(address, lookup); };
  // The capture begins where code that is not ours enters glue. Interrupts that came by in between return into the path
  // and are no beginning.
  size_t inside = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    bool from = ours(entries[i].from), to = ours(entries[i].to);
    inside += from || to;
    if (from || !Core(entries[i].to, lookup)) continue;
    auto source = lookup(entries[i].from);
    if (entries[i].kind() == Kind::kEret || (source && IsInterruptReturn(source->name))) continue;
    // An edge behind entries that are mostly foreign is an earlier capture's; ours was dropped by a filter on kinds.
    if (inside * 2 <= i) break;
    return i + 1;
  }
  size_t burnt = 0;
  while (burnt < entries.size() && ours(entries[burnt].from) && ours(entries[burnt].to)) ++burnt;
  return burnt;
}

}  // namespace brink
