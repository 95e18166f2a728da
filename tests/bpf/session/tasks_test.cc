// The process set that BPF keeps: who is in it, and when.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "kernel/proc_task.h"
#include "session/core.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;

std::unique_ptr<BpfCore> LoadSet(uint32_t mode, uint32_t flags = 0) {
  auto core = BpfCore::Load({.config = {.target_mode = mode, .flags = flags}, .ring_bytes = 64 << 10, .track_tasks = true});
  EXPECT_THAT(core, IsOk());
  if (!core.ok()) return nullptr;
  EXPECT_THAT((*core)->Attach(), IsOk());
  EXPECT_THAT((*core)->AddTask(getpid(), ReadTaskStat(getpid())->start_ticks), IsOk());
  return std::move(*core);
}

// A child that waits to be killed.
pid_t Fork() {
  pid_t pid = fork();
  if (pid == 0) {
    while (true) pause();
  }
  return pid;
}

void End(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

// Members leave when the kernel frees the task, an RCU grace period after it was reaped.
bool LeavesSoon(const BpfCore& core, pid_t pid) {
  for (int i = 0; i < 6000; ++i) {
    if (!core.HasTask(pid)) return true;
    usleep(10'000);
  }
  return false;
}

TEST(TaskSet, AChildIsInBeforeForkReturns) {
  SKIP_UNLESS("bpf.raw_tp");
  auto core = LoadSet(BRINK_TARGET_TGIDS);
  ASSERT_TRUE(core);
  for (int i = 0; i < 100; ++i) {
    pid_t child = Fork();
    EXPECT_TRUE(core->HasTask(child)) << i;
    End(child);
  }
}

TEST(TaskSet, MembersLeaveAfterTheirEndAndNotBefore) {
  SKIP_UNLESS("bpf.raw_tp");
  auto core = LoadSet(BRINK_TARGET_TGIDS);
  ASSERT_TRUE(core);
  pid_t child = Fork();
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(core->HasTask(child)) << "the rest of its exit still counts as its own";
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(LeavesSoon(*core, child));
}

TEST(TaskSet, StrangersAndThreadsDoNotJoin) {
  SKIP_UNLESS("bpf.raw_tp");
  auto core = LoadSet(BRINK_TARGET_TGIDS);
  ASSERT_TRUE(core);
  EXPECT_FALSE(core->HasTask(getppid()));
  std::thread thread([&] { EXPECT_FALSE(core->HasTask(gettid())); });
  thread.join();
}

TEST(TaskSet, ChildrenStayOutWhenToldSo) {
  SKIP_UNLESS("bpf.raw_tp");
  auto core = LoadSet(BRINK_TARGET_TGIDS, BRINK_CFG_NO_CHILDREN);
  ASSERT_TRUE(core);
  pid_t child = Fork();
  EXPECT_FALSE(core->HasTask(child));
  End(child);
}

TEST(TaskSet, AThreadThatExecsTakesItsMembershipAlong) {
  SKIP_UNLESS("bpf.raw_tp");
  int tid_pipe[2], go_pipe[2];
  ASSERT_EQ(pipe2(tid_pipe, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(go_pipe, O_CLOEXEC), 0);
  pid_t child = fork();
  if (child == 0) {
    std::thread([&] {
      pid_t tid = gettid();
      [[maybe_unused]] ssize_t n = write(tid_pipe[1], &tid, sizeof(tid));
      char byte;
      n = read(go_pipe[0], &byte, 1);
      execl("/bin/sleep", "sleep", "100", nullptr);
    }).join();
    _exit(1);
  }
  pid_t tid = 0;
  ASSERT_EQ(read(tid_pipe[0], &tid, sizeof(tid)), static_cast<ssize_t>(sizeof(tid)));
  auto core = LoadSet(BRINK_TARGET_TIDS);
  ASSERT_TRUE(core);
  ASSERT_THAT(core->AddTask(tid, ReadThreadStat(child, tid)->start_ticks), IsOk());
  ASSERT_EQ(write(go_pipe[1], "x", 1), 1);
  // After the exec the thread has the process's own id.
  for (int i = 0; i < 6000 && !core->HasTask(child); ++i) usleep(10'000);
  int ended = 0;
  EXPECT_EQ(waitpid(child, &ended, WNOHANG), 0) << "it did not execute: status " << ended;
  EXPECT_TRUE(core->HasTask(child));
  EXPECT_FALSE(core->HasTask(tid));
  EXPECT_TRUE(core->HasTask(getpid()));
  End(child);
  for (int fd : {tid_pipe[0], tid_pipe[1], go_pipe[0], go_pipe[1]}) close(fd);
}

}  // namespace
}  // namespace brink
