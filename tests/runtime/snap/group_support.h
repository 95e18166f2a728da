// Two groups, processes in them that call a function, and how often programs of brink's have run, by the kernel's own count.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What probes are set at.
extern "C" void SnapOthersCalled(std::atomic<uint64_t>* calls);

namespace brink::snap_tests {

// How often the programs of `pid` have run that are of a type (/proc/PID/fdinfo; only while the kernel counts). Nothing: it has none.
std::optional<uint64_t> RunsOf(pid_t pid, uint64_t type);
uint64_t RunsOfProbes(pid_t pid);

// Makes the groups where perf events tell groups apart, and has the kernel count.
class GroupsTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::vector<std::string> groups_;  // wanted, other
  int stats_ = -1;
};

// A process that calls it each millisecond, in a group; or whose children do, each for a fifth of a second.
class Calling {
 public:
  Calling(const std::string& group, bool in_children);
  ~Calling();
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;
  void Enter(const std::string& group) const;
  // Until there were so many more calls.
  void Wait(uint64_t more) const;

 private:
  [[noreturn]] void Body(bool in_children) const;
  std::atomic<uint64_t>* calls_;
  pid_t pid_;
};

// Whether brink's probes have met more than a few of its calls before long.
bool IsMet(pid_t brink, const Calling& calling);

}  // namespace brink::snap_tests
