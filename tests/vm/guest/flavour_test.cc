// The module's rules of each maker's driver: what is refused and how, and what the records lack.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "bpf_session.h"
#include "harness.h"

namespace brink::guest {
namespace {

constexpr char kModule[] = "/vm/modules/brink_lbr.ko";
constexpr uint64_t kUser = PERF_SAMPLE_BRANCH_USER, kKernel = PERF_SAMPLE_BRANCH_KERNEL, kAny = PERF_SAMPLE_BRANCH_ANY;

void Unload() { syscall(SYS_delete_module, "brink_lbr", O_NONBLOCK); }

int Load(const std::string& parameters) {
  Unload();
  UniqueFd file(open(kModule, O_RDONLY | O_CLOEXEC));
  return syscall(SYS_finit_module, file.get(), parameters.c_str(), 0) ? -errno : 0;
}

class Flavour : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasBranchHardware("canned")) GTEST_SKIP() << "needs a guest with the module and source=canned";
    PinTo(0);
    replaced_ = true;
  }
  void TearDown() override {
    if (replaced_) Load("source=canned");
  }

 private:
  bool replaced_ = false;
};

int Open(uint64_t branch_type, uint64_t period = 100'000, bool frequency = false, uint32_t type = PERF_TYPE_HARDWARE, uint64_t config = 0) {
  EventOptions options;
  options.branch_type = branch_type;
  options.period = period;
  options.frequency = frequency;
  options.type = type;
  options.config = config;
  int fd = OpenEvent(options);
  if (fd >= 0) close(fd);
  return fd < 0 ? fd : 0;
}

TEST_F(Flavour, IntelTakesAllButMixedCallStacks) {
  ASSERT_EQ(Load("source=canned flavour=intel"), 0);
  EXPECT_EQ(Open(kAny | kUser), 0);
  EXPECT_EQ(Open(kAny | kUser, 0), 0);  // counting
  EXPECT_EQ(Open(PERF_SAMPLE_BRANCH_COND | PERF_SAMPLE_BRANCH_IN_TX | kUser), 0);
  EXPECT_EQ(Open(PERF_SAMPLE_BRANCH_CALL_STACK | kUser), 0);
  EXPECT_EQ(Open(PERF_SAMPLE_BRANCH_CALL_STACK | kAny | kUser), -EINVAL);
}

TEST_F(Flavour, AmdRefusesTransactionsAndCallStacks) {
  ASSERT_EQ(Load("source=canned flavour=amd"), 0);
  EXPECT_EQ(Open(kAny | kUser), 0);
  for (uint64_t flag : {PERF_SAMPLE_BRANCH_IN_TX, PERF_SAMPLE_BRANCH_CALL_STACK, PERF_SAMPLE_BRANCH_NO_CYCLES})
    EXPECT_EQ(Open(kAny | kUser | flag), -EOPNOTSUPP) << std::hex << flag;
}

TEST_F(Flavour, AmdOf61RefusesCounting) {
  ASSERT_EQ(Load("source=canned flavour=amd counting=0"), 0);
  EXPECT_EQ(Open(kAny | kUser), 0);
  EXPECT_EQ(Open(kAny | kUser, 0), -EINVAL);
}

TEST_F(Flavour, AmdRecordsHaveSpecAndNoCycles) {
  ASSERT_EQ(Load("source=canned flavour=amd"), 0);
  constexpr uint64_t kPredicted = 2, kCycles = 77 << 4, kSpec = 3 << 24;
  Feed({{{0x1000, 0x2000, kPredicted | kCycles | kSpec}}});
  EventOptions options;
  options.branch_type = kAny | kUser;
  options.period = 200'000;
  Sampler sampler(options);
  sampler.Start();
  std::vector<Sample> samples;
  while (samples.empty()) samples = sampler.Read();
  ASSERT_EQ(samples[0].stack.size(), 1u);
  EXPECT_EQ(samples[0].stack[0].info, kPredicted | kSpec);
}

TEST_F(Flavour, BrsWantsItsEventAndAFixedPeriod) {
  ASSERT_EQ(Load("source=canned flavour=brs depth=16"), 0);
  EXPECT_EQ(Open(kAny | kUser, 100'000), -EINVAL);  // cycles
  EXPECT_EQ(Open(kAny | kUser, 100'000, false, PERF_TYPE_RAW, 0xc4), 0);
  EXPECT_EQ(Open(kAny | kUser, 1000, true, PERF_TYPE_RAW, 0xc4), -EINVAL);
  EXPECT_EQ(Open(kAny | kUser, 16, false, PERF_TYPE_RAW, 0xc4), -EINVAL);
  EXPECT_EQ(Open(PERF_SAMPLE_BRANCH_COND | kUser, 100'000, false, PERF_TYPE_RAW, 0xc4), -EINVAL);
  EXPECT_EQ(access("/sys/bus/event_source/devices/cpu/events/branch-brs", R_OK), 0);
  BpfSession session;
  ASSERT_TRUE(session.Attach(GUEST_FENTRY));
  brink_guest_probe_here();
  EXPECT_EQ(session.Result(GUEST_FENTRY).bytes, -ENOENT);
}

TEST_F(Flavour, BrbeHidesTheOtherSide) {
  ASSERT_EQ(Load("source=canned flavour=brbe depth=64"), 0);
  EXPECT_EQ(Open(kAny | kUser | PERF_SAMPLE_BRANCH_CALL_STACK), -EOPNOTSUPP);
  EXPECT_EQ(Open(PERF_SAMPLE_BRANCH_TYPE_SAVE | kUser), -EOPNOTSUPP);  // no kind at all
  Feed({{{0x1000, 0xffffffff81000000, 7ull << 20}, {0xffffffff81000010, 0x1010, 8ull << 20}, {0xffffffff81000010, 0xffffffff81000020, 0}}});
  EventOptions options;
  options.branch_type = kAny | kUser;
  options.period = 200'000;
  Sampler sampler(options);
  sampler.Start();
  std::vector<Sample> samples;
  while (samples.empty()) samples = sampler.Read();
  ASSERT_EQ(samples[0].stack.size(), 2u);
  EXPECT_EQ(samples[0].stack[0].from, 0x1000u);
  EXPECT_EQ(samples[0].stack[0].to, 0u);
  EXPECT_EQ(samples[0].stack[1].from, 0u);
  EXPECT_EQ(samples[0].stack[1].to, 0x1010u);
}

TEST_F(Flavour, NoneHasAPmuWithoutBranchRecords) {
  ASSERT_EQ(Load("source=canned flavour=none"), 0);
  EXPECT_EQ(Open(kAny | kUser), -EOPNOTSUPP);
  EXPECT_NE(access("/sys/bus/event_source/devices/cpu/caps/branches", R_OK), 0);
}

TEST_F(Flavour, SingleFlagsCanBeRefused) {
  ASSERT_EQ(Load("source=canned refuse=" + std::to_string(PERF_SAMPLE_BRANCH_IND_JUMP) + " invalid=" +
                 std::to_string(PERF_SAMPLE_BRANCH_HW_INDEX)), 0);
  EXPECT_EQ(Open(PERF_SAMPLE_BRANCH_IND_JUMP | kUser), -EOPNOTSUPP);
  EXPECT_EQ(Open(kAny | kUser | PERF_SAMPLE_BRANCH_HW_INDEX), -EINVAL);
  EXPECT_EQ(Open(kAny | kUser), 0);
}

TEST_F(Flavour, WithoutTheModuleThereIsNoPmu) {
  Unload();
  EXPECT_EQ(Open(kAny | kUser), -ENOENT);
  EXPECT_EQ(Load("flavour=unknown"), -EINVAL);
}

}  // namespace
}  // namespace brink::guest
