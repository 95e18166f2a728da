#include "top/recorder_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"

namespace brink::top {
namespace {

constexpr int kPipeBytes = 1 << 20;
constexpr size_t kKeptErrors = 64 * 1024;

// Between fork and exec: system calls only.
[[noreturn]] void Become(char* const* argv, int out, int errors, pid_t parent) {
  const int null = open("/dev/null", O_RDWR);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0) _exit(127);
  // SIGTERM ends a recording in order. A parent that has gone already sends none.
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(127);
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

StatusOr<std::unique_ptr<RecorderChild>> RecorderChild::Start(const std::vector<std::string>& words) {
  std::unique_ptr<RecorderChild> child(new RecorderChild());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe");
  child->stream_.Reset(ends[0]);
  UniqueFd out(ends[1]);
  (void)fcntl(out.get(), F_SETPIPE_SZ, kPipeBytes);  // as much as is allowed
  child->errors_.Reset(memfd_create("brink-top-errors", MFD_CLOEXEC));
  if (!child->errors_.valid()) return ErrnoError(errno, "memfd_create");
  (void)fcntl(child->errors_.get(), F_SETFL, O_APPEND);
  std::vector<char*> argv = {const_cast<char*>("brink")};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t self = getpid();
  child->pid_ = fork();
  if (child->pid_ < 0) return ErrnoError(errno, "fork");
  if (child->pid_ == 0) Become(argv.data(), out.get(), child->errors_.get(), self);
  return child;
}

RecorderChild::~RecorderChild() {
  if (pid_ <= 0 || status_ >= 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

std::string RecorderChild::stream_path() const { return "/proc/self/fd/" + std::to_string(stream_.get()); }

void RecorderChild::RequestEnd() {
  if (pid_ > 0 && status_ < 0) kill(pid_, SIGINT);
}

int RecorderChild::Wait() {
  if (status_ >= 0) return status_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string RecorderChild::LastWords() const {
  const off_t size = lseek(errors_.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kKeptErrors));
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t n = pread(errors_.get(), text.data(), text.size(), from);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  std::string last;
  for (std::string_view line : Split(text, '\n')) {
    if (!Trim(line).empty()) last = std::string(line);
  }
  return last;
}

}  // namespace brink::top
