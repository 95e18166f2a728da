#include "session/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"

namespace brink {
namespace {

// In the child: nothing but async-signal-safe calls until execvp.
[[noreturn]] void ChildMain(char* const* argv, int go, int error_fd, bool stdout_to_stderr) {
  char byte;
  ssize_t n;
  do {
    n = read(go, &byte, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) _exit(125);  // brink is gone
  // What brink blocks and ignores for itself is not the command's business.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (stdout_to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
  execvp(argv[0], argv);
  int error = errno;
  [[maybe_unused]] ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(error == ENOENT ? 127 : 126);
}

CpuTime TimeOf(const rusage& usage) {
  auto ns = [](const timeval& t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_usec) * 1000; };
  return {ns(usage.ru_utime), ns(usage.ru_stime)};
}

}  // namespace

StatusOr<std::unique_ptr<CommandChild>> CommandChild::Fork(const std::vector<std::string>& argv, const Options& options) {
  std::unique_ptr<CommandChild> child(new CommandChild);
  child->name_ = argv[0];
  int go[2], error[2];
  if (pipe2(go, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe");
  UniqueFd go_read(go[0]);
  child->go_.Reset(go[1]);
  if (pipe2(error, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe");
  child->exec_error_.Reset(error[0]);
  UniqueFd error_write(error[1]);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = fork();
  if (pid < 0) return ErrnoError(errno, "fork");
  if (pid == 0) {
    close(go[1]);
    close(error[0]);
    ChildMain(words.data(), go[0], error[1], options.stdout_to_stderr);
  }
  child->pid_ = pid;
  child->pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!child->pidfd_.valid()) return ErrnoError(errno, "pidfd_open of the command");
  return child;
}

CommandChild::~CommandChild() {
  if (pid_ < 0 || reaped_ || released_) return;
  go_.Reset();  // end of file: the child leaves
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status CommandChild::Release() {
  char byte = 1;
  // Not an error of exec: without its errno. The child still waits and ends with us.
  if (Status written = WriteAll(go_.get(), &byte, 1); !written.ok()) return FailedPrecondition("let the command begin: " + Message(written));
  released_ = true;
  go_.Reset();
  int error = 0;
  ssize_t n;
  do {
    n = read(exec_error_.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  exec_error_.Reset();
  if (n != sizeof(error)) return OkStatus();  // end of file: exec closed it
  return ErrnoError(error, EscapeForTerminal(name_));
}

int ShellStatus(int wait_status) { return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status); }

StatusOr<CommandChild::End> CommandChild::Wait() {
  int status = 0;
  rusage usage = {};
  pid_t got;
  do {
    got = wait4(pid_, &status, 0, &usage);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoError(errno, "wait for the command");
  reaped_ = true;
  return End{status, TimeOf(usage)};
}

StatusOr<int> CommandChild::Finish(bool asked) {
  constexpr int kGraceMs = 3000;
  pollfd ended = {pidfd_.get(), POLLIN, 0};
  if (asked && poll(&ended, 1, 0) == 0) {
    Signal(SIGTERM);
    if (poll(&ended, 1, kGraceMs) == 0) Signal(SIGKILL);
  }
  ASSIGN_OR_RETURN(End end, Wait());
  return ShellStatus(end.wait_status);
}

void CommandChild::Signal(int signal) {
  if (!reaped_) syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

}  // namespace brink
