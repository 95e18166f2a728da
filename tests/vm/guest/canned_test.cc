// Known stacks through the kernel's own paths: what the module was fed is what perf and the BPF helpers hand out.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "bpf_session.h"
#include "harness.h"
#include "made_up.h"

namespace brink::guest {
namespace {

constexpr uint64_t kUser = PERF_SAMPLE_BRANCH_USER, kKernel = PERF_SAMPLE_BRANCH_KERNEL, kAny = PERF_SAMPLE_BRANCH_ANY;
constexpr uint64_t kAllFields = PERF_SAMPLE_BRANCH_TYPE_SAVE | PERF_SAMPLE_BRANCH_PRIV_SAVE | PERF_SAMPLE_BRANCH_HW_INDEX;
// Samples of `options` while this CPU spins; the timer behind them counts a nanosecond as a cycle.
std::vector<Sample> Take(EventOptions options, size_t at_least) {
  options.period = 500'000;
  Sampler sampler(options);
  std::vector<Sample> samples;
  sampler.Start();
  while (samples.size() < at_least)
    for (Sample& sample : sampler.Read()) samples.push_back(std::move(sample));
  sampler.Stop();
  return samples;
}

class Canned : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasBranchHardware("canned")) GTEST_SKIP() << "needs a guest with the module and source=canned";
    PinTo(0);
  }
};

TEST_F(Canned, SamplesCarryTheStacksInOrderBitForBit) {
  std::vector<Stack> fed = MadeUp(7, 32);
  Feed(fed, 0x1234);
  EventOptions options;
  options.branch_type = kAny | kUser | kKernel | kAllFields;
  std::vector<Sample> samples = Take(options, 30);
  for (size_t i = 0; i < samples.size(); i++) {
    EXPECT_TRUE(Same(samples[i].stack, Filtered(fed[i % fed.size()], kSpecBits, [](auto&) { return true; }))) << "sample " << i;
    EXPECT_EQ(samples[i].hw_idx, 0x1234u);
  }
}

TEST_F(Canned, FieldsNotAskedForAreEmpty) {
  std::vector<Stack> fed = MadeUp(1, 32);
  Feed(fed);
  EventOptions options;
  options.branch_type = kAny | kUser | kKernel | PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES;
  Stack expected = Filtered(fed[0], kSpecBits | kTypeBits | kPrivBits | kFlagBits | kCycleBits, [](auto&) { return true; });
  for (const Sample& sample : Take(options, 2)) EXPECT_TRUE(Same(sample.stack, expected));
}

TEST_F(Canned, PrivilegeIsThatOfTheTarget) {
  std::vector<Stack> fed = MadeUp(1, 32);
  Feed(fed);
  EventOptions options;
  options.branch_type = kAny | kUser | kAllFields;
  Stack user = Filtered(fed[0], kSpecBits, [](auto& b) { return !InKernel(b.to); });
  for (const Sample& sample : Take(options, 2)) EXPECT_TRUE(Same(sample.stack, user));
  options.branch_type = kAny | kKernel | kAllFields;
  Stack kernel = Filtered(fed[0], kSpecBits, [](auto& b) { return InKernel(b.to); });
  for (const Sample& sample : Take(options, 2)) EXPECT_TRUE(Same(sample.stack, kernel));
  EXPECT_EQ(user.size() + kernel.size(), fed[0].size());
}

TEST_F(Canned, KindsAreFiltered) {
  std::vector<Stack> fed = MadeUp(1, 32);
  Feed(fed);
  const struct { uint64_t flag; std::vector<uint32_t> types; } kCases[] = {
      {PERF_SAMPLE_BRANCH_COND, {PERF_BR_COND}},
      {PERF_SAMPLE_BRANCH_IND_JUMP, {PERF_BR_IND}},
      {PERF_SAMPLE_BRANCH_CALL, {PERF_BR_CALL}},
      {PERF_SAMPLE_BRANCH_IND_CALL, {PERF_BR_IND_CALL}},
      {PERF_SAMPLE_BRANCH_ANY_CALL, {PERF_BR_CALL, PERF_BR_IND_CALL, PERF_BR_SYSCALL, PERF_BR_IRQ}},
      {PERF_SAMPLE_BRANCH_ANY_RETURN, {PERF_BR_RET, PERF_BR_SYSRET, PERF_BR_ERET}},
      {PERF_SAMPLE_BRANCH_COND | PERF_SAMPLE_BRANCH_CALL, {PERF_BR_COND, PERF_BR_CALL}},
  };
  for (const auto& one : kCases) {
    EventOptions options;
    options.branch_type = one.flag | kUser | kKernel | kAllFields;
    Stack expected = Filtered(fed[0], kSpecBits, [&](auto& b) {
      return std::find(one.types.begin(), one.types.end(), Type(b)) != one.types.end();
    });
    ASSERT_GT(expected.size(), 0u);
    for (const Sample& sample : Take(options, 2)) EXPECT_TRUE(Same(sample.stack, expected)) << std::hex << one.flag;
  }
}

TEST_F(Canned, BothHelpersGiveWhatWasFed) {
  std::vector<Stack> fed = MadeUp(5, 32);
  Feed(fed);
  EventOptions held;
  held.branch_type = kAny | kUser | kKernel | kAllFields;
  UniqueFd event(OpenEvent(held));
  ASSERT_TRUE(event.valid());
  BpfSession session;
  ASSERT_TRUE(session.Attach(GUEST_FENTRY));
  for (size_t i = 0; i < 12; i++) {
    brink_guest_probe_here();
    EXPECT_EQ(session.Result(GUEST_FENTRY).bytes, 32 * 24);  // the depth, however many are fresh
    Stack got = StackOf(session.Result(GUEST_FENTRY));
    Stack expected = Filtered(fed[i % fed.size()], kSpecBits, [](auto&) { return true; });
    ASSERT_GE(got.size(), expected.size());
    got.resize(expected.size());  // behind it lies the stale tail
    EXPECT_TRUE(Same(got, expected)) << "snapshot " << i;
  }
}

TEST_F(Canned, ASampleWithoutEntriesIsEmptyAndNoError) {
  Feed({Stack{}});
  EventOptions options;
  options.branch_type = kAny | kUser | kKernel;
  for (const Sample& sample : Take(options, 2)) EXPECT_TRUE(sample.stack.empty());
}

}  // namespace
}  // namespace brink::guest
