#include "support/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"

namespace brink::testing_support {

Background::Background(std::vector<std::string> args, std::string ready) : ready_(std::move(ready)) {
  args.insert(args.begin(), BrinkBinary());
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
    dup2(pipe_fds[1], 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_fds[1]);
  err_ = pipe_fds[0];
  for (char c; !this->ready() && read(err_, &c, 1) == 1;) text_ += c;
}

Background::~Background() {
  if (pid_ > 0) Stop(SIGKILL);
  close(err_);
}

Background::End Background::Stop(int signal) {
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  kill(pid_, signal);
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin)};
}

}  // namespace brink::testing_support
