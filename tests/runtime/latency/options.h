// What the tests of options share.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/latency/support.h"

namespace brink::latency {

inline ProcessResult Cyc(std::vector<std::string> args) {
  args.push_back("-q");
  return RunAsCyclictest(args);
}

#define RUN_OR_FAIL(name, ...)          \
  ProcessResult name = Cyc(__VA_ARGS__); \
  ASSERT_EQ(name.status, 0) << name.err

// The CPU each thread was pinned to, from cyclictest's JSON.
inline std::vector<int> CpusOf(std::vector<std::string> args) {
  args.insert(args.end(), {"-l", "2", "--json=-"});
  ProcessResult run = Cyc(args);
  size_t brace = run.out.find('{');
  if (brace == std::string::npos) return {};
  std::string text = run.out.substr(brace, run.out.rfind("}\n") + 1 - brace);
  auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<int> cpus;
  if (json.is_discarded()) return cpus;
  for (const auto& [key, thread] : json["thread"].items()) cpus.push_back(thread["cpu"]);
  return cpus;
}

inline bool CanFifo() {
  pid_t child = ::fork();
  if (child == 0) {
    sched_param param = {.sched_priority = 1};
    ::_exit(::sched_setscheduler(0, SCHED_FIFO, &param) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#define NEED_FIFO() \
  if (!CanFifo()) GTEST_SKIP() << "needs the right to SCHED_FIFO"

}  // namespace brink::latency
