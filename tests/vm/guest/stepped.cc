#include "stepped.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "bpf_session.h"
#include "workload.h"

namespace brink::guest {

std::vector<Edge> Stepped(unsigned seed, char* memory) {
  pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    Workload(seed, memory);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  std::vector<Edge> taken;
  CodeReader code;
  uint64_t before = 0;
  size_t length = 0;
  for (;;) {
    user_regs_struct regs;
    BRINK_CHECK(ptrace(PTRACE_GETREGS, child, 0, &regs) == 0);
    if (before && regs.rip != before && regs.rip != before + length) taken.push_back({before, regs.rip});
    if (regs.rip == WorkloadEnd()) break;
    before = regs.rip;
    std::optional<Instruction> instruction = code.At(regs.rip);
    BRINK_CHECK(instruction.has_value());
    length = instruction->length;
    BRINK_CHECK(ptrace(PTRACE_SINGLESTEP, child, 0, 0) == 0);
    BRINK_CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return taken;
}

Stack Recorded(unsigned seed, char* memory, uint64_t branch_type, uint64_t* select) {
  EventOptions options;
  options.branch_type = branch_type;
  options.cpu = sched_getcpu();
  UniqueFd held(OpenEvent(options));
  BRINK_CHECK(held.valid());
  if (select) *select = DeviceCounter("select");
  BpfSession session;
  int go[2];
  BRINK_CHECK(pipe(go) == 0);
  pid_t child = fork();
  if (child == 0) {
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    Workload(seed, memory);
    _exit(0);
  }
  session.SetTarget(child);
  BRINK_CHECK(session.Attach(GUEST_FENTRY));
  BRINK_CHECK(write(go[1], "x", 1) == 1);
  int status;
  waitpid(child, &status, 0);
  close(go[0]);
  close(go[1]);
  return StackOf(session.Result(GUEST_FENTRY));
}

std::vector<Edge> UserEdges(const Stack& stack) {
  std::vector<Edge> taken;
  for (auto branch = stack.rbegin(); branch != stack.rend(); ++branch)
    if (!InKernel(branch->from)) taken.push_back({branch->from, branch->to});
  return taken;
}

}  // namespace brink::guest
