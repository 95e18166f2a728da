// brink agent in the background, and what it leaves behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/background.h"
#include "support/process.h"

namespace brink::agent_tests {

class BackgroundAgent {
 public:
  // Started with its socket and folder in `dir` and these options; returns when it is ready (or has failed).
  BackgroundAgent(const std::string& dir, std::vector<std::string> options);

  bool ready() const { return process_.ready(); }
  const std::string& text() const { return process_.text(); }  // what it said
  pid_t pid() const { return process_.pid(); }
  std::string socket() const { return dir_ + "/agent.sock"; }
  std::string folder() const { return dir_ + "/files"; }
  // Ends it: exit status, or 128 + signal.
  int End(int signal) { return process_.Stop(signal).status; }

  // brink ctl with this agent's socket.
  testing_support::ProcessResult Ctl(std::vector<std::string> words) const;
  // ctl --json WORDS; null where it failed.
  nlohmann::json Ask(std::vector<std::string> words) const;

 private:
  std::string dir_;
  testing_support::Background process_;
};

// Waits until `condition` holds.
template <typename Condition>
bool Eventually(Condition condition, std::chrono::milliseconds time = std::chrono::seconds(20)) {
  for (auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    if (condition()) return true;
  }
  return condition();
}

}  // namespace brink::agent_tests
