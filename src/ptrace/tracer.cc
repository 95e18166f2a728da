#include "ptrace/tracer.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>

#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace brink::ptrace {
namespace {

constexpr int kSyscallStop = SIGTRAP | 0x80;

unsigned long SeizeOptions(const FollowConfig& config) {
  unsigned long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
  if (config.follow_children) options |= PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  return options;
}

bool IsGroupStop(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

}  // namespace

Tracer::Tracer(const FollowConfig& config, SharedRing* ring, int control)
    : config_(config), ring_(ring), control_(control), recorder_(config, ring), engine_(MakeEngine(&recorder_)) {
  // A whole run waits for its reader: the threads stand still anyway. Windows rather lose a sample.
  if (config.whole_run) recorder_.set_wait_for_room([this] { return WaitForRoom(); });
}

Tracer::~Tracer() = default;

Thread* Tracer::Find(pid_t tid) {
  auto at = threads_.find(tid);
  return at == threads_.end() ? nullptr : at->second.get();
}

Thread& Tracer::Add(pid_t tid, pid_t tgid) {
  auto thread = std::make_unique<Thread>();
  thread->tid = tid;
  thread->tgid = tgid;
  for (const auto& [other_tid, other] : threads_) {
    if (other->tgid == tgid) thread->process = other->process;
  }
  recorder_.Count(kThreads);
  auto& slot = threads_[tid];
  slot = std::move(thread);
  return *slot;
}

void Tracer::Send(MessageType type, pid_t pid, int error, uint32_t value) {
  Message message = MakeMessage(type, pid, error, value);
  ::send(control_, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Tracer::Run() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  ::sigaddset(&set, SIGIO);
  uint64_t waited_ms = 0;
  PollControl();  // what came before SIGIO was asked for
  for (uint32_t round = 0;; ++round) {
    if (Reap()) {
      waited_ms = 0;
      if (round % 64 == 0) PollControl();
      continue;
    }
    if (leaving_) std::erase_if(threads_, [&](auto& entry) { return !StillDirty(*entry.second); });
    if (leaving_ && threads_.empty()) break;
    struct timespec timeout = {0, leaving_ ? 5'000'000 : 100'000'000};
    int signal = ::sigtimedwait(&set, nullptr, &timeout);
    if (signal != SIGCHLD) PollControl();
    if (leaving_ && signal != SIGCHLD) NudgeDirty(waited_ms += 5);
  }
  Send(MessageType::kLeft);
}

bool Tracer::WaitForRoom() {
  constexpr int kPatienceMs = 1000;
  for (int i = 0; i < kPatienceMs && !orphaned_; ++i) {
    Send(MessageType::kData);
    struct timespec pause = {0, 1'000'000};
    ::nanosleep(&pause, nullptr);
    if (ring_->used() < ring_->size() / 2) return true;
    char peek;
    orphaned_ = ::recv(control_, &peek, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }
  return false;
}

void Tracer::PollControl() {
  Message message;
  while (!orphaned_) {
    ssize_t n = ::recv(control_, &message, sizeof message, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      orphaned_ = true;
    } else if (n < 0) {
      break;
    } else if (n == sizeof message && message.version == kProtocolVersion) {
      Handle(message);
    }
  }
  if (orphaned_) BeginLeave();
  bool much = ring_->used() > ring_->size() / 4;
  if (much && !data_announced_) Send(MessageType::kData);
  data_announced_ = much;
}

void Tracer::Handle(const Message& message) {
  uint32_t attached = 1;
  int error = 0;
  switch (static_cast<MessageType>(message.type)) {
    case MessageType::kAttachThread: error = Attach(message.pid, true); break;
    case MessageType::kAttachProcess: error = AttachProcess(message.pid, &attached); break;
    case MessageType::kAttachCommand: error = Attach(message.pid, false); break;
    case MessageType::kLeave: return BeginLeave();
    default: return;
  }
  if (error == 0) Send(MessageType::kAttached, message.pid, 0, attached);
  else Send(MessageType::kRefused, message.pid, error);
}

int Tracer::Arm(Thread& thread) {
  auto tick = OpenTick(thread.tid, config_.period_ns, config_.at);
  if (!tick.ok()) {
    recorder_.Count(kNoTick);
    return ErrnoOf(tick.status());
  }
  thread.tick.Reset(*tick);
  thread.had_tick = true;
  return 0;
}

int Tracer::Attach(pid_t tid, bool with_tick) {
  if (Find(tid)) return 0;
  SignalStatus status;
  if (!ReadSignalStatus(tid, &status) || status.zombie()) return ESRCH;
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, SeizeOptions(config_)) != 0) return errno;
  Thread& thread = Add(tid, status.tgid);
  thread.started = true;
  if (!thread.machine.To(ThreadState::kArmed)) recorder_.Count(kIllegalState);
  return with_tick ? Arm(thread) : 0;
}

int Tracer::AttachProcess(pid_t pid, uint32_t* attached) {
  std::string folder = "/proc/" + std::to_string(pid) + "/task";
  *attached = 0;
  int last_error = ESRCH;
  // Threads may be made while we look; those of seized threads come by themselves. Done when a look finds no new one.
  for (bool found = true; found;) {
    found = false;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      pid_t tid = std::atoi(entry.path().filename().c_str());
      if (tid <= 0 || Find(tid)) continue;
      int error = Attach(tid, true);
      if (error == 0) {
        found = true;
        ++*attached;
      } else if (error != ESRCH) {
        last_error = error;
      }
    }
  }
  return *attached > 0 ? 0 : last_error;
}

bool Tracer::Reap() {
  int status = 0;
  pid_t tid = ::waitpid(-1, &status, __WALL | WNOHANG);
  if (tid <= 0) return false;
  Dispatch(tid, status);
  return true;
}

void Tracer::Dispatch(pid_t tid, int status) {
  if (!WIFSTOPPED(status)) return OnGone(tid);
  Thread* thread = Find(tid);
  if (!thread) {  // a child of a followed thread: its first stop may come before its parent's event
    SignalStatus about;
    thread = &Add(tid, ReadSignalStatus(tid, &about) ? about.tgid : tid);
  }
  thread->stopped = true;
  thread->listening = false;
  int signal = WSTOPSIG(status);
  int event = status >> 16;
  if (leaving_) LeaveStopped(*thread, signal, event);
  else OnStop(*thread, signal, event);
}

void Tracer::OnStop(Thread& thread, int signal, int event) {
  if (event == PTRACE_EVENT_EXEC) return OnExec(thread.tid);
  if (event != 0) return OnPtraceEvent(thread, signal, event);
  if (signal == kSyscallStop) return engine_->OnSyscall(thread);
  if (signal == SIGTRAP) return OnSigtrap(thread);
  engine_->OnSignal(thread, signal);
}

void Tracer::OnPtraceEvent(Thread& thread, int signal, int event) {
  if (event == PTRACE_EVENT_STOP && IsGroupStop(signal)) {
    engine_->OnGroupStop(thread);
    Resume(thread, PTRACE_LISTEN);
    thread.listening = true;
  } else if (!thread.started) {
    thread.started = true;
    if (!config_.whole_run) Arm(thread);
    engine_->OnStart(thread);
  } else {
    engine_->OnEvent(thread);
  }
}

void Tracer::OnSigtrap(Thread& thread) {
  TrapKind kind = ClassifyTrap(thread.tid);
  if (kind == TrapKind::kTick) {
    engine_->OnTick(thread);
  } else if (kind == TrapKind::kLateTick) {
    recorder_.Count(kSigtrapBlocked);
    engine_->OnEvent(thread);
  } else if (IsOwnTrap(thread, kind)) {
    engine_->OnTrap(thread, kind);
  } else {
    engine_->OnSignal(thread, SIGTRAP);
  }
}

// The event comes as the leader, whichever thread called exec; the others are gone without a word.
void Tracer::OnExec(pid_t pid) {
  std::vector<pid_t> gone;
  for (const auto& [tid, thread] : threads_) {
    if (thread->tgid == pid) gone.push_back(tid);
  }
  for (pid_t tid : gone) {
    engine_->Close(*Find(tid), false);
    threads_.erase(tid);
  }
  Thread& thread = Add(pid, pid);
  thread.process = std::make_shared<Process>();
  thread.stopped = true;
  thread.started = true;
  if (!config_.whole_run) Arm(thread);
  engine_->OnExec(thread);
}

void Tracer::OnGone(pid_t tid) {
  Thread* thread = Find(tid);
  if (!thread) return;
  if (!leaving_) engine_->Close(*thread, false);
  threads_.erase(tid);
  if (threads_.empty() && !leaving_) Send(MessageType::kAllGone);
}

}  // namespace brink::ptrace
