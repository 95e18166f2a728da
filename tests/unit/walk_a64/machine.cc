#include "machine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

namespace brink::walk_test {
namespace {

[[maybe_unused]] std::string FindEmulator() {
  for (const char* path : {"/usr/bin/qemu-aarch64-static", "/usr/bin/qemu-aarch64"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return "";
}

template <typename Call, typename Pointer>
bool Whole(Call call, int fd, Pointer* data, size_t size) {
  auto* at = reinterpret_cast<std::conditional_t<std::is_const_v<Pointer>, const char, char>*>(data);
  while (size > 0) {
    const ssize_t n = call(fd, at, size);
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

std::unique_ptr<Machine> Machine::Start(std::string* why) {
#ifndef A64_RUNNER
  *why = "needs clang and lld to build the program that the emulator runs";
  return nullptr;
#else
  std::vector<std::string> command;
#ifndef __aarch64__
  const std::string emulator = FindEmulator();
  if (emulator.empty()) {
    *why = "needs qemu-aarch64 (package qemu-user)";
    return nullptr;
  }
  // Without scalable vectors the frame of a signal says all there is.
  command = {emulator, "-cpu", "max,sve=off,sme=off"};
#endif
  command.push_back(A64_RUNNER);
  ::signal(SIGPIPE, SIG_IGN);
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0) {
    *why = "no pipe";
    return nullptr;
  }
  if (::pipe2(from, O_CLOEXEC) != 0) {
    *why = "no pipe";
    for (int fd : to) ::close(fd);
    return nullptr;
  }
  const pid_t child = ::fork();
  if (child < 0) {
    *why = "no process";
    for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
    return nullptr;
  }
  if (child == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  return std::unique_ptr<Machine>(new Machine(child, to[1], from[0]));
#endif
}

Machine::~Machine() {
  ::close(in_);
  ::close(out_);
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

std::vector<a64_state> Machine::Run(std::span<const a64_input> cases) {
  const uint32_t count = static_cast<uint32_t>(cases.size());
  std::vector<a64_state> states(cases.size());
  if (!Whole(::write, in_, &count, sizeof count) || !Whole(::write, in_, cases.data(), cases.size_bytes()) ||
      !Whole(::read, out_, states.data(), states.size() * sizeof(a64_state))) {
    return {};
  }
  return states;
}

}  // namespace brink::walk_test
