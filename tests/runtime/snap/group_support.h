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

// A process that calls it each millisecond, in a group; or whose children do, each for a fifth of a second; or a thread that is not its
// leader; or a child that is cloned into the group `to` (cgroup v2).
class Calling {
 public:
  enum class How { kSelf, kChildren, kThread, kClonedInto };
  Calling(const std::string& group, How how, const std::string& to = "");
  ~Calling();
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;
  void Enter(const std::string& group) const;
  uint64_t calls() const { return *calls_; }
  // Until there were so many more calls; a test fails where they do not come.
  void Wait(uint64_t more) const;

 private:
  [[noreturn]] void Body(How how, const std::string& to) const;
  [[noreturn]] void Call(int times) const;
  std::atomic<uint64_t>* calls_;
  pid_t pid_;
};

// Whether brink's probes have met more than a few of its calls before long.
bool IsMet(pid_t brink, const Calling& calling);

}  // namespace brink::snap_tests
