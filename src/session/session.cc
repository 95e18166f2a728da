#include "session/session.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "confine/confine.h"
#include "kernel/privileges.h"
#include "kernel/proc_task.h"
#include "session/synth.h"

namespace brink {
namespace {

constexpr uint64_t kCountersEveryNs = 1'000'000'000;

}  // namespace

StatusOr<std::unique_ptr<Session>> Session::Create(const SessionSpec& spec, std::unique_ptr<StackSource> source, Consumer& consumer) {
  std::unique_ptr<Session> session(new Session);
  RETURN_IF_ERROR(session->Init(spec, std::move(source), consumer));
  return session;
}

Session::~Session() {
  (void)Stop();
  // A command that was never let go ends here, before the group that it is in is removed.
  child_.reset();
}

Status Session::Init(const SessionSpec& spec, std::unique_ptr<StackSource> source, Consumer& consumer) {
  spec_ = spec;
  source_ = std::move(source);
  ASSIGN_OR_RETURN(target_, ResolveTarget(spec.target, OnlineCpus()));
  mounts_ = ReadCgroupMounts();
  // The child first: it must not inherit rings, links and events.
  if (!spec.target.command.empty()) RETURN_IF_ERROR(ForkCommand());
  RETURN_IF_ERROR(source_->Prepare(*this));
  brink_bpf_config config = {};
  RETURN_IF_ERROR(ChooseMode(&config));
  RETURN_IF_ERROR(OpenSideBand());
  RETURN_IF_ERROR(LoadBpf(config));
  if (source_->traits().sampling_events) {
    RETURN_IF_ERROR(events_.Open(Plan(), [this](perf_event_attr* attr) { return source_->AmendEvent(attr); }, source_->program(),
                                 source_->tracepoint_program()));
  }
  // Before the threads, which inherit it.
  if (spec_.keep_capabilities) {
    RETURN_IF_ERROR(DropPrivileges(*spec_.keep_capabilities));
    (void)LimitCollector();  // a kernel without seccomp records all the same
  }
  return StartThreads(consumer);
}

Status Session::ForkCommand() {
  ASSIGN_OR_RETURN(child_, CommandChild::Fork(spec_.target.command, {.stdout_to_stderr = spec_.command_stdout_to_stderr}));
  if (target_.kind != TargetKind::kCommand) return OkStatus();
  ASSIGN_OR_RETURN(TaskStat stat, ReadTaskStat(child_->pid()));
  target_.tasks = {{child_->pid(), stat.start_ticks}};
  target_.processes = {child_->pid()};
  return OkStatus();
}

Status Session::ChooseMode(brink_bpf_config* config) {
  SourceTraits traits = source_->traits();
  config->source = traits.id;
  config->depth = spec_.depth;
  config->wake_bytes = static_cast<uint32_t>(spec_.ring_bytes / 4);
  config->flags = (traits.user_only ? BRINK_CFG_SKIP_KERNEL : 0) | (spec_.chain_user ? BRINK_CFG_CHAIN_USER : 0) |
                  (spec_.chain_kernel ? BRINK_CFG_CHAIN_KERNEL : 0) | (spec_.events.size() > 1 ? BRINK_CFG_COOKIE : 0) |
                  (traits.id == BRINK_SOURCE_REPLAY ? BRINK_CFG_REPLAY : 0) |
                  (spec_.target.follow_children ? 0 : BRINK_CFG_NO_CHILDREN);
  if (spec_.filter) {
    config->flags |= (spec_.filter->sample_ops ? BRINK_CFG_FILTER_SAMPLES : 0) |
                     (spec_.filter->record_ops || spec_.filter->kinds ? BRINK_CFG_FILTER_RECORDS : 0);
  }
  config->period_ns = static_cast<uint32_t>(std::min<uint64_t>(period_ns(), UINT32_MAX));
  config->command_tgid = child_ ? static_cast<uint32_t>(child_->pid()) : 0;
  config->target_mode = BRINK_TARGET_ALL;
  inherit_ = spec_.target.inherit_only;
  if (samples_tracepoints() && (inherit_ || !spec_.target.cpus.empty())) return InvalidArgument("tracepoints cannot be limited by -C or --inherited-events");
  if (spec_.target.cgroups.size() > BRINK_MAX_CGROUPS) return InvalidArgument("-G: at most " + std::to_string(BRINK_MAX_CGROUPS) + " cgroups");
  if (inherit_ && target_.tasks.empty()) return InvalidArgument("inherited events need a command, -p or -t");
  switch (target_.kind) {
    case TargetKind::kAllCpus:
      config->own_tgid = static_cast<uint32_t>(getpid());
      break;
    case TargetKind::kProcesses:
      if (!inherit_) config->target_mode = BRINK_TARGET_TGIDS;
      break;
    case TargetKind::kThreads:
      if (!inherit_) config->target_mode = BRINK_TARGET_TIDS;
      break;
    case TargetKind::kCgroups:
      for (const std::string& name : spec_.target.cgroups) {
        ASSIGN_OR_RETURN(UniqueFd fd, OpenCgroup(mounts_, name));
        cgroups_.push_back(std::move(fd));
      }
      // Tracepoint programs run for everybody, and so do a source's own.
      if (samples_tracepoints() || !traits.sampling_events) {
        config->target_mode = BRINK_TARGET_CGROUP;
        config->cgroups = static_cast<uint32_t>(cgroups_.size());
      }
      break;
    case TargetKind::kCommand: {
      using Group = TargetSpec::Group;
      if (inherit_) break;
      config->target_mode = BRINK_TARGET_TGIDS;
      if (spec_.target.run_cgroup == Group::kOff || !spec_.target.follow_children || samples_tracepoints()) break;
      auto group = RunCgroup::Make(mounts_);
      Status joined = group.ok() ? (*group)->Add(child_->pid()) : group.status();
      if (joined.ok()) {
        run_cgroup_ = std::move(*group);
        config->target_mode = BRINK_TARGET_ALL;
        notes_.push_back("target: cgroup made for the run");
      } else if (spec_.target.run_cgroup == Group::kOn) {
        return joined;
      }
      break;
    }
  }
  return OkStatus();
}

uint64_t Session::period_ns() const {
  if (spec_.events.empty() || !spec_.events[0].is_clock()) return 0;
  uint64_t period = spec_.events[0].period ? spec_.events[0].period : spec_.period;
  uint64_t frequency = spec_.events[0].frequency ? spec_.events[0].frequency : spec_.frequency;
  return frequency ? 1'000'000'000 / frequency : period;
}

bool Session::samples_tracepoints() const {
  return std::any_of(spec_.events.begin(), spec_.events.end(), [](const EventSpec& event) { return event.is_tracepoint(); });
}

Status Session::OpenSideBand() {
  bool all = target_.kind == TargetKind::kAllCpus || target_.kind == TargetKind::kCgroups;
  filter_ = std::make_unique<SideBandFilter>(
      all, spec_.target.follow_children, SideBandFilter::Callbacks{
               .process_changed = [this](pid_t tgid, bool exited) { source_->OnProcessChange(tgid, exited); },
               .overflow =
                   [this](uint64_t records) {
                     ++side_band_overflows_;
                     ledger_.CountLost(LossCause::kSideBand, records, 0);
                   }});
  for (pid_t pid : target_.processes) filter_->Follow(pid);
  // On every online CPU, not only those that are sampled: mappings are made anywhere.
  for (int cpu : OnlineCpus()) {
    ASSIGN_OR_RETURN(std::unique_ptr<PerfRing> ring, OpenSideBandRing(cpu, spec_.side_band_pages));
    ring_of_cpu_[cpu] = ring->fd();
    first_rings_.push_back(std::move(ring));
  }
  return OkStatus();
}

Status Session::LoadBpf(const brink_bpf_config& config) {
  BpfCore::Options options = {.config = config, .ring_bytes = spec_.ring_bytes,
                              .track_tasks = config.target_mode == BRINK_TARGET_TGIDS || config.target_mode == BRINK_TARGET_TIDS,
                              .filter = spec_.filter};
  ASSIGN_OR_RETURN(core_, BpfCore::Load(options));
  // The programs before the members: a process that forks in between would lose its child.
  Status attached = core_->Attach();
  if (!attached.ok()) {
    FallBackToInherit(Message(attached));
    options.config.target_mode = BRINK_TARGET_ALL;
    options.track_tasks = false;
    ASSIGN_OR_RETURN(core_, BpfCore::Load(options));
  }
  if (core_->config().target_mode != BRINK_TARGET_ALL) {
    for (uint32_t i = 0; i < core_->config().cgroups; ++i) RETURN_IF_ERROR(core_->SetCgroup(i, cgroups_[i].get()));
    for (const TargetTask& task : target_.tasks) RETURN_IF_ERROR(core_->AddTask(task.id, task.start_ticks));
  }
  ASSIGN_OR_RETURN(ring_, BpfRing::Map(core_->ring_fd(), core_->ring_bytes()));
  return source_->Load(*this);
}

void Session::FallBackToInherit(const std::string& why) {
  inherit_ = true;
  notes_.push_back("target: inherited events, because " + why +
                   "; processes shorter than a sampling period are nearly invisible to them");
}

SamplingPlan Session::Plan() const {
  SamplingPlan plan = {.events = spec_.events, .frequency = spec_.frequency, .period = spec_.period, .cpus = target_.cpus};
  if (run_cgroup_) plan.cgroup_fds.push_back(run_cgroup_->fd());
  for (const UniqueFd& fd : cgroups_) plan.cgroup_fds.push_back(fd.get());
  if (!inherit_) return plan;
  for (const TargetTask& task : target_.tasks) {
    if (target_.kind == TargetKind::kThreads) {
      plan.inherit_tids.push_back(task.id);
    } else {
      for (pid_t tid : ListThreads(task.id)) plan.inherit_tids.push_back(tid);
    }
  }
  plan.enable_on_exec = target_.kind == TargetKind::kCommand && spec_.enable;
  return plan;
}

Status Session::StartThreads(Consumer& consumer) {
  failed_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!failed_.valid()) return ErrnoError(errno, "eventfd");
  pool_ = std::make_unique<BufferPool>(spec_.buffers, spec_.buffer_size);
  DrainOptions options;
  options.max_delay_ns = std::max(options.max_delay_ns, source_->traits().max_delay_ns);
  drain_.reset(new Drain(*pool_, ledger_, ring_.get(), core_->ring_fd(), *this, options));
  for (auto& ring : first_rings_) RETURN_IF_ERROR(drain_->AddPerfRing(std::move(ring)));
  first_rings_.clear();
  writer_ = std::make_unique<WriterThread>(*pool_, ledger_, consumer, spec_.writer, [this] {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(failed_.get(), &one, sizeof(one));
  });
  RETURN_IF_ERROR(writer_->Start());
  running_ = true;
  drain_->WithSink([this](RecordSink& sink) { Synthesize(sink, 0); });
  return drain_->Start();
}

void Session::Synthesize(RecordSink& sink, uint64_t time_ns) {
  Synthesizer synth(sink);
  synth.Kernel();
  synth.BpfPrograms();
  if (!mounts_.v2.empty()) synth.Cgroups(mounts_.v2);
  for (pid_t pid : KnownProcesses()) {
    // Before its exec the command is a copy of brink; readers that keep the first mapping of a file would keep ours.
    if (armed_ns_ == 0 && child_ && pid == child_->pid()) continue;
    synth.Process(pid, time_ns);
  }
}

std::vector<pid_t> Session::KnownProcesses() const { return filter_->follow_all() ? ListProcesses() : filter_->followed(); }

Status Session::Arm() {
  RETURN_IF_ERROR(source_->Start(*this));
  time_before_ = ReadTargetTime();
  armed_ns_ = MonotonicNs();
  // With enable_on_exec the events wait for the command's exec by themselves.
  if (spec_.enable && !Plan().enable_on_exec) RETURN_IF_ERROR(events_.Enable());
  if (!child_) return OkStatus();
  Status released = child_->Release();
  not_executed_ = !released.ok() && ErrnoOf(released) != 0;
  return released;
}

StatusOr<std::optional<ExecFailure>> Session::ArmCommand() {
  Status armed = Arm();
  if (armed.ok()) return std::nullopt;
  if (!not_executed_) return armed;
  (void)child_->Wait();
  return ExecFailure{ErrnoOf(armed) == ENOENT ? 127 : 126, Message(armed)};
}

Status Session::Enable() { return events_.Enable(); }

CpuTime Session::ReadTargetTime() const {
  if (run_cgroup_) return run_cgroup_->ReadCpuTime();
  if (target_.kind == TargetKind::kProcesses) return ReadCpuTime(target_.processes);
  auto busy = ReadBusyTime(target_.cpus);
  return busy.ok() ? CpuTime{busy->user_ns, busy->system_ns} : CpuTime{};
}

Status Session::Stop() {
  if (stopped_) return stop_status_;
  stopped_ = true;
  events_.Disable();
  stopped_ns_ = MonotonicNs();
  // Threads, cgroups of others and the command without its group: no figure that could be compared.
  bool known = run_cgroup_ || target_.kind == TargetKind::kProcesses || target_.kind == TargetKind::kAllCpus;
  if (known && armed_ns_) {
    CpuTime now = ReadTargetTime();
    if (now.total() >= time_before_.total()) busy_ = CpuTime{now.user_ns - time_before_.user_ns, now.system_ns - time_before_.system_ns};
  }
  if (source_) source_->Stop();
  events_.Close();
  if (core_) core_->Detach();
  if (running_) {
    drain_->Stop();
    if (!drain_->started()) pool_->PutControl(Control::kStop);
    stop_status_ = writer_->Join();
  }
  return stop_status_;
}

bool Session::TargetAlive() const {
  if (target_.kind != TargetKind::kProcesses && target_.kind != TargetKind::kThreads) return true;
  return std::any_of(target_.tasks.begin(), target_.tasks.end(), [&](const TargetTask& task) {
    // A process whose children still run is followed on.
    return (core_ && core_->config().target_mode != BRINK_TARGET_ALL && core_->HasTask(task.id)) || ReadTaskStat(task.id).ok();
  });
}

Status Session::AddCpu(int cpu) {
  ASSIGN_OR_RETURN(std::unique_ptr<PerfRing> ring, OpenSideBandRing(cpu, spec_.side_band_pages));
  const int fd = ring->fd();
  RETURN_IF_ERROR(drain_->AddPerfRing(std::move(ring)));
  ring_of_cpu_[cpu] = fd;
  bool wanted = spec_.target.cpus.empty() || std::find(target_.cpus.begin(), target_.cpus.end(), cpu) != target_.cpus.end();
  if (wanted && !inherit_ && source_->traits().sampling_events) unsampled_.insert(cpu);
  cpu_came_ = true;
  return OkStatus();
}

void Session::RemoveCpu(int cpu) {
  events_.CloseCpu(cpu);
  drain_->RemovePerfRing(ring_of_cpu_[cpu]);
  ring_of_cpu_.erase(cpu);
  unsampled_.erase(cpu);
}

// Tried again at each tick, told once.
void Session::TellOnce(int cpu, const Status& why) {
  if (unfollowed_.insert(cpu).second) notes_.push_back("CPU " + std::to_string(cpu) + " came online and could not be recorded at once: " + Message(why));
}

void Session::FollowHotplug() {
  std::vector<int> online = OnlineCpus();
  for (int cpu : online) {
    if (ring_of_cpu_.contains(cpu)) continue;
    Status added = AddCpu(cpu);
    if (added.ok()) notes_.push_back("CPU " + std::to_string(cpu) + " came online");
    else TellOnce(cpu, added);
  }
  std::vector<int> gone;
  for (const auto& [cpu, ring] : ring_of_cpu_) {
    if (std::find(online.begin(), online.end(), cpu) == online.end()) gone.push_back(cpu);
  }
  for (int cpu : gone) {
    RemoveCpu(cpu);
    notes_.push_back("CPU " + std::to_string(cpu) + " went offline");
  }
  std::erase_if(unsampled_, [this](int cpu) {
    Status opened = events_.OpenCpu(cpu);
    if (opened.ok()) return true;
    events_.CloseCpu(cpu);  // all events of the CPU or none
    TellOnce(cpu, opened);
    return false;
  });
}

BpfCounters Session::counters() const { return core_ ? core_->ReadCounters() : BpfCounters{}; }

Books Session::books() const {
  Books books;
  ledger_.AddTo(books);
  BpfCounters counters = this->counters();
  books.events = counters[BRINK_CNT_EVENTS];
  books.filtered = counters[BRINK_CNT_FILTERED];
  books.filter_unknown = counters[BRINK_CNT_FILTER_UNKNOWN];
  books.without_stack = counters[BRINK_CNT_NO_STACK];
  books.misses_lost = counters[BRINK_CNT_MISS_LOST];
  books.tasks_lost = counters[BRINK_CNT_TASKS_LOST];
  // Lost bytes are counted once for both causes of a failed output; the fuller cause gets them.
  Loss& full = books.of(LossCause::kRingFull);
  Loss& contended = books.of(LossCause::kRingContended);
  full.records += counters[BRINK_CNT_RING_FULL];
  contended.records += counters[BRINK_CNT_RING_CONTENDED];
  (full.records >= contended.records ? full : contended).bytes += counters[BRINK_CNT_LOST_BYTES];
  books.of(LossCause::kThrottled).records += counters[BRINK_CNT_THROTTLED];
  books.of(LossCause::kSkipped).records += counters[BRINK_CNT_RECURSION];
  books.of(LossCause::kLate).records += counters[BRINK_CNT_LATE];
  return books;
}

void Session::OnSideBand(std::span<const std::byte> record, RecordSink& sink) {
  if (filter_->Take(record) && !sink.PutPerfRecord(record)) ++side_band_overflows_;
}

void Session::OnSideBandDropped(uint64_t records) {
  ++side_band_overflows_;
  if (records) ledger_.CountLost(LossCause::kSideBand, records, 0);
}

void Session::OnSample(const brink_sample& sample) { source_->OnSample(sample); }

void Session::OnOtherRecord(std::span<const std::byte> record) { source_->OnRecord(record); }

uint64_t Session::OldestUnderWay() { return source_->OldestUnderWay(); }

void Session::OnTick(uint64_t now_ns, bool last, RecordSink& sink) {
  source_->OnTick(now_ns);
  filter_->ForgetEnded(now_ns);
  // What happened on a new CPU before its ring was open is not in the ring either.
  if (side_band_overflows_ != resynced_ || cpu_came_.exchange(false)) {
    resynced_ = side_band_overflows_;
    filter_->FollowChildrenInProc();
    Synthesize(sink, now_ns);
  }
  if (!last && now_ns - counted_ns_ < kCountersEveryNs) return;
  counted_ns_ = now_ns;
  Books books = this->books();
  for (size_t i = 0; i < books.lost.size(); ++i) {
    Loss fresh = {books.lost[i].records - told_.lost[i].records, books.lost[i].bytes - told_.lost[i].bytes};
    if (fresh.records) sink.PutLost(static_cast<LossCause>(i), fresh, now_ns);
  }
  told_ = books;
}

void Session::OnRotating() {
  before_rotation_.clear();
  for (pid_t pid : KnownProcesses()) Synthesizer(before_rotation_[pid]).Process(pid, 0);
  programs_before_rotation_ = {};
  Synthesizer(programs_before_rotation_).BpfPrograms();
}

// Between the last round of the old file and this moment processes may have ended whose last samples are still to come.
void Session::OnNewFile(RecordSink& sink) {
  for (const auto& [pid, records] : before_rotation_) {
    auto stat = ReadTaskStat(pid);
    // A zombie has a name and no mappings any more.
    if (!stat.ok() || stat->state == 'Z' || stat->state == 'X') records.Replay(sink);
  }
  before_rotation_.clear();
  programs_before_rotation_.Replay(sink);
  Synthesize(sink, 0);
}

}  // namespace brink
