// Is what the plugin records true? Against a single-stepped run, and against the code between the branches.
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "harness.h"
#include "ranges.h"
#include "stepped.h"
#include "workload.h"

namespace brink::guest {
namespace {

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
    std::vector<Edge> truth = Stepped(seed, memory), recorded = UserEdges(Recorded(seed, memory, PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER));
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
