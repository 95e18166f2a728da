#include "monitor/judge.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/thread.h"
#include "monitor/heal.h"
#include "monitor/look.h"
#include "monitor/registers.h"
#include "report/feed.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostWaiting = 64u << 20, kMostThreads = 65'536, kMostStacks = 64;

// At the entry of a call that writes memory: the walk has read what may be written over. The window of the call's end,
// which is chosen with it, says the same again if it is so.
void LeaveToTheEnd(Result* result) {
  result->severity = Severity::kInfo;
  for (Violation& v : result->violations) {
    if (v.policy <= Policy::kBoundary || v.policy == Policy::kMemory) {
      if (v.severity > Severity::kLow) v.reason += " (the call may write over what says so: its end will tell)";
      v.severity = std::min(v.severity, Severity::kLow);
    }
    result->severity = std::max(result->severity, v.severity);
  }
}

// What is known at the check point beside the records; the stack's place is the judge's to say.
CheckPoint PointOf(const brink_cfi& context, const brink_sample& head, const Baseline* baseline) {
  const bool entering = context.point == BRINK_CFI_ENTER || context.point == BRINK_CFI_LSM;
  CheckPoint point;
  point.call_site = entering || context.point == BRINK_CFI_EXIT ? head.ip : 0;
  point.call = context.syscall;
  point.sensitive = entering;
  point.not_code = context.verdict & BRINK_CFI_P8;
  point.no_signal = context.point == BRINK_CFI_ENTER && context.syscall == SYS_rt_sigreturn;
  point.baseline = baseline;
  if (context.code_len <= sizeof context.code) {
    point.end = head.end_ip;
    point.code = {context.code, context.code_len};
  }
  return point;
}

std::string SideName(const EventSide& side) {
  std::string file = side.module.substr(side.module.rfind('/') + 1);
  return file + ":" + (side.symbol.empty() ? absl::StrFormat("%#x", side.address) : side.symbol.substr(0, side.symbol.rfind('+')));
}

}  // namespace

std::optional<brink_cfi> ContextOf(const SampleView& sample) {
  const size_t behind = sizeof(brink_sample) + sample.branches.size_bytes() + sample.chain.size_bytes();
  if (sample.head->header.size < behind + sizeof(brink_cfi)) return std::nullopt;
  brink_cfi context;
  std::memcpy(&context, reinterpret_cast<const std::byte*>(sample.head) + behind, sizeof context);
  context.comm[sizeof context.comm - 1] = 0;
  context.stack_words = std::min<uint32_t>(context.stack_words, BRINK_CFI_STACK);
  if (context.magic != BRINK_CFI_MAGIC) return std::nullopt;
  return context;
}

// Whether a policy file's set of check points leaves a window out. Entries of calls that were added stay, and so do their ends.
bool Judge::IsLeftOut(const brink_cfi& context, CallSet judged) const {
  if (judged == CallSet::kAll || context.action != 0) return false;  // what the kernel did is told whatever the file says
  if (judged == CallSet::kNone || context.point == BRINK_CFI_SWITCH || context.point == BRINK_CFI_SAMPLE) return true;
  return context.point == BRINK_CFI_EXIT && !IsSensitive(context.syscall) && !(options_.confirms && options_.confirms(context.syscall));
}

Judge::Judge(Options options, std::function<std::shared_ptr<const PolicyFile>()> policy, std::function<Status(Alarm&&)> alarm)
    : options_(std::move(options)), policy_(std::move(policy)), alarm_(std::move(alarm)), map_(options_.map),
      containers_({.runtime_root = options_.runtime_root, .hierarchy = options_.hierarchy}) {}

Status Judge::OnSample(const SampleView& sample) {
  const auto* begin = reinterpret_cast<const std::byte*>(sample.head);
  waiting_bytes_ += sample.head->header.size;
  waiting_.push_back({sample.head->time_ns, true, {begin, begin + sample.head->header.size}});
  return waiting_bytes_ > kMostWaiting ? Release(UINT64_MAX) : OkStatus();
}

Status Judge::OnPerfRecord(const PerfRecordView& record) {
  waiting_bytes_ += record.record.size();
  waiting_.push_back({record.id.time_ns, false, {record.record.begin(), record.record.end()}});
  return OkStatus();
}

Status Judge::OnLost(LossCause cause, const Loss& loss, uint64_t) {
  if (!IsSampleLoss(cause)) side_band_lost_ += loss.records;
  if (cause == LossCause::kThrottled || cause == LossCause::kSkipped) return OkStatus();  // checks that were not made, not evidence lost
  MutexLock lock(mutex_);
  counts_.lost += loss.records;
  return OkStatus();
}

Status Judge::Release(uint64_t before_ns) {
  std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) { return a.time_ns < b.time_ns; });
  size_t done = 0;
  Status status;
  for (; done < waiting_.size() && waiting_[done].time_ns < before_ns && status.ok(); ++done) {
    Waiting& item = waiting_[done];
    waiting_bytes_ -= item.bytes.size();
    if (item.is_sample) status = JudgeWindow(item.bytes);
    else Observe(item.bytes);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(done));
  MutexLock lock(mutex_);
  counts_.totals = totals_;
  counts_.totals.violations.clear();
  counts_.busy_ns = ThreadCpuNs();
  counts_.missing = map_.missing();
  if (options_.learn) counts_.learned_edges = options_.learn->edges();
  return status;
}

// From the side-band: an exec's name comes before the first mapping of the file that is executed.
void Judge::FollowImage(std::span<const std::byte> record) {
  constexpr size_t kProt = 64, kName = 72;  // of PERF_RECORD_MMAP2
  struct {
    perf_event_header header;
    int32_t first, second;  // pid and tid; of a fork pid and parent
  } head;
  if (record.size() < sizeof head) return;
  std::memcpy(&head, record.data(), sizeof head);
  if (images_.size() > kMostThreads) images_.clear();
  if (head.header.type == PERF_RECORD_COMM && (head.header.misc & PERF_RECORD_MISC_COMM_EXEC)) {
    images_[head.first].clear();
  } else if (head.header.type == PERF_RECORD_FORK && head.first != head.second) {
    if (auto parent = images_.find(head.second); parent != images_.end()) images_[head.first] = std::string(parent->second);
    else images_.erase(head.first);  // the pid may have been another's
  } else if (head.header.type == PERF_RECORD_MMAP2 && record.size() > kName) {
    auto image = images_.find(head.first);
    if (image == images_.end() || !image->second.empty()) return;
    uint32_t protection;
    std::memcpy(&protection, record.data() + kProt, sizeof protection);
    const std::string_view name(reinterpret_cast<const char*>(record.data()) + kName, record.size() - kName);
    if ((protection & PROT_EXEC) && name.starts_with('/')) image->second = std::string(name.substr(0, name.find('\0')));
  }
}

ProcessFacts Judge::FactsOf(int32_t pid, uint64_t start_ns) {
  if (processes_.size() > kMostThreads) processes_.clear();
  Process& process = processes_[pid];
  const std::string comm(map_.spaces().CommOf(pid, pid));
  ProcessFacts facts = ReadProcess(pid, start_ns);
  if (facts.exe.empty() && process.comm == comm && process.facts.exec_id == facts.exec_id) return process.facts;
  if (auto image = images_.find(pid); facts.exe.empty() && image != images_.end()) facts.exe = image->second;
  process.facts = facts;
  process.comm = comm;
  return facts;
}

void Judge::Observe(std::span<const std::byte> record) {
  FollowImage(record);
  const size_t before = map_.objects().size();
  report::ApplyLiveRecord(record, &map_.spaces());
  for (size_t id = before; options_.on_file && id < map_.objects().size(); ++id) {
    const symbol::Object& object = map_.objects()[static_cast<symbol::ObjectId>(id)];
    if (object.kind == symbol::ObjectKind::kFile && object.path.starts_with("/")) options_.on_file(object.path);
  }
}

// Whether `exe` is what it executes. Where records of the side-band were lost, an exec may be among them: of a process that has
// gone only its name tells then.
bool Judge::IsProgramKnown(const brink_sample& head, const brink_cfi& context, const std::string& exe) const {
  if (exe.empty()) return false;
  if (side_band_lost_ == 0 || IsStillTheSame(static_cast<int32_t>(head.tgid), head.task_start_ns)) return true;
  return head.tid == head.tgid && exe.substr(exe.rfind('/') + 1).substr(0, sizeof context.comm - 1) == context.comm;
}

const Judge::Process& Judge::Know(const brink_sample& head, const brink_cfi& context, const std::shared_ptr<const PolicyFile>& policy) {
  const auto pid = static_cast<int32_t>(head.tgid);
  const uint64_t start_ns = head.task_start_ns;
  if (processes_.size() > kMostThreads) processes_.clear();
  if (known_by_ != policy) {
    known_by_ = policy;
    for (auto& entry : processes_) entry.second.known = false;
  }
  const uint64_t generation = map_.spaces().Generation(pid);
  const bool main = head.tid == head.tgid;
  const Process& known = processes_[pid];
  const bool renamed = side_band_lost_ > 0 && main && known.main != context.comm;
  const bool same = known.known && known.start_ns == start_ns && known.generation == generation && !renamed;
  if (same && known.uid == context.uid) return known;
  // Threads may have users of their own: then only the policy is asked anew.
  const ProcessFacts facts = same ? known.facts : FactsOf(pid, start_ns);
  const ContainerFacts container = ContainerOf(head);
  const PolicyView view = policy->For({.exe = facts.exe, .comm = std::string(map_.spaces().CommOf(pid, pid)), .container = container.name, .pod = container.pod_name, .uid = context.uid});
  Process& process = processes_[pid];
  if (!same && (options_.jit_allowed || MakesCode(pid, process.makes_code.value_or(false) && process.start_ns == start_ns))) process.makes_code = true;
  else if (!same) process.makes_code = IsProgramKnown(head, context, facts.exe) ? std::optional(false) : std::nullopt;
  process.jit = view.jit ? view.jit : process.makes_code;
  if (main) process.main = context.comm;
  process.judged = view.check.value_or(CallSet::kAll);
  process.start_ns = start_ns;
  process.uid = context.uid;
  process.known = true;
  process.generation = generation;
  return process;
}

// Where the thread goes on is code. If no mapping is known there, what told of it was lost. Once for all that is known of
// the process: what cannot be found now will not be found again.
void Judge::Heal(const brink_sample& head) {
  const auto pid = static_cast<int32_t>(head.tgid);
  const symbol::Mapping* mapping = map_.spaces().Find(pid, head.ip);
  if (mapping && mapping->executable) return;
  uint64_t& looked = processes_[pid].looked_at;
  if (looked == map_.spaces().Generation(pid) + 1) return;
  const bool healed = ReadMappingsAgain(pid, head.task_start_ns, &map_.spaces());
  looked = map_.spaces().Generation(pid) + 1;
  MutexLock lock(mutex_);
  counts_.healed += healed;
}

StackPlace Judge::PlaceOfStack(const brink_cfi& context, int32_t tid, uint64_t start_ns) {
  if (!(context.sp_kind & BRINK_CFI_SP_KNOWN)) return StackPlace::kUnknown;
  if (context.sp_kind & BRINK_CFI_SP_GROWS) return StackPlace::kOwn;
  if (context.sp_kind & BRINK_CFI_SP_ALT) return StackPlace::kSignal;
  if (threads_.size() > kMostThreads) threads_.clear();
  Thread& thread = threads_[tid];
  if (thread.start_ns != start_ns) thread = {.start_ns = start_ns, .stacks = {}};
  // The main thread begins on the kernel's stack; another where it was first seen.
  if (thread.stacks.empty() && !(context.sp_kind & (BRINK_CFI_SP_FILE | BRINK_CFI_SP_HEAP))) {
    thread.stacks.push_back(context.sp_start);
    return StackPlace::kOwn;
  }
  for (uint64_t start : thread.stacks) {
    if (start == context.sp_start) return StackPlace::kVisited;
  }
  return context.sp_kind & (BRINK_CFI_SP_FILE | BRINK_CFI_SP_HEAP) ? StackPlace::kData : StackPlace::kStrange;
}

void Judge::VisitStack(const brink_cfi& context, int32_t tid) {
  Thread& thread = threads_[tid];
  if (thread.stacks.size() < kMostStacks) thread.stacks.push_back(context.sp_start);
}

Status Judge::JudgeWindow(std::span<const std::byte> bytes) {
  auto sample = ViewSample(bytes);
  auto context = sample ? ContextOf(*sample) : std::nullopt;
  if (!context) return OkStatus();
  const auto pid = static_cast<int32_t>(sample->head->tgid), tid = static_cast<int32_t>(sample->head->tid);
  const auto policy = policy_();
  const Process& process = Know(*sample->head, *context, policy);
  if (IsLeftOut(*context, process.judged)) {
    MutexLock lock(mutex_);
    ++counts_.left_out;
    return OkStatus();
  }
  Heal(*sample->head);
  map_.Enter(pid, processes_[pid].jit, side_band_lost_ > 0);
  if (context->sp_kind & BRINK_CFI_TO_MADE) map_.MakesCode(context->args[0], context->args[1]);
  Window window{.records = sample->branches, .contiguous = true, .calls_and_returns = true, .future = sample->head->direction == BRINK_DIR_FUTURE, .point = CheckPoint{}};
  window.point = PointOf(*context, *sample->head, options_.baseline);
  window.point->stack = PlaceOfStack(*context, tid, sample->head->task_start_ns);
  if (context->begun && context->begun < window.records.size()) {
    totals_.forgotten += window.records.size() - context->begun;
    window.records = window.records.first(context->begun);
  }
  // A jump into the wild that ended in a signal: where it went is no code, and a return has left its word there.
  BranchEntry fatal = {};
  if (context->point == BRINK_CFI_SIGNAL) {
    const uint64_t ip = sample->head->ip;
    const bool returned = ReturnedTo(*context, ip);
    if (map_.At(ip).memory == MemoryKind::kNotCode) {
      window.point->not_code = true;
      fatal.from = fatal.to = ip;
      fatal.info = MakeInfo(returned ? Kind::kRet : Kind::kIndJump);
      window.records = {&fatal, 1};
      window.future = true;
    }
    window.point->stack = StackPlace::kUnknown;
  }
  Check(window, map_, &totals_);
  const bool left_to_the_end = window.future && context->point == BRINK_CFI_ENTER && WritesMemory(context->syscall);
  if (left_to_the_end) LeaveToTheEnd(&totals_);
  // Nor is the stack taken for the thread's own, or an edge for known, before the end has told.
  if (!left_to_the_end && (totals_.violations.empty() || totals_.severity < Severity::kLow)) {
    if (window.point->stack == StackPlace::kStrange || window.point->stack == StackPlace::kData) VisitStack(*context, tid);
  }
  {
    MutexLock lock(mutex_);
    ++counts_.windows;
    counts_.empty += sample->branches.empty();
  }
  if (options_.learn && !left_to_the_end && totals_.severity < Severity::kMedium) options_.learn->Learn(window, map_);
  if (totals_.violations.empty()) return OkStatus();
  Status raised = Raise(window, *sample, *context, *policy);
  if (!left_to_the_end && totals_.severity == Severity::kLow && window.point->stack == StackPlace::kData) VisitStack(*context, tid);
  return raised;
}

// One alarm an edge, with all rules that it breaks.
Status Judge::Raise(const Window& window, const SampleView& sample, const brink_cfi& context, const PolicyFile& policy) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Violation>> by_edge;
  for (const Violation& v : totals_.violations) by_edge[{v.from, v.to}].push_back(v);
  for (auto& [edge, violations] : by_edge) {
    Alarm alarm;
    alarm.violations = violations;
    alarm.from = map_.Describe(edge.first);
    alarm.to = map_.Describe(edge.second);
    alarm.context = context;
    alarm.branches.assign(window.records.begin(), window.records.end());
    Describe(sample, &alarm);
    PolicyView view = policy.For({.exe = alarm.process.exe, .comm = alarm.comm, .container = alarm.container.name, .pod = alarm.container.pod_name, .uid = alarm.context.uid});
    std::erase_if(alarm.violations, [&](const Violation& v) { return view.rules[static_cast<size_t>(v.policy)].off; });
    if (alarm.violations.empty()) continue;
    for (Violation& v : alarm.violations) {
      if (auto severity = view.rules[static_cast<size_t>(v.policy)].severity) v.severity = *severity;
    }
    std::stable_sort(alarm.violations.begin(), alarm.violations.end(), [](const Violation& a, const Violation& b) { return a.severity > b.severity; });
    alarm.severity = alarm.violations[0].severity;
    alarm.score = ScoreOf(alarm.violations, context);
    const std::string from = SideName(alarm.from), to = SideName(alarm.to);
    for (const Suppression* s : view.suppress) {
      const bool all = std::all_of(alarm.violations.begin(), alarm.violations.end(), [&](const Violation& v) { return Suppresses(*s, v.policy, from, to); });
      if (!all) continue;
      alarm.suppressed_by = s->reason;
      alarm.severity = Severity::kInfo;
    }
    NameBranches(&alarm);
    {
      MutexLock lock(mutex_);
      if (alarm.suppressed_by.empty()) ++counts_.alarms[static_cast<size_t>(alarm.severity)];
      else ++counts_.suppressed;
      alarm.lost = counts_.lost;
    }
    RETURN_IF_ERROR(alarm_(std::move(alarm)));
  }
  return OkStatus();
}

// In cgroup v1 by /proc, which forgets a process that has gone, and says of one that nobody has waited for that it is in the root.
ContainerFacts Judge::ContainerOf(const brink_sample& head) {
  const auto pid = static_cast<int32_t>(head.tgid);
  const bool by_id = options_.hierarchy.v2();
  const ContainerInfo& info = by_id ? containers_.ById(head.cgroup_id) : containers_.ByPid(pid);
  ContainerFacts facts = {.id = info.identity.container_id, .name = info.store.name, .image = info.store.image, .runtime = "", .pod_name = info.store.pod_name,
                          .pod_namespace = info.store.pod_namespace, .pod_uid = info.identity.pod_uid, .cgroup = info.path};
  if (by_id) return facts;
  Process& process = processes_[pid];
  if ((facts.cgroup.empty() || facts.cgroup == "/") && process.start_ns == head.task_start_ns) return process.container;
  process.container = facts;
  return facts;
}

void Judge::Describe(const SampleView& sample, Alarm* alarm) {
  alarm->pid = static_cast<int32_t>(sample.head->tgid);
  alarm->tid = static_cast<int32_t>(sample.head->tid);
  alarm->start_ns = sample.head->task_start_ns;
  alarm->comm = alarm->context.comm;
  alarm->time_ns = sample.head->time_ns;
  alarm->future = sample.head->direction == BRINK_DIR_FUTURE;
  alarm->stop = sample.head->stop;
  alarm->steps = sample.head->steps;
  alarm->walk_ns = sample.head->walk_ns;
  alarm->depth = options_.depth;
  alarm->process = FactsOf(alarm->pid, alarm->start_ns);
  alarm->container = ContainerOf(*sample.head);
}

void Judge::NameBranches(Alarm* alarm) {
  for (const BranchEntry& entry : alarm->branches) {
    for (uint64_t address : {entry.from, entry.to}) {
      EventSide side = map_.Describe(address);
      const std::string file = side.module.substr(side.module.rfind('/') + 1);
      std::string name = side.symbol.empty() ? absl::StrFormat("%#x", address) : side.symbol;
      alarm->names.push_back(name + (file.empty() ? "" : " [" + file + "]"));
    }
  }
}

JudgeCounts Judge::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace brink::cfi
