// What each kind of hook leaves of a branch stack, and that the perf event's helper gives what perf itself writes.
#include <bpf/libbpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "bpf_session.h"
#include "harness.h"
#include "ranges.h"

namespace brink::guest {
namespace {

constexpr uint64_t kAny = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_TYPE_SAVE;
constexpr uint64_t kUser = PERF_SAMPLE_BRANCH_USER, kKernel = PERF_SAMPLE_BRANCH_KERNEL;

// The newest record that leads into code which would run without brink: newer ones are burnt by the capture path.
const char* AnchorOf(guest_hook hook) {
  switch (hook) {
    case GUEST_RAW_TP:
    case GUEST_TRACEPOINT: return "syscall_trace_enter";
    case GUEST_UPROBE: return nullptr;
    default: return "sys_getppid";
  }
}

struct Burnt {
  int anchor = -1;      // index of that record; -1: out of reach
  int first_user = -1;  // index of the newest record of user code
  size_t entries = 0;
};

Burnt Measure(const Stack& stack, const char* anchor, const KernelSymbols& symbols) {
  Burnt burnt;
  burnt.entries = stack.size();
  for (size_t i = 0; i < stack.size(); i++) {
    if (burnt.first_user < 0 && !InKernel(stack[i].from)) burnt.first_user = i;
    if (burnt.anchor < 0 && anchor && InKernel(stack[i].to) && symbols.Name(stack[i].to).find(anchor) != std::string::npos) burnt.anchor = i;
  }
  return burnt;
}

Stack TakeAt(guest_hook hook, uint64_t branch_type) {
  EventOptions options;
  options.branch_type = branch_type;
  UniqueFd held(OpenEvent(options));
  BRINK_CHECK(held.valid());
  BpfSession session;
  if (!session.Attach(hook)) return {};
  // The first passes warm what is patched or faulted in once.
  for (int i = 0; i < 3; i++) brink_guest_probe_here();
  session.DetachAll();
  BRINK_CHECK(session.Result(hook).hits >= 3);
  return StackOf(session.Result(hook));
}

class Hooks : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasBranchHardware("plugin")) GTEST_SKIP() << "needs a guest with the plugin's branch records";
    PinTo(0);
  }
};

std::string Cell(int index) { return index < 0 ? "-" : std::to_string(index); }

TEST_F(Hooks, EveryHookReachesWhatItInterrupts) {
  KernelSymbols symbols;
  printf("| hook | burnt, ku | first user record, ku | burnt, k | first user record, u |\n|---|---|---|---|---|\n");
  for (int h = GUEST_RAW_TP; h < GUEST_PERF_EVENT; h++) {
    auto hook = static_cast<guest_hook>(h);
    Burnt both = Measure(TakeAt(hook, kAny | kUser | kKernel), AnchorOf(hook), symbols);
    Burnt kernel = Measure(TakeAt(hook, kAny | kKernel), AnchorOf(hook), symbols);
    Burnt user = Measure(TakeAt(hook, kAny | kUser), AnchorOf(hook), symbols);
    printf("| %s | %s | %s | %s | %s |\n", HookName(hook), Cell(both.anchor).c_str(), Cell(both.first_user).c_str(),
           Cell(kernel.anchor).c_str(), Cell(user.first_user).c_str());
    EXPECT_GE(user.entries, 32u) << HookName(hook);
    EXPECT_GE(user.first_user, 0) << HookName(hook);
    EXPECT_LE(user.first_user, 2) << HookName(hook);
    EXPECT_TRUE(kernel.anchor >= 0 || !AnchorOf(hook)) << HookName(hook);
  }
}

TEST_F(Hooks, PrintsTheCapturePath) {
  if (!getenv("BRINK_LONG")) GTEST_SKIP() << "a listing for people; set BRINK_LONG";
  KernelSymbols symbols;
  for (int h = GUEST_RAW_TP; h < GUEST_PERF_EVENT; h++) {
    auto hook = static_cast<guest_hook>(h);
    printf("%s\n", HookName(hook));
    for (const guest_branch& branch : TakeAt(hook, kAny | kUser | kKernel))
      printf("  %-40s -> %s\n", InKernel(branch.from) ? symbols.Name(branch.from).c_str() : "user",
             InKernel(branch.to) ? symbols.Name(branch.to).c_str() : "user");
  }
}

TEST_F(Hooks, WithoutAHeldEventNothingNewIsRecorded) {
  Stack before = TakeAt(GUEST_FENTRY, kAny | kUser | kKernel);
  uint64_t taken = DeviceCounter("snapshots");
  BpfSession session;
  ASSERT_TRUE(session.Attach(GUEST_FENTRY));
  brink_guest_probe_here();
  // The helper still answers with its old records: staleness is for brink to notice.
  EXPECT_GT(session.Result(GUEST_FENTRY).bytes, 0);
  EXPECT_EQ(DeviceCounter("snapshots"), taken);
}

TEST_F(Hooks, ASnapshotInAPerfEventBurnsNothing) {
  EventOptions options;
  options.period = 100'003;
  // Both sides: an overflow in user code may be delivered only behind a kernel entry.
  options.branch_type = kAny | kUser | kKernel;
  Sampler sampler(options);
  BpfSession session;
  session.AttachTo(session->progs.at_perf_event, sampler.fd());
  sampler.Start();
  for (int i = 0; i < 500'000 && session.Result(GUEST_PERF_EVENT).hits < 5; i++) brink_guest_probe_here();
  sampler.Stop();
  ASSERT_GE(session.Result(GUEST_PERF_EVENT).hits, 5u);
  Stack stack = StackOf(session.Result(GUEST_PERF_EVENT));
  ASSERT_GE(stack.size(), 32u);
  CodeReader code;
  EXPECT_TRUE(CheckRange(code, stack.front().to, session.Result(GUEST_PERF_EVENT).ip).straight);
}

TEST_F(Hooks, TheHelperGivesWhatPerfWrites) {
  EventOptions options;
  options.period = 100'003;
  options.branch_type = kAny | kUser | kKernel | PERF_SAMPLE_BRANCH_HW_INDEX;
  Sampler sampler(options);
  BpfSession session;
  session.AttachTo(session->progs.read_records, sampler.fd());
  sampler.Start();
  for (int i = 0; i < 3000; i++) brink_guest_probe_here();
  sampler.Stop();
  std::vector<Sample> expected = sampler.Read();
  std::vector<guest_stack> read;
  ring_buffer* ring = ring_buffer__new(
      bpf_map__fd(session->maps.ring),
      [](void* to, void* data, size_t) {
        static_cast<std::vector<guest_stack>*>(to)->push_back(*static_cast<guest_stack*>(data));
        return 0;
      },
      &read, nullptr);
  ASSERT_NE(ring, nullptr);
  ring_buffer__consume(ring);
  ring_buffer__free(ring);
  ASSERT_GT(expected.size(), 5u);
  ASSERT_EQ(read.size(), expected.size());
  for (size_t i = 0; i < read.size(); i++) {
    EXPECT_EQ(read[i].ip, expected[i].ip);
    ASSERT_EQ(read[i].bytes, static_cast<int64_t>(expected[i].stack.size() * sizeof(guest_branch)));
    EXPECT_EQ(memcmp(read[i].entries, expected[i].stack.data(), read[i].bytes), 0) << "sample " << i;
    EXPECT_TRUE(expected[i].hw_idx.has_value());
  }
}

}  // namespace
}  // namespace brink::guest
