// What only a guest of tools/vm can have: interrupts kept off by the test module, and a machine that is stopped whole.
#include "runtime/latency/blame_fixture.h"

namespace brink::latency {
namespace {

constexpr const char* kOwner = "lbr_hold_interrupts_off";

bool Names(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) { return line.find(kOwner) != std::string::npos; });
}

// Stack, and with branch hardware the branches, name who kept interrupts off.
TEST_F(Blame, InterruptsThatWereOffHaveAnOwner) {
  if (::access("/sys/module/brink_lbr/parameters/irqs_off", W_OK) != 0) GTEST_SKIP() << "needs the guests' test module";
  const bool branches = testing_support::HasFeature("branch.snapshot");
  // No timers beside the measured one: the emulated branch hardware makes each dear.
  Expect({.kind = "irqs-off", .brink_options = {"-p", "50", "-m", "-i", "5000", "--heartbeat", "0"}, .more = {"20"}}, [&](const SpikeReport& s) {
    return s.cause == Cause::kInterruptsOff && s.subject == kOwner && Names(s.kernel_stack) && (!branches || Names(s.branches));
  });
  std::printf("| interrupts off: %d of %d right, %s |\n", right_, judged_, branches ? "named by stack and branches" : "named by the stack");
}

// QEMU is stopped by its pid for 5 ms: no CPU of the guest runs.
TEST_F(Blame, AStoppedMachineIsOutside) {
  if (!::getenv("BRINK_VM_HOST")) GTEST_SKIP() << "needs a guest of tools/vm";
  // The measured one, and another whose clock must stop with it.
  if (AllowedCpus().size() < 2) GTEST_SKIP() << "needs two CPUs: on one, a machine that stops is no different from a CPU that stops";
  Expect({.kind = "stopped", .brink_options = {"-p", "50", "-m"}}, [](const SpikeReport& s) { return s.cause == Cause::kOutside; });
  std::printf("| machine stopped: %d of %d right |\n", right_, judged_);
}

}  // namespace
}  // namespace brink::latency
