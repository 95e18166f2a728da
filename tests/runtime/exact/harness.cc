#include "harness.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <bpf/bpf.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "support/process.h"

namespace brink::exact_test {
namespace {

pid_t Start(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = ::fork();
  BRINK_CHECK(pid >= 0);
  if (pid == 0) {
    int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd : {0, 1, 2}) ::dup2(null, fd);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return pid;
}

}  // namespace

std::string TargetPath() { return BRINK_EXACT_TARGET; }

pid_t StartTarget(const std::vector<std::string>& words) {
  std::vector<std::string> all = {TargetPath()};
  all.insert(all.end(), words.begin(), words.end());
  return Start(all);
}

pid_t StartBrink(const std::vector<std::string>& words) {
  std::vector<std::string> all = {testing_support::BrinkBinary()};
  all.insert(all.end(), words.begin(), words.end());
  return Start(all);
}

void SleepMs(double ms) {
  struct timespec pause = {static_cast<time_t>(ms / 1000), static_cast<long>(ms * 1e6) % 1'000'000'000};
  ::nanosleep(&pause, nullptr);
}

int WaitFor(pid_t pid, double seconds) {
  for (int i = 0; i < seconds * 200; ++i) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    SleepMs(5);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return -1;
}

std::vector<uint32_t> BpfPrograms(pid_t pid) {
  std::vector<uint32_t> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo", error)) {
    std::ifstream info(entry.path());
    std::string word;
    for (uint32_t id; info >> word;) {
      if (word == "prog_id:" && info >> id) ids.push_back(id);
    }
  }
  return ids;
}

bool ProgramsAreGone(const std::vector<uint32_t>& ids, double seconds) {
  for (int i = 0; i < seconds * 100; ++i) {
    bool gone = true;
    for (uint32_t id : ids) {
      int fd = ::bpf_prog_get_fd_by_id(id);
      if (fd < 0) continue;
      ::close(fd);
      gone = false;
    }
    if (gone) return true;
    SleepMs(10);
  }
  return false;
}

int Patient(int ms) { return std::getenv("BRINK_EMULATED") ? 8 * ms : ms; }

bool Thorough() { return std::getenv("BRINK_LONG") != nullptr; }

}  // namespace brink::exact_test
