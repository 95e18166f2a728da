#include "background_agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace brink::agent_tests {

BackgroundAgent::BackgroundAgent(const std::string& dir, std::vector<std::string> options) : dir_(dir) {
  std::vector<std::string> args = {testing_support::BrinkBinary(), "agent", "--socket", socket(), "--dir", folder()};
  args.insert(args.end(), options.begin(), options.end());
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    dup2(pipe_fds[1], 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_fds[1]);
  err_ = pipe_fds[0];
  for (char c; !ready() && read(err_, &c, 1) == 1;) text_ += c;
}

BackgroundAgent::~BackgroundAgent() {
  if (pid_ > 0) End(SIGKILL);
  close(err_);
}

int BackgroundAgent::End(int signal) {
  kill(pid_, signal);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

testing_support::ProcessResult BackgroundAgent::Ctl(std::vector<std::string> words) const {
  words.insert(words.begin(), {"ctl", "--socket", socket()});
  return testing_support::RunBrink(words, {.timeout = std::chrono::seconds(60)});
}

nlohmann::json BackgroundAgent::Ask(std::vector<std::string> words) const {
  words.insert(words.begin(), "--json");
  auto result = Ctl(words);
  return result.status == 0 ? nlohmann::json::parse(result.out, nullptr, false) : nlohmann::json();
}

}  // namespace brink::agent_tests
