#include "ptrace/follower.h"

#include <cerrno>
#include <csignal>
#include <ctime>

#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptrace/helper.h"
#include "ptrace/tracee.h"

namespace brink::ptrace {
namespace {

int64_t NowMs() {
  struct timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

std::string Advice(int error) {
  if (error == EPERM || error == EACCES) {
    return " (it is traced already, or CAP_SYS_PTRACE and CAP_PERFMON are missing: run as root or stop the debugger)";
  }
  return "";
}

}  // namespace

StatusOr<std::unique_ptr<Follower>> Follower::Start(const FollowConfig& config, size_t ring_bytes) {
  RETURN_IF_ERROR(CheckArchitecture());
  if (config.depth == 0 || config.depth > BRINK_MAX_WALK_BRANCHES) {
    return InvalidArgument(absl::StrFormat("depth %u: must be 1 to %d", config.depth, BRINK_MAX_WALK_BRANCHES));
  }
  if (config.hop && config.whole_run) return InvalidArgument("a whole run is recorded by step, not by hop");
  std::unique_ptr<Follower> follower(new Follower);
  ASSIGN_OR_RETURN(follower->ring_, SharedRing::Create(ring_bytes));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError(errno, "cannot make the socket to the ptrace helper");
  }
  follower->socket_.Reset(ends[0]);
  UniqueFd theirs(ends[1]);
  follower->helper_ = ::fork();
  if (follower->helper_ < 0) return ErrnoError(errno, "cannot start the ptrace helper");
  if (follower->helper_ == 0) RunHelper(config, follower->ring_.get(), theirs.Release());
  return follower;
}

Follower::~Follower() {
  Leave().IgnoreError();
  socket_.Reset();
}

bool Follower::Receive(int timeout_ms, Message* message) {
  struct pollfd wait = {socket_.get(), POLLIN, 0};
  if (helper_gone_ || ::poll(&wait, 1, timeout_ms) <= 0) return false;
  ssize_t n = ::recv(socket_.get(), message, sizeof *message, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) helper_gone_ = true;
  return n == sizeof *message && message->version == kProtocolVersion;
}

void Follower::Note(const Message& message) {
  if (message.type == static_cast<uint16_t>(MessageType::kAllGone)) all_gone_ = true;
  if (message.type == static_cast<uint16_t>(MessageType::kLeft)) left_ = true;
}

StatusOr<uint32_t> Follower::Ask(MessageType type, pid_t pid) {
  Message question = MakeMessage(type, pid);
  if (::send(socket_.get(), &question, sizeof question, MSG_NOSIGNAL) != sizeof question) {
    return ErrnoError(errno, "the ptrace helper is gone");
  }
  all_gone_ = false;
  constexpr int kPatienceMs = 10'000;
  int64_t deadline = NowMs() + kPatienceMs;
  for (int64_t left = kPatienceMs; left > 0 && !helper_gone_; left = deadline - NowMs()) {
    Message answer;
    if (!Receive(static_cast<int>(left), &answer)) continue;
    if (answer.type == static_cast<uint16_t>(MessageType::kAttached)) return answer.value;
    if (answer.type == static_cast<uint16_t>(MessageType::kRefused)) {
      return ErrnoError(answer.error, absl::StrFormat("cannot follow thread %d%s", pid, Advice(answer.error)));
    }
    Note(answer);
  }
  return Unavailable("the ptrace helper does not answer");
}

StatusOr<uint32_t> Follower::AttachThread(pid_t tid) { return Ask(MessageType::kAttachThread, tid); }
StatusOr<uint32_t> Follower::AttachProcess(pid_t pid) { return Ask(MessageType::kAttachProcess, pid); }
Status Follower::AttachCommand(pid_t pid) { return Ask(MessageType::kAttachCommand, pid).status(); }

StatusOr<size_t> Follower::Drain(const SharedRing::Take& take) {
  Message message;
  while (Receive(0, &message)) Note(message);
  auto count = ring_->Drain(take);
  if (count.ok() && *count == 0 && helper_gone_ && !left_) return Unavailable("the ptrace helper was killed");
  return count;
}

Status Follower::Leave(int patience_ms) {
  if (helper_ < 0) return OkStatus();
  Message goodbye = MakeMessage(MessageType::kLeave);
  ::send(socket_.get(), &goodbye, sizeof goodbye, MSG_NOSIGNAL | MSG_DONTWAIT);
  int64_t deadline = NowMs() + patience_ms;
  for (int64_t left = patience_ms; left > 0 && !left_ && !helper_gone_; left = deadline - NowMs()) {
    Message message;
    if (Receive(static_cast<int>(left), &message)) Note(message);
  }
  if (!left_ && !helper_gone_) {
    return Unavailable("the ptrace helper stays until a thread that blocks SIGTRAP lets go of it; it ends by itself");
  }
  struct rusage usage = {};
  ::wait4(helper_, nullptr, 0, &usage);
  auto ns = [](const timeval& t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_usec) * 1000; };
  helper_cpu_ns_ = ns(usage.ru_utime) + ns(usage.ru_stime);
  helper_ = -1;
  return OkStatus();
}

}  // namespace brink::ptrace
