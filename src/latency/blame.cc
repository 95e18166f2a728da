#include "latency/blame.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::latency {
namespace {

constexpr const char* kSoftirqs[] = {"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"};
// Of the lateness: what makes something its cause.
constexpr double kMost = 0.5;

std::string InterruptName(uint32_t id) {
  constexpr const char* kVectors[] = {"local timer", "reschedule", "call function", "call function (single)", "irq_work", "from another CPU"};
  if (id < std::size(kVectors)) return std::string("interrupt: ") + kVectors[id];
  return absl::StrFormat("interrupt %d", id - BRINK_LAT_VEC_DEVICE);
}

std::string Comm(const char* comm) {
  size_t length = 0;
  while (length < BRINK_LAT_COMM && comm[length]) ++length;
  return EscapeForTerminal(std::string_view(comm, length));
}

std::string NameOf(const brink_lat_event& event) {
  switch (event.kind) {
    case BRINK_LAT_HARDIRQ: return InterruptName(event.id);
    case BRINK_LAT_SOFTIRQ: return std::string("softirq ") + (event.id < std::size(kSoftirqs) ? kSoftirqs[event.id] : "?");
    case BRINK_LAT_TASK: return event.id == 0 ? "idle" : absl::StrFormat("%s (pid %d%s)", Comm(event.comm), event.aux, event.id != event.aux ? absl::StrFormat(", thread %d", event.id) : "");
    default: return "";
  }
}

int64_t Overlap(int64_t a_start, int64_t a_end, int64_t from, int64_t to) { return std::max<int64_t>(0, std::min(a_end, to) - std::max(a_start, from)); }

// Busy time of an event within the window; joined events count in proportion.
int64_t BusyWithin(const brink_lat_event& event, int64_t from, int64_t to) {
  auto start = static_cast<int64_t>(event.start), end = static_cast<int64_t>(event.end);
  int64_t inside = Overlap(start, end, from, to);
  if (end <= start || inside == end - start) return inside ? static_cast<int64_t>(event.busy) : 0;
  return static_cast<int64_t>(static_cast<double>(event.busy) * static_cast<double>(inside) / static_cast<double>(end - start));
}

bool IsTimed(const brink_lat_event& event) { return event.kind == BRINK_LAT_TASK || event.kind == BRINK_LAT_HARDIRQ || event.kind == BRINK_LAT_SOFTIRQ; }

// Kernel functions that say nothing about who held the CPU: interrupt entry, the tracing itself, timers, wake-ups.
bool IsPlumbing(const std::string& name) {
  constexpr const char* kHeads[] = {"asm_", "sysvec_", "__sysvec", "bpf_", "__bpf", "trace_", "__traceiter", "hrtimer_", "__hrtimer", "try_to_wake_up", "wake_up", "irq_", "__irq", "handle_",
                                    "common_interrupt", "local_apic_timer", "ret_from", "preempt_schedule", "__schedule", "schedule", "_raw_spin_unlock", "__raw_spin_unlock", "raw_irqentry",
                                    "irqentry", "exit_to_user", "__preempt", "preempt_", "trace_hardirqs", "trace_irq", "__local_bh", "perf_", "tick_", "run_local", "ttwu_", "do_nanosleep",
                                    "timerqueue_", "clockevents_", "exc_", "call_", "__x64_sys", "x64_sys_call", "do_syscall_64", "entry_SYSCALL"};
  for (const char* head : kHeads) {
    if (name.starts_with(head)) return true;
  }
  return name.empty();
}

std::vector<std::string> KernelFrames(const brink_lat_capture& capture, const Names& names) {
  std::vector<std::string> frames;
  for (int i = 0; i < BRINK_LAT_STACK && i * 8 < capture.kernel_bytes; ++i) {
    std::string name = names.kernel ? names.kernel(capture.kernel_stack[i]) : "";
    // The way into the program is no part of the story.
    if (name.starts_with("bpf_trace_run") || name.starts_with("__traceiter") || name.starts_with("__bpf_trace")) {
      frames.clear();
      continue;
    }
    frames.push_back(name.empty() ? absl::StrFormat("0x%x", capture.kernel_stack[i]) : name);
  }
  return frames;
}

// What an interrupt hit: the frames behind its entry; none where it hit user code. Nothing where no entry is seen.
std::optional<std::vector<std::string>> Interrupted(const std::vector<std::string>& frames) {
  for (size_t i = frames.size(); i-- > 0;) {
    if (frames[i].starts_with("asm_sysvec") || frames[i].starts_with("asm_common_interrupt") || frames[i].starts_with("el1h_64_irq") || frames[i].starts_with("el1_interrupt")) {
      return std::vector<std::string>(frames.begin() + static_cast<std::ptrdiff_t>(i) + 1, frames.end());
    }
  }
  return std::nullopt;
}

// The innermost function that is no plumbing.
std::string Owner(const std::vector<std::string>& frames) {
  for (const std::string& frame : frames) {
    if (!IsPlumbing(frame)) return frame;
  }
  return "";
}

class Explanation {
 public:
  Explanation(const Evidence& evidence, const Names& names) : e_(evidence), names_(names) {}

  SpikeReport Make() {
    r_.deadline_ns = e_.deadline;
    r_.now_ns = e_.now;
    r_.lateness_ns = e_.now - e_.deadline;
    r_.tid = e_.tid;
    r_.cpu = e_.own.cpu;
    r_.cycle = e_.cycle;
    r_.parts = SplitLateness(e_.deadline, e_.now, e_.slot);
    const Parts& p = r_.parts;
    int64_t most = std::max({p.timer_late, p.interrupt, p.wait, p.blocked, p.user});
    if (most == p.timer_late) JudgeTimer();
    else if (most == p.interrupt) JudgeInterrupt();
    else if (most == p.wait) JudgeWait();
    else if (most == p.blocked) JudgeBlocked();
    else JudgeUser();
    Rows();
    Remarks();
    Stacks();
    return std::move(r_);
  }

 private:
  void Set(Cause cause, std::string subject, std::string verdict) {
    r_.cause = cause;
    r_.subject = std::move(subject);
    r_.verdict = std::move(verdict);
  }

  int64_t IrqTime() const { return e_.slot.irq ? std::clamp(static_cast<int64_t>(e_.slot.irq), e_.deadline, e_.now) : static_cast<int64_t>(e_.slot.waking); }

  std::string ContainerOf(uint32_t tgid) const { return names_.container && tgid ? names_.container(tgid) : ""; }

  void JudgeTimer() {
    int64_t irq = IrqTime();
    if (Silent(e_.deadline, irq, r_.parts.timer_late)) return;
    auto frames = KernelFrames(e_.waking, names_);
    auto hit = Interrupted(frames);
    int64_t handled = 0;
    std::string handler;
    for (const Share& share : SharesOf(e_.own, e_.deadline, irq)) {
      if (share.kind != BRINK_LAT_HARDIRQ || share.ns <= handled) continue;
      handled = share.ns;
      handler = share.name;
    }
    if (static_cast<double>(handled) > kMost * static_cast<double>(r_.parts.timer_late)) return Set(Cause::kInterrupt, handler, handler + " kept the timer's interrupt out");
    if (e_.waking.when && e_.waking.tid == 0) {
      return Set(Cause::kIdleExit, "idle", "the CPU was idle and took that long to answer the timer: exit from the idle state, or the hypervisor ran it late");
    }
    if (hit && hit->empty() && e_.waking.tgid) {
      return Set(Cause::kOutside, "outside", "outside this kernel (hypervisor, firmware or SMI): the interrupt hit user code, where interrupts are never off");
    }
    if (e_.policy != Policy::kFifo && e_.policy != Policy::kRr && r_.lateness_ns < 200'000 && r_.parts.timer_late <= 60'000) {
      return Set(Cause::kTimerSlack, "timer slack", "the timer slack of a thread without real-time policy (50 us)");
    }
    std::string owner = hit ? Owner(*hit) : Owner(frames);
    std::string who = e_.waking.when ? absl::StrFormat("%s (pid %d)", Comm(e_.waking.comm), e_.waking.tgid) : "unknown";
    if (e_.waking.when && !owner.empty()) return Set(Cause::kInterruptsOff, owner, "interrupts were off in " + owner + ", while " + who + " ran");
    Set(Cause::kInterruptsOff, who, "interrupts were off while " + who + " ran, or the CPU was taken away");
  }

  // True and judged when the whole kernel was silent for most of [from, to].
  bool Silent(int64_t from, int64_t to, int64_t part) {
    if (!e_.beat_ns || e_.others.empty()) return false;
    Gap gap = LongestSilence(e_, from, to);
    if (gap.length() < 2 * e_.beat_ns || static_cast<double>(gap.length()) < 0.6 * static_cast<double>(part)) return false;
    Set(Cause::kOutside, "outside", absl::StrFormat("outside this kernel (hypervisor, firmware or SMI): no CPU recorded anything for %.1f us, though each has a timer every %d us", static_cast<double>(gap.length()) / 1000, e_.beat_ns / 1000));
    return true;
  }

  void JudgeInterrupt() {
    Share top;
    for (const Share& share : SharesOf(e_.own, IrqTime(), static_cast<int64_t>(e_.slot.waking))) {
      if (share.kind != BRINK_LAT_TASK && share.ns > top.ns) top = share;
    }
    std::string name = top.ns ? top.name : "interrupt: local timer";
    if (Silent(IrqTime(), static_cast<int64_t>(e_.slot.waking), r_.parts.interrupt)) return;
    Set(Cause::kInterrupt, name, name + " was busy before it came to this wake-up (other timers of the same moment, or a long handler)");
  }

  void JudgeWait() {
    int64_t from = static_cast<int64_t>(e_.slot.waking), to = static_cast<int64_t>(e_.slot.last_in);
    std::vector<Share> shares = SharesOf(e_.own, from, to);
    int64_t softirq = 0, hardirq = 0, idle = 0;
    Share soft, hard, task;
    for (const Share& share : shares) {
      if (share.kind == BRINK_LAT_SOFTIRQ) softirq += share.ns, soft = share.ns > soft.ns ? share : soft;
      else if (share.kind == BRINK_LAT_HARDIRQ) hardirq += share.ns, hard = share.ns > hard.ns ? share : hard;
      else if (share.id == 0) idle += share.ns;
      else if (share.id != static_cast<uint32_t>(e_.tid)) task = share.ns > task.ns ? share : task;
    }
    double wait = static_cast<double>(r_.parts.wait);
    if (e_.throttled_periods > 0) {
      return Set(Cause::kQuota, "CPU quota", absl::StrFormat("its group had used up its CPU quota (throttled %d times meanwhile)%s", e_.throttled_periods, static_cast<double>(idle) > kMost * wait ? "; the CPU was idle" : ""));
    }
    if (Silent(from, to, r_.parts.wait)) return;
    if (static_cast<double>(softirq) > kMost * wait) return Set(Cause::kSoftirq, soft.name, soft.name + " ran for " + Us(soft.ns) + " before the switch");
    if (static_cast<double>(hardirq) > kMost * wait) return Set(Cause::kInterrupt, hard.name, hard.name + " took " + Us(hard.ns) + " before the switch");
    if (static_cast<double>(idle) > kMost * wait) {
      return Set(Cause::kQuota, "CPU quota", "runnable while the CPU was idle: the thread was held back by a CPU quota");
    }
    if (task.ns == 0) return Set(Cause::kUnknown, "", "nothing else is known to have run: outside this kernel, or the log does not reach back");
    JudgeTask(task);
  }

  static std::string Us(int64_t ns) { return absl::StrFormat("%.1f us", static_cast<double>(ns) / 1000); }

  void JudgeTask(const Share& task) {
    std::string container = ContainerOf(task.tgid);
    std::string who = task.name + (container.empty() ? "" : " in " + container);
    if (task.work && names_.kernel && !names_.kernel(task.work).empty()) who += " with work " + names_.kernel(task.work);
    if (static_cast<double>(task.reclaim_ns) > 0.2 * static_cast<double>(task.ns)) {
      return Set(Cause::kReclaim, task.name, who + " had the CPU for " + Us(task.ns) + ", reclaiming memory for " + Us(task.reclaim_ns));
    }
    if (task.faults >= 50 && task.ns / static_cast<int64_t>(task.faults) < 20'000) {
      return Set(Cause::kPageFaults, task.name, absl::StrFormat("%s had the CPU for %s with %d page faults", who, Us(task.ns), task.faults));
    }
    Set(Cause::kTask, task.name, who + " had the CPU for " + Us(task.ns));
  }

  void JudgeBlocked() {
    if (e_.throttled_periods > 0) return Set(Cause::kQuota, "CPU quota", "its group had used up its CPU quota");
    if (e_.faults) return Set(Cause::kPageFaults, "own page faults", absl::StrFormat("it slept again before it saw the clock, with %d page faults: its memory was not there (mlock: -m)", e_.faults));
    Set(Cause::kUnknown, "", "it slept again before it saw the clock");
  }

  void JudgeUser() {
    if (!e_.slot.waking) return Set(Cause::kLastCycle, "previous cycle", "it never slept: the previous cycle ended behind this deadline");
    int64_t from = static_cast<int64_t>(e_.slot.last_in);
    if (Silent(from, e_.now, r_.parts.user)) return;
    Share top;
    int64_t interrupts = 0;
    for (const Share& share : SharesOf(e_.own, from, e_.now)) {
      if (share.kind == BRINK_LAT_TASK) continue;
      interrupts += share.ns;
      if (share.ns > top.ns) top = share;
    }
    if (static_cast<double>(interrupts) > kMost * static_cast<double>(r_.parts.user)) {
      return Set(top.kind == BRINK_LAT_SOFTIRQ ? Cause::kSoftirq : Cause::kInterrupt, top.name, top.name + " interrupted it on the way back for " + Us(top.ns));
    }
    if (e_.faults >= 20) return Set(Cause::kPageFaults, "own page faults", absl::StrFormat("%d page faults on the way back: its memory was not there (mlock: -m)", e_.faults));
    if (e_.reclaim_ns > r_.parts.user / 4) return Set(Cause::kReclaim, "own reclaim", "it had to reclaim memory on the way back");
    Set(Cause::kOutside, "outside", "it had the CPU, without an interrupt, and yet time passed: outside this kernel (hypervisor, firmware or SMI), if not tracing itself");
  }

  void Add(const char* part, int64_t ns, std::string text) {
    if (ns > 0) r_.lines.push_back({part, ns, std::move(text)});
  }

  void Rows() {
    const Parts& p = r_.parts;
    Add("timer_late", p.timer_late, r_.cause == Cause::kOutside || r_.cause == Cause::kIdleExit || r_.cause == Cause::kInterruptsOff || r_.cause == Cause::kTimerSlack ? r_.subject : "deadline to the timer interrupt");
    Add("interrupt", p.interrupt, "timer interrupt to the wake-up");
    WaitRows();
    Add("blocked", p.blocked, "asleep again");
    Add("user", p.user, "switch-in to the clock read in user space");
  }

  // The waiting time by who had the CPU; what the log does not say is a row of its own, so that rows add up.
  void WaitRows() {
    int64_t left = r_.parts.wait;
    if (!left) return;
    std::vector<Share> shares = SharesOf(e_.own, static_cast<int64_t>(e_.slot.waking), static_cast<int64_t>(e_.slot.last_in));
    std::erase_if(shares, [&](const Share& s) { return s.kind == BRINK_LAT_TASK && s.id == static_cast<uint32_t>(e_.tid); });
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.ns > b.ns; });
    for (size_t i = 0; i < shares.size() && i < 8; ++i) {
      int64_t ns = std::min(shares[i].ns, left);
      std::string text = shares[i].name;
      if (shares[i].kind != BRINK_LAT_TASK) text += absl::StrFormat(" (%d times)", shares[i].count);
      if (shares[i].faults) text += absl::StrFormat(", %d page faults", shares[i].faults);
      if (shares[i].reclaim_ns) text += ", reclaim " + Us(shares[i].reclaim_ns);
      Add("wait", ns, text);
      left -= ns;
    }
    Add("wait", left, "switching, and what the log does not name");
  }

  void Remark(std::string text) { r_.lines.push_back({"", 0, std::move(text)}); }

  void Remarks() {
    const brink_lat_slot& s = e_.slot;
    if (e_.stolen_ns) Remark("stolen by the hypervisor about then: " + Us(e_.stolen_ns) + " (in steps of 10 ms)");
    if (e_.smi) Remark(absl::StrFormat("system management interrupts since the wake-up before: %d", e_.smi));
    if (s.migrations) Remark(absl::StrFormat("migrated %d times", s.migrations));
    if (s.switches > 1) Remark(absl::StrFormat("switched in %d times before it saw the clock", s.switches));
    int64_t timers = 0;
    for (const brink_lat_event& event : e_.own.events) {
      if (event.kind == BRINK_LAT_HARDIRQ && event.id == BRINK_LAT_VEC_TIMER && Overlap(static_cast<int64_t>(event.start), static_cast<int64_t>(event.end), e_.deadline, e_.now)) timers += event.count;
      if (event.kind == BRINK_LAT_FREQ && static_cast<int64_t>(event.start) >= e_.deadline - 10'000'000 && static_cast<int64_t>(event.start) <= e_.now) Remark(absl::StrFormat("the CPU's frequency changed to %d MHz", event.id / 1000));
      if (event.kind == BRINK_LAT_IDLE_STATE && static_cast<int64_t>(event.end) >= e_.deadline && static_cast<int64_t>(event.end) <= static_cast<int64_t>(s.waking)) {
        Remark(absl::StrFormat("the CPU left idle state %d, in which it had been for %.1f us", event.id, static_cast<double>(event.end - event.start) / 1000));
      }
    }
    if (e_.beat_ns && r_.lateness_ns > 3 * e_.beat_ns) {
      int64_t expected = r_.lateness_ns / e_.beat_ns;
      Remark(absl::StrFormat("timer interrupts of this CPU meanwhile: %d of %d (one every %d us), %d missed", timers, expected, e_.beat_ns / 1000, std::max<int64_t>(0, expected - timers)));
    }
    Senders();
    if (s.woken && s.waking && s.woken > s.waking + 20'000) Remark("the wake-up reached its CPU's queue " + Us(static_cast<int64_t>(s.woken - s.waking)) + " after it was made");
    if (e_.waking.when && e_.waking.previous_when) {
      r_.previous_ns = static_cast<int64_t>(e_.waking.when) - static_cast<int64_t>(e_.waking.previous_when);
      if (r_.previous_ns > 3 * kBeatNs) Remark("the timer interrupt before came " + Us(r_.previous_ns) + " earlier");
    }
  }

  // Who sent this CPU interrupts meanwhile, by the other CPUs' logs.
  void Senders() {
    struct Sender {
      std::string text;
      uint64_t count = 0;
    };
    std::vector<Sender> senders;
    for (const CpuLog& log : e_.others) {
      for (const brink_lat_event& event : log.events) {
        if (event.kind != BRINK_LAT_IPI || (event.id != static_cast<uint32_t>(e_.own.cpu) && event.id != BRINK_LAT_IPI_MANY)) continue;
        if (!Overlap(static_cast<int64_t>(event.start), static_cast<int64_t>(event.end) + 1, e_.deadline, e_.now)) continue;
        std::string function = names_.kernel ? names_.kernel(event.work) : "";
        std::string text = absl::StrFormat("%s (thread %d) on CPU %d, %s", Comm(event.comm), event.aux, log.cpu, function.empty() ? absl::StrFormat("0x%x", event.work) : function);
        auto found = std::find_if(senders.begin(), senders.end(), [&](const Sender& s) { return s.text == text; });
        if (found == senders.end()) found = senders.insert(senders.end(), {text, 0});
        found->count += event.count;
      }
    }
    std::stable_sort(senders.begin(), senders.end(), [](const Sender& a, const Sender& b) { return a.count > b.count; });
    for (size_t i = 0; i < senders.size() && i < 3; ++i) Remark(absl::StrFormat("interrupted by %s: %d times", senders[i].text, senders[i].count));
  }

  void Stacks() {
    // Where the time went before the wake-up the interrupted code matters, else who gave way.
    bool timer = r_.parts.timer_late >= r_.parts.wait;
    const brink_lat_capture& capture = timer ? e_.waking : e_.switching;
    if (!capture.when) {
      if (e_.branches_asked) r_.branches_missing = "the wake-up was not late yet when the kernel saw it";
      return;
    }
    r_.occupant = capture.tid ? Comm(capture.comm) : "idle";
    r_.stack_of = absl::StrFormat("%s (pid %d), %s", Comm(capture.comm), capture.tgid, timer ? "interrupted by the late timer" : "as it gave way");
    auto frames = KernelFrames(capture, names_);
    auto hit = Interrupted(frames);
    r_.kernel_stack = timer && hit ? *hit : frames;
    for (int i = 0; i < BRINK_LAT_STACK && i * 8 < capture.user_bytes; ++i) {
      if (!capture.user_stack[i]) continue;  // a broken frame chain
      std::string name = names_.user ? names_.user(capture.tgid, capture.user_stack[i]) : "";
      r_.user_stack.push_back(name.empty() ? absl::StrFormat("0x%x", capture.user_stack[i]) : name);
    }
    Branches(capture);
  }

  void Branches(const brink_lat_capture& capture) {
    if (!e_.branches_asked) {
      r_.branches_missing = e_.branches_missing;
      return;
    }
    if (capture.branches <= 0) r_.branches_missing = capture.branches ? "the snapshot failed" : "the snapshot was empty";
    r_.branches = BranchLines(capture.entries, capture.branches, capture.tgid);
    r_.previous_branches = BranchLines(capture.previous, capture.previous_branches, capture.tgid);
  }

  std::vector<std::string> BranchLines(const brink_branch* entries, int32_t count, uint32_t tgid) const {
    auto name = [&](uint64_t address) {
      std::string text = address >> 63 ? (names_.kernel ? names_.kernel(address) : "") : (names_.user ? names_.user(tgid, address) : "");
      return text.empty() ? absl::StrFormat("0x%x", address) : text;
    };
    std::vector<std::string> lines;
    for (int32_t i = 0; i < count && i < BRINK_MAX_HW_BRANCHES; ++i) {
      if (!entries[i].from && !entries[i].to) break;
      lines.push_back(name(entries[i].from) + " -> " + name(entries[i].to));
    }
    return lines;
  }

  const Evidence& e_;
  const Names& names_;
  SpikeReport r_;
};

}  // namespace

Parts SplitLateness(int64_t deadline, int64_t now, const brink_lat_slot& slot) {
  Parts parts;
  int64_t waking = static_cast<int64_t>(slot.waking);
  if (!waking || !slot.first_in || waking > now) {
    parts.user = now - deadline;
    return parts;
  }
  int64_t base = std::min(deadline, now);
  waking = std::max(waking, base);
  int64_t irq = slot.irq ? std::clamp(static_cast<int64_t>(slot.irq), base, waking) : waking;
  parts.timer_late = irq - base;
  parts.interrupt = waking - irq;
  int64_t left = now - waking;
  // A wake-up before the deadline (timer slack the other way): its waiting began there.
  int64_t wait = static_cast<int64_t>(slot.wait) - std::max<int64_t>(0, base - static_cast<int64_t>(slot.waking));
  parts.wait = std::clamp<int64_t>(wait, 0, left);
  parts.blocked = std::clamp<int64_t>(static_cast<int64_t>(slot.blocked), 0, left - parts.wait);
  parts.user = left - parts.wait - parts.blocked;
  return parts;
}

std::vector<Share> SharesOf(const CpuLog& log, int64_t from, int64_t to) {
  std::vector<Share> shares;
  auto add = [&](const brink_lat_event& event, int64_t ns, int64_t full) {
    if (ns <= 0) return;
    auto found = std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.kind == event.kind && s.id == event.id; });
    if (found == shares.end()) found = shares.insert(shares.end(), Share{event.kind, event.id, event.aux, NameOf(event)});
    found->ns += ns;
    double part = full ? std::min(1.0, static_cast<double>(ns) / static_cast<double>(full)) : 0;
    found->count += event.count;
    // What is known of a whole stretch is taken in proportion.
    found->faults += static_cast<uint64_t>(static_cast<double>(event.faults) * part + 0.5);
    found->reclaim_ns += static_cast<int64_t>(static_cast<double>(event.reclaim_us) * 1000 * part);
    if (event.work) found->work = event.work;
  };
  for (const brink_lat_event& event : log.events) {
    if (!IsTimed(event)) continue;
    int64_t busy = BusyWithin(event, from, to);
    if (busy <= 0) continue;
    auto start = static_cast<int64_t>(event.start), end = static_cast<int64_t>(event.end);
    int64_t nested = 0;
    for (const brink_lat_event& inner : log.events) {
      bool interrupts = (inner.kind == BRINK_LAT_HARDIRQ && event.kind != BRINK_LAT_HARDIRQ) || (inner.kind == BRINK_LAT_SOFTIRQ && event.kind == BRINK_LAT_TASK);
      if (!interrupts) continue;
      int64_t taken = BusyWithin(inner, std::max(from, start), std::min(to, end));
      // A hard interrupt within a softirq is taken off the softirq, which the task loses whole.
      if (event.kind == BRINK_LAT_TASK && inner.kind == BRINK_LAT_HARDIRQ) {
        bool in_softirq = std::any_of(log.events.begin(), log.events.end(), [&](const brink_lat_event& s) { return s.kind == BRINK_LAT_SOFTIRQ && s.count == 1 && s.start <= inner.start && inner.end <= s.end; });
        if (in_softirq) taken = 0;
      }
      nested += taken;
    }
    add(event, std::max<int64_t>(0, busy - nested), end - start);
  }
  return shares;
}

Gap LongestSilence(const Evidence& evidence, int64_t from, int64_t to) {
  std::vector<int64_t> times = {from, to};
  auto take = [&](const CpuLog& log) {
    for (const brink_lat_event& event : log.events) {
      for (uint64_t at : {event.start, event.end}) {
        if (static_cast<int64_t>(at) > from && static_cast<int64_t>(at) < to) times.push_back(static_cast<int64_t>(at));
      }
    }
  };
  take(evidence.own);
  for (const CpuLog& log : evidence.others) take(log);
  std::sort(times.begin(), times.end());
  Gap gap{from, from};
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i] - times[i - 1] > gap.length()) gap = {times[i - 1], times[i]};
  }
  return gap;
}

SpikeReport Explain(const Evidence& evidence, const Names& names) { return Explanation(evidence, names).Make(); }

}  // namespace brink::latency
