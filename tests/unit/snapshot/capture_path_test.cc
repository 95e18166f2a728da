#include "snapshot/capture_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snapshot/held_events.h"
#include "snapshot/kernel_code.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;
using testing_support::StatusIs;

constexpr uint64_t kK = 0xffffffff81000000;
// A kernel of a few functions: 0x1000 bytes each.
const std::vector<CodeRange> kCode = {
    {kK + 0x1000, kK + 0x2000, "__x64_sys_getppid"},      {kK + 0x2000, kK + 0x3000, "__rcu_read_unlock"},
    {kK + 0x3000, kK + 0x4000, "__bpf_prog_enter_recur"}, {kK + 0x4000, kK + 0x5000, "migrate_disable"},
    {kK + 0x5000, kK + 0x6000, "asm_sysvec_apic_timer"},  {kK + 0x6000, kK + 0x7000, "entry_SYSCALL_64"},
    {kK + 0x8000, kK + 0x9000, "bpf_trampoline_1"},       {kK + 0x9000, kK + 0xa000, "bpf_prog_0123456789abcdef_cal_fexit"},
};
std::optional<CodeRange> Lookup(uint64_t address) {
  for (const CodeRange& range : kCode) {
    if (range.Contains(address)) return range;
  }
  return std::nullopt;
}
const std::vector<CodeRange> kOwn = {kCode[7]};

enum : uint64_t { kGetppid = kK + 0x1000, kUnlock = kK + 0x2000, kEnter = kK + 0x3000, kMigrate = kK + 0x4000, kTimer = kK + 0x5000,
                  kSyscall = kK + 0x6000, kTrampoline = kK + 0x8000, kProgram = kK + 0x9000, kUser = 0x401000 };

BranchEntry B(uint64_t from, uint64_t to, Kind kind = Kind::kUnknown) {
  BranchEntry entry;
  entry.from = from;
  entry.to = to;
  entry.info = MakeInfo(kind);
  return entry;
}

// An fexit capture as the plugin LBR shows it, newest first: trampoline -> enter -> migrate_disable -> back -> program.
std::vector<BranchEntry> FexitStack() {
  return {
      B(kTrampoline + 0x90, kProgram),                 // 0 burnt
      B(kEnter + 0x40, kTrampoline + 0x80),            // 1
      B(kMigrate + 0x20, kEnter + 0x30),               // 2
      B(kEnter + 0x20, kMigrate),                      // 3
      B(kTrampoline + 0x70, kEnter),                   // 4
      B(kGetppid + 0x40, kTrampoline + 0x60),          // 5 the traced function returns into the trampoline
      B(kUnlock + 0x10, kGetppid + 0x30),              // 6 true from here on
      B(kGetppid + 0x20, kUnlock),                     // 7
      B(kTrampoline + 0x50, kGetppid + 5),             // 8
      B(kSyscall + 0x80, kGetppid),                    // 9
      B(kUser + 0x10, kSyscall),                       // 10
      B(kUser + 0x40, kUser),                          // 11
  };
}

CapturePath Learnt(const std::vector<BranchEntry>& stack) {
  std::vector<std::vector<BranchEntry>> runs(5, stack);
  return CapturePath::Learn(runs, Lookup, kOwn);
}

TEST(TrustedLength, StopsAtTheFirstEmptyEntry) {
  std::vector<BranchEntry> stack = {B(kUser + 0x50, kUser), B(kUser + 0x30, kUser + 0x40), B(0, 0), B(kUser, kUser + 8)};
  EXPECT_EQ(TrustedLength(stack, true), 2u);
  EXPECT_EQ(TrustedLength({}, true), 0u);
}

// The newer branch starts below where the older one went: straight-line code cannot get there.
TEST(TrustedLength, StopsWhereTheFlowIsImpossible) {
  std::vector<BranchEntry> stack = {B(kUser + 0x50, kUser), B(kUser + 0x30, kUser + 0x40), B(kUser, kUser + 0x1000)};
  EXPECT_EQ(TrustedLength(stack, true), 2u);
}

TEST(TrustedLength, PrivilegeMayChangeUnseenOnlyUnderAFilter) {
  std::vector<BranchEntry> stack = {B(kUser + 0x50, kUser), B(kGetppid, kGetppid + 8)};
  EXPECT_EQ(TrustedLength(stack, true), 1u);
  EXPECT_EQ(TrustedLength(stack, false), 2u);
}

TEST(TrustedLength, HalfRecordsPass) {
  std::vector<BranchEntry> stack = {B(0, kUser), B(kUser + 0x30, 0), B(kUser + 0x10, kUser + 0x20)};
  EXPECT_EQ(TrustedLength(stack, false), 3u);
}

TEST(CapturePath, LearnsTheFunctionsBetweenHookAndHelper) {
  CapturePath path = Learnt(FexitStack());
  EXPECT_TRUE(path.Contains(kMigrate));
  EXPECT_TRUE(path.Contains(kEnter + 0x10));
  EXPECT_TRUE(path.Contains(kTrampoline));
  EXPECT_FALSE(path.Contains(kSyscall));
}

TEST(CapturePath, TrimsExactlyWhatTheCaptureBurnt) {
  CapturePath path = Learnt(FexitStack()).For(kOwn, kCode[0]);
  EXPECT_EQ(path.Burnt(FexitStack(), Lookup), 6u);
}

// A hook whose function itself ran capture-path functions: entry 6 and 7 stay although __rcu_read_unlock may be learnt.
TEST(CapturePath, DoesNotEatTheTracedFunction) {
  std::vector<BranchEntry> learnt = FexitStack();
  learnt.insert(learnt.begin() + 3, {B(kUnlock + 0x10, kMigrate + 0x10), B(kMigrate + 8, kUnlock)});
  CapturePath path = Learnt(learnt).For(kOwn, kCode[0]);
  ASSERT_TRUE(path.Contains(kUnlock));
  EXPECT_EQ(path.Burnt(FexitStack(), Lookup), 6u);
}

TEST(CapturePath, AnInterruptInTheCapturePathIsNoBeginning) {
  std::vector<BranchEntry> stack = FexitStack();
  stack.insert(stack.begin() + 3, {B(kTimer + 0x100, kMigrate + 0x10, Kind::kEret), B(kMigrate + 8, kTimer, Kind::kIrq)});
  EXPECT_EQ(Learnt(FexitStack()).For(kOwn, kCode[0]).Burnt(stack, Lookup), 8u);
}

TEST(CapturePath, FunctionsSeenOnceAreNotLearnt) {
  std::vector<std::vector<BranchEntry>> runs(5, FexitStack());
  runs[0].insert(runs[0].begin() + 3, {B(kTimer + 0x100, kMigrate + 0x10, Kind::kEret), B(kMigrate + 8, kTimer, Kind::kIrq)});
  EXPECT_FALSE(CapturePath::Learn(runs, Lookup, kOwn).Contains(kTimer));
}

// Shallow hardware: all that is left is our own, the hook is out of reach.
TEST(CapturePath, AllBurntMeansNothingLeft) {
  std::vector<BranchEntry> stack = FexitStack();
  stack.resize(4);
  EXPECT_EQ(Learnt(FexitStack()).For(kOwn, kCode[0]).Burnt(stack, Lookup), 4u);
}

// With a filter for calls the return into the trampoline is missing: the prefix of our own calls goes, and no more.
TEST(CapturePath, WithoutTheEdgeOnlyTheOwnPrefixGoes) {
  std::vector<BranchEntry> calls = {B(kTrampoline + 0x90, kProgram), B(kEnter + 0x20, kMigrate), B(kTrampoline + 0x70, kEnter),
                                    B(kGetppid + 0x20, kUnlock), B(kSyscall + 0x80, kGetppid)};
  EXPECT_EQ(Learnt(FexitStack()).For(kOwn, kCode[0]).Burnt(calls, Lookup), 3u);
}

TEST(CapturePath, AUserOnlyStackHasNothingToTrim) {
  std::vector<BranchEntry> stack = {B(kUser + 0x40, kUser), B(kUser + 0x30, kUser + 0x38)};
  EXPECT_EQ(Learnt(FexitStack()).Burnt(stack, Lookup), 0u);
}

TEST(IsHookGlue, KnowsTrampolinesAndNotOrdinaryCode) {
  for (const char* name : {"bpf_trampoline_6442508123", "bpf_prog_0123456789abcdef_x", "__bpf_prog_enter_recur", "__traceiter_sys_enter", "kprobe_ftrace_handler", "asm_exc_int3"}) {
    EXPECT_TRUE(IsHookGlue(name)) << name;
  }
  for (const char* name : {"schedule", "bpf_prog_test_run_tracing", "uprobe_mmap", "do_syscall_64"}) EXPECT_FALSE(IsHookGlue(name)) << name;
}

TEST(KernelCode, FindsFunctionsByAddressAndName) {
  auto code = KernelCode::Parse(
      "ffffffff81000000 T _stext\nffffffff81001000 T first\nffffffff81001000 T alias\nffffffff81002000 t second\n"
      "ffffffffc0400000 t bpf_prog_1_x\t[bpf]\n");
  ASSERT_THAT(code, IsOk());
  EXPECT_EQ(code->Find(0xffffffff81001fff)->name, "first");
  EXPECT_EQ(code->Find(0xffffffffc0400010)->name, "bpf_prog_1_x");
  EXPECT_EQ(code->FindFunction("second")->start, 0xffffffff81002000);
  EXPECT_EQ(code->FindFunction("alias")->start, 0xffffffff81001000);
  EXPECT_FALSE(code->Find(0x1000));
  EXPECT_FALSE(code->FindFunction("third"));
}

TEST(HeldFlags, PrivilegeBelongsToTheTrigger) {
  EXPECT_EQ(HeldFlags(TriggerSide::kUser), uint64_t{PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER});
  EXPECT_EQ(HeldFlags(TriggerSide::kKernel, PERF_SAMPLE_BRANCH_COND), uint64_t{PERF_SAMPLE_BRANCH_COND | PERF_SAMPLE_BRANCH_KERNEL});
  EXPECT_EQ(HeldFlags(TriggerSide::kBoth), uint64_t{PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL});
}

}  // namespace
}  // namespace brink
