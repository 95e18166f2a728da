#include "support/process.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"

namespace brink::testing_support {
namespace {

struct Pipe {
  UniqueFd read, write;
  Pipe() {
    int fds[2];
    BRINK_CHECK(::pipe2(fds, O_CLOEXEC) == 0);
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
};

// Reads both ends until closed or the deadline; false when time ran out.
bool Collect(int out, int err, ProcessResult* result, std::chrono::steady_clock::time_point deadline) {
  struct pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[2] = {&result->out, &result->err};
  int open = 2;
  while (open > 0) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0 || ::poll(fds, 2, static_cast<int>(left)) == 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (!(fds[i].revents & (POLLIN | POLLHUP))) continue;
      char block[65536];
      ssize_t n = ::read(fds[i].fd, block, sizeof block);
      if (n > 0) {
        texts[i]->append(block, static_cast<size_t>(n));
      } else {
        fds[i].fd = -1;
        --open;
      }
    }
  }
  return true;
}

std::string Env(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

}  // namespace

ProcessResult Run(const std::vector<std::string>& argv, const RunOptions& options) {
  TempDir stdin_dir;
  std::string stdin_path = stdin_dir.File("stdin");
  {
    auto fd = OpenFile(stdin_path, O_WRONLY | O_CREAT);
    BRINK_CHECK(fd.ok() && WriteAll(fd->get(), options.stdin_text.data(), options.stdin_text.size()).ok());
  }
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  Pipe out, err;
  ProcessResult result;
  pid_t pid = ::fork();
  BRINK_CHECK(pid >= 0);
  if (pid == 0) {
    ::setpgid(0, 0);
    int in = ::open(stdin_path.c_str(), O_RDONLY);
    ::dup2(in, 0);
    ::dup2(out.write.get(), 1);
    ::dup2(err.write.get(), 2);
    if (!options.cwd.empty() && ::chdir(options.cwd.c_str()) != 0) ::_exit(127);
    for (const std::string& pair : options.env) ::putenv(const_cast<char*>(pair.c_str()));
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  out.write.Reset();
  err.write.Reset();
  result.timed_out = !Collect(out.read.get(), err.read.get(), &result, std::chrono::steady_clock::now() + options.timeout);
  if (result.timed_out) ::kill(-pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

ProcessResult RunBrink(std::vector<std::string> args, const RunOptions& options) {
  args.insert(args.begin(), BrinkBinary());
  return Run(args, options);
}

std::string BrinkBinary() { return Env("BRINK_BINARY", "build/brink"); }
std::string SourceDir() { return Env("BRINK_SOURCE_DIR", "."); }

TempDir::TempDir() {
  std::string pattern = std::filesystem::temp_directory_path() / "brink-test-XXXXXX";
  BRINK_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::optional<std::string> SharedData(const std::string& name) {
  std::string root = Env("BRINK_SHARED", "");
  if (root.empty()) root = SourceDir() + "/../shared";
  std::string path = root + "/data/" + name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

}  // namespace brink::testing_support
