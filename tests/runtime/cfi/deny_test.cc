// brink cfi where the kernel has BPF LSM: what is refused does not happen.
#include "guest.h"

namespace brink {
namespace {

// A3 ends in a page that it makes executable: status 43 is the page's own code, 139 a jump into a page that is no code.
// exec executes a program: status 44 is that program's, 42 the chain's own, which goes on behind a call that failed.
TEST_F(CfiGuest, WhatIsDeniedDoesNotHappen) {
  SKIP_UNLESS("bpf.lsm");
  SKIP_UNLESS("branch.snapshot");
  const std::vector<std::string> options = {"--check", "sensitive", "--hook", "raw", "--deny", "P1,P2"}, environment = {"ATTACK_ROUNDS=3", "ATTACK_PROVE=1"};
  const Watched dry = Watch({"A3", "exec"}, options, environment);
  EXPECT_EQ(dry.status.at("A3"), 43);
  EXPECT_EQ(dry.status.at("exec"), 44);
  EXPECT_GE(dry.report["actions"]["dry"], 2);
  EXPECT_EQ(dry.report["actions"]["denied"], 0);
  std::vector<std::string> act = options;
  act.push_back("--act");
  const Watched denied = Watch({"A3", "exec"}, act, environment);
  EXPECT_EQ(denied.status.at("A3"), 139);
  EXPECT_EQ(denied.status.at("exec"), 42);
  EXPECT_GE(denied.report["actions"]["denied"], 2);
  std::printf("| chain to | dry run: status | denied: status |\n|---|---|---|\n| mprotect (A3) | %d | %d |\n| execve | %d | %d |\n", dry.status.at("A3"), denied.status.at("A3"), dry.status.at("exec"), denied.status.at("exec"));
}

}  // namespace
}  // namespace brink
