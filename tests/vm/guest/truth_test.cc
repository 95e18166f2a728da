// Is what the plugin records true? Against a single-stepped run, and against the code between the branches.
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "bpf_session.h"
#include "harness.h"
#include "ranges.h"
#include "workload.h"

namespace brink::guest {
namespace {

struct Edge {
  uint64_t from, to;
  bool operator==(const Edge&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Edge& e) {
    return out << std::hex << e.from << "->" << e.to << std::dec;
  }
};

// Taken branches of a child that runs Workload, oldest first, by stepping each instruction.
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

// The same run at full speed; its branches as the snapshot at the last system call has them, oldest first.
std::vector<Edge> Recorded(unsigned seed, char* memory) {
  EventOptions options;
  options.branch_type = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER;
  options.cpu = sched_getcpu();
  UniqueFd held(OpenEvent(options));
  BRINK_CHECK(held.valid());
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
  std::vector<Edge> taken;
  for (const guest_branch& branch : StackOf(session.Result(GUEST_FENTRY)))
    if (!InKernel(branch.from)) taken.insert(taken.begin(), {branch.from, branch.to});  // returns from faults and interrupts
  return taken;
}

class Truth : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!HasBranchHardware("plugin")) GTEST_SKIP() << "needs a guest with the plugin's branch records";
    if (GetParam() >= OnlineCpus()) GTEST_SKIP() << "needs " << GetParam() + 1 << " CPUs";
    PinTo(GetParam());
  }
};

TEST_P(Truth, UserBranchesEqualTheSingleSteppedOnes) {
  for (unsigned seed = 1; seed <= 4; seed++) {
    char* memory = FreshMemory();
    std::vector<Edge> truth = Stepped(seed, memory), recorded = Recorded(seed, memory);
    ASSERT_GE(recorded.size(), 32u) << "seed " << seed;
    ASSERT_GE(truth.size(), recorded.size());
    truth.erase(truth.begin(), truth.end() - recorded.size());
    EXPECT_EQ(recorded, truth) << "seed " << seed;
    munmap(memory, kWorkloadPages * 4096);
  }
}

std::vector<Sample> ChurnSampled(uint64_t period, int seconds) {
  EventOptions options;
  options.branch_type |= PERF_SAMPLE_BRANCH_TYPE_SAVE;
  options.period = period;
  options.cpu = sched_getcpu();
  Sampler sampler(options);
  std::vector<Sample> samples;
  std::atomic<bool> stop = false;
  std::thread churn(Churn, std::cref(stop));
  sampler.Start();
  for (int i = 0; i < seconds * 10; i++) {
    usleep(100'000);
    for (Sample& sample : sampler.Read()) samples.push_back(std::move(sample));
  }
  sampler.Stop();
  stop = true;
  churn.join();
  return samples;
}

TEST_P(Truth, NeighbouringRecordsAreStraightLinesOfTheCountedLength) {
  KernelSymbols symbols;
  CodeReader code;
  size_t pairs = 0, exact = 0, faults = 0, kernel = 0, seams = 0, unreadable = 0, bent = 0, wrong_clock = 0;
  for (const Sample& sample : ChurnSampled(200'003, 4)) {
    // User code of others cannot be read from here.
    if (sample.tgid != static_cast<uint32_t>(getpid())) continue;
    for (size_t i = 0; i + 1 < sample.stack.size(); i++) {
      const guest_branch &newer = sample.stack[i], &older = sample.stack[i + 1];
      faults += Type(newer) == PERF_BR_IRQ;
      // Where the PMU itself switched recording on again there is a gap, as hardware has it too.
      if (symbols.Name(newer.from).ends_with("[brink_lbr]")) {
        seams++;
        continue;
      }
      if (!code.At(older.to)) {
        unreadable++;
        continue;
      }
      RangeResult range = CheckRange(code, older.to, newer.from);
      pairs++;
      kernel += InKernel(newer.from);
      // An interrupt's record starts at the instruction that did not run.
      size_t expected = Type(newer) == PERF_BR_IRQ ? range.instructions - 1 : range.instructions;
      if (!range.straight) {
        if (++bent <= 5)
          ADD_FAILURE() << std::hex << older.to << " (" << symbols.Name(older.to) << ") to " << newer.from << " ("
                        << symbols.Name(newer.from) << ") is not straight; type " << Type(newer) << " before " << Type(older);
      } else if (Cycles(newer) == std::max<size_t>(expected, 1)) {
        exact++;
      } else if (!range.repeats && Type(newer) != PERF_BR_IRQ) {
        if (++wrong_clock <= 5)
          ADD_FAILURE() << std::hex << older.to << " to " << newer.from << " (" << symbols.Name(newer.from) << std::dec
                        << "): counted " << Cycles(newer) << ", decoded " << expected;
      }
    }
  }
  printf("pairs %zu, of them in the kernel %zu, with exact clock %zu; interrupts and faults %zu, seams %zu, unreadable %zu\n",
         pairs, kernel, exact, faults, seams, unreadable);
  EXPECT_GT(pairs, 1000u);
  EXPECT_GT(kernel, pairs / 10);
  EXPECT_GT(faults, 0u);
  EXPECT_EQ(bent, 0u);
  EXPECT_EQ(wrong_clock, 0u);
  EXPECT_LT(unreadable, pairs / 100 + 1);
  EXPECT_EQ(DeviceCounter("unexplained"), 0u) << DeviceText();
}

TEST_P(Truth, TheNewestRecordLeadsToTheSample) {
  CodeReader code;
  size_t checked = 0;
  for (const Sample& sample : ChurnSampled(200'003, 2)) {
    if (sample.tgid != static_cast<uint32_t>(getpid()) || sample.stack.empty()) continue;
    EXPECT_TRUE(CheckRange(code, sample.stack.front().to, sample.ip).straight)
        << std::hex << sample.stack.front().to << " to " << sample.ip;
    checked++;
  }
  EXPECT_GT(checked, 50u);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Truth, testing::Values(0, 1));

}  // namespace
}  // namespace brink::guest
