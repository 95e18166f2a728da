#include "report/loops.h"

namespace brink::report {
namespace {

bool IsCall(Kind kind) { return kind == Kind::kCall || kind == Kind::kIndCall || kind == Kind::kSyscall || kind == Kind::kIrq; }
bool IsReturn(Kind kind) { return kind == Kind::kRet || kind == Kind::kSysret || kind == Kind::kEret; }

// Returns go back to their caller, calls to functions in front: neither closes a loop.
bool IsLatch(const BranchEntry& entry) {
  Kind kind = entry.kind();
  if (IsCall(kind) || IsReturn(kind)) return false;
  return entry.to <= entry.from && entry.from - entry.to <= kMaxRange;
}

}  // namespace

LoopStat& LoopFinder::StatOf(const SampleView& sample, uint64_t head, uint64_t latch) {
  Location at = spaces_.Normalise(sample.pid, head), from = spaces_.Normalise(sample.pid, latch);
  auto [it, fresh] = index_.try_emplace({at, from.offset}, static_cast<uint32_t>(loops_.size()));
  if (fresh) loops_.push_back({.head = at, .latch = from.offset});
  return loops_[it->second];
}

void LoopFinder::Close(const SampleView& sample, Run& run, bool left) {
  LoopStat& stat = StatOf(sample, run.head, run.latch);
  stat.taken += run.taken;
  if (!run.entered || !left) {
    ++stat.cut_runs;
    stat.longest_cut = std::max(stat.longest_cut, run.taken);
    return;
  }
  uint64_t trips = run.taken + 1;
  stat.min_trips = stat.runs == 0 ? trips : std::min(stat.min_trips, trips);
  stat.max_trips = std::max(stat.max_trips, trips);
  ++stat.runs;
  stat.trips += trips;
}

// Entry i is the next branch in time; the straight code before it, if any, has run already.
void LoopFinder::Step(const SampleView& sample, const CleanStack& stack, size_t i) {
  const BranchEntry& entry = stack.entries[i];
  const bool straight = i < stack.straight.size() && stack.straight[i];
  const Kind kind = entry.kind();
  const bool call = IsCall(kind), ret = IsReturn(kind);
  for (size_t r = 0; r < open_.size();) {
    Run& run = open_[r];
    bool is_latch = entry.from == run.latch && entry.to == run.head;
    bool left = false;
    if (run.depth == 0 && straight) left = stack.range_start(i) <= run.latch && stack.range_end(i) > run.latch && stack.range_start(i) >= run.head;
    if (!left && run.depth == 0 && !is_latch && !call) {
      bool from_inside = entry.from >= run.head && entry.from <= run.latch;
      bool to_inside = entry.to >= run.head && entry.to <= run.latch;
      // An unknown kind that leaves may be a call; the loop goes on if its latch is seen again.
      left = from_inside && !to_inside && (kind != Kind::kUnknown || ret);
    }
    if (call && run.depth < 1000) ++run.depth;
    if (ret && run.depth > 0) --run.depth;
    if (is_latch) run.depth = 0, ++run.taken;
    if (left) {
      Close(sample, run, true);
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(r));
    } else {
      ++r;
    }
  }
  if (!IsLatch(entry)) return;
  for (const Run& run : open_) {
    if (run.head == entry.to && run.latch == entry.from) return;
  }
  // The first latch of a run: was the way into the body seen? It is if the branch before came from outside to inside, or
  // straight code ran over the head.
  Run run{.head = entry.to, .latch = entry.from, .taken = 1};
  for (size_t j = i; j < stack.straight.size(); ++j) {
    if (!stack.straight[j]) break;
    uint64_t start = stack.range_start(j);
    if (start < run.head && stack.range_end(j) >= run.head) {
      run.entered = true;
      break;
    }
    const BranchEntry& before = stack.entries[j + 1];
    bool from_inside = before.from >= run.head && before.from <= run.latch;
    bool to_inside = before.to >= run.head && before.to <= run.latch;
    if (to_inside && !from_inside && !IsReturn(before.kind())) {
      run.entered = before.kind() != Kind::kUnknown || before.to == run.head;
      break;
    }
    if (!to_inside && !IsCall(before.kind()) && !IsReturn(before.kind())) break;
  }
  open_.push_back(run);
}

void LoopFinder::OnStack(const SampleView& sample, const CleanStack& stack) {
  if (sample.meta.call_stack || !sample.meta.contiguous || stack.entries.size() < 2) return;
  open_.clear();
  for (size_t i = stack.entries.size(); i-- > 0;) {
    Step(sample, stack, i);
    // The same latch twice in a row: the cycles between are one iteration.
    const BranchEntry& entry = stack.entries[i];
    if (i + 1 >= stack.entries.size() || !entry.cycles() || !IsLatch(entry)) continue;
    if (stack.entries[i + 1].from != entry.from || stack.entries[i + 1].to != entry.to) continue;
    LoopStat& stat = StatOf(sample, entry.to, entry.from);
    stat.cycles += entry.cycles();
    ++stat.cycle_count;
  }
  for (Run& run : open_) Close(sample, run, false);
  open_.clear();
}

std::vector<LoopStat> LoopFinder::Take() {
  index_.clear();
  return std::exchange(loops_, {});
}

}  // namespace brink::report
