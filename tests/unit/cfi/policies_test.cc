// Each policy on windows made by hand from code of this very program: the facts are those of its own file.
#include "cfi/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstring>

#include "cfi/baseline.h"
#include "support/status_matchers.h"

#if defined(__x86_64__)

// Every label is a place that a record can name.
asm(R"(
  .text
  .macro routine name
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  .endm
  .macro finish name
  .cfi_endproc
  .size \name, . - \name
  .endm

  routine cfi_outer
  nop
cfi_outer_call:
  call cfi_inner
cfi_outer_site:
  test %eax, %eax
cfi_outer_icall:
  call *%rax
cfi_outer_isite:
  mov $0x1122c358, %eax
cfi_outer_jump:
  jmp *%rdx
cfi_outer_label:
  nop
  ret
  finish cfi_outer

  routine cfi_outer_too
  nop
cfi_outer_too_middle:
  nop
  ret
  finish cfi_outer_too

  routine cfi_inner
  nop
cfi_inner_ret:
  ret
  finish cfi_inner

  routine cfi_other
  push %rbx
cfi_other_call:
  call cfi_tail
cfi_other_site:
  pop %rbx
cfi_other_ret:
  ret
  finish cfi_other

  routine cfi_tail
  nop
cfi_tail_jump:
  jmp cfi_inner
  finish cfi_tail

  routine cfi_taken
  nop
cfi_taken_ret:
  ret
  finish cfi_taken

  routine cfi_untaken
  nop
  ret
  finish cfi_untaken
  .pushsection .rodata
  .balign 8
  .globl cfi_untaken_distance
cfi_untaken_distance:
  .quad cfi_untaken - cfi_outer
  .popsection

  # what -mfunction-return=thunk makes
  routine cfi_thunk
cfi_thunk_call:
  call cfi_thunk_on
cfi_thunk_loop:
  pause
  lfence
  jmp cfi_thunk_loop
cfi_thunk_on:
  lea 8(%rsp), %rsp
cfi_thunk_ret:
  ret
  finish cfi_thunk

  # longjmp without its name
  .cfi_startproc
cfi_leap:
  xor %fs:0x30, %r8
  xor %fs:0x30, %r9
  xor %fs:0x30, %rdx
cfi_leap_jump:
  jmp *%rdx
  .cfi_endproc

  routine cfi_restorer
  mov $15, %rax
  syscall
  finish cfi_restorer

  routine cfi_hidden_call
  mov $0x0000050f, %eax
  ret
  finish cfi_hidden_call
)");
#define LABELS(X) \
  X(cfi_outer) X(cfi_outer_call) X(cfi_outer_site) X(cfi_outer_icall) X(cfi_outer_isite) X(cfi_outer_jump) X(cfi_outer_label) X(cfi_inner) X(cfi_inner_ret) X(cfi_other) \
  X(cfi_other_call) X(cfi_other_site) X(cfi_other_ret) X(cfi_tail) X(cfi_tail_jump) X(cfi_taken) X(cfi_taken_ret) X(cfi_restorer) X(cfi_hidden_call) X(cfi_outer_too_middle) X(cfi_thunk) X(cfi_thunk_call) X(cfi_thunk_on) X(cfi_thunk_ret) X(cfi_leap_jump)
#define DECLARE(name) extern "C" const char name[];
LABELS(DECLARE)
// How far cfi_untaken is from cfi_outer: nothing in this program holds its address.
extern "C" const int64_t cfi_untaken_distance;

namespace brink::cfi {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const char* volatile kept_pointer = cfi_taken;  // its address is taken

uint64_t At(const char* label) { return reinterpret_cast<uint64_t>(label); }

uint64_t Untaken() { return At(cfi_outer) + static_cast<uint64_t>(cfi_untaken_distance); }

uint64_t Bias() {
  uint64_t bias = 0;
  dl_iterate_phdr([](dl_phdr_info* info, size_t, void* out) { return *static_cast<uint64_t*>(out) = info->dlpi_addr, 1; }, &bias);
  return bias;
}

// This program, a JIT's page at 0x10000000, anonymous code at 0x20000000, what nothing is known of at 0x30000000, and nothing else.
class Map : public CodeMap {
 public:
  Place At(uint64_t address) override {
    static Facts facts = *Facts::Load(*elf::File::Open("/proc/self/exe"));
    if (address >> 12 == 0x10000) return {.memory = MemoryKind::kJit};
    if (address >> 12 == 0x20000) return {.memory = MemoryKind::kAnonymous};
    if (address >> 12 == 0x30000) return {.memory = MemoryKind::kUnknown};
    if (facts.InText(address - Bias())) return {.memory = MemoryKind::kFile, .facts = &facts, .address = address - Bias(), .module = 1};
    return {.memory = MemoryKind::kNotCode};
  }
};

BranchEntry Edge(const char* from, const char* to, Kind kind) { return {At(from), At(to), MakeInfo(kind)}; }
BranchEntry Edge(const char* from, uint64_t to, Kind kind) { return {At(from), to, MakeInfo(kind)}; }

// Oldest first, as they happen.
Result Judge(std::vector<BranchEntry> edges, Window window = {}) {
  std::reverse(edges.begin(), edges.end());
  window.records = edges;
  Map map;
  Result result;
  Check(window, map, &result);
  return result;
}

std::vector<std::string> Names(const Result& result) {
  std::vector<std::string> names;
  for (const Violation& v : result.violations) names.push_back(std::string(PolicyName(v.policy)) + " " + std::string(SeverityName(v.severity)));
  return names;
}

const BranchEntry kCall = Edge(cfi_outer_call, cfi_inner, Kind::kCall), kReturn = Edge(cfi_inner_ret, cfi_outer_site, Kind::kRet);

TEST(Policies, ACallAndItsReturnHold) {
  Result result = Judge({kCall, kReturn});
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.checked, 2u);
  for (Policy p : {Policy::kReturnSite, Policy::kReturnMatch, Policy::kBoundary, Policy::kMemory}) EXPECT_EQ(result.policies[static_cast<size_t>(p)].held, 1u) << PolicyName(p);
}

TEST(Policies, P1AReturnBehindNoCall) {
  EXPECT_THAT(Names(Judge({Edge(cfi_inner_ret, cfi_outer_label, Kind::kRet)})), testing::ElementsAre("P1 medium"));
  EXPECT_THAT(Names(Judge({kCall, Edge(cfi_inner_ret, cfi_taken, Kind::kRet)})), testing::ElementsAre("P1 medium", "P2 medium"));
}

TEST(Policies, P2AReturnBehindAnotherCall) {
  Result result = Judge({kCall, Edge(cfi_inner_ret, cfi_outer_isite, Kind::kRet)});
  EXPECT_THAT(Names(result), testing::ElementsAre("P2 medium"));
  EXPECT_THAT(result.violations[0].reason, HasSubstr("behind another call"));
  // Two of them in one window are no accident.
  EXPECT_THAT(Names(Judge({kCall, Edge(cfi_inner_ret, cfi_outer_isite, Kind::kRet), kCall, Edge(cfi_inner_ret, cfi_outer_isite, Kind::kRet)}, {.contiguous = false})),
              testing::ElementsAre("P2 high", "P2 high"));
  // Filtered windows are not asked.
  Result filtered = Judge({kCall, Edge(cfi_inner_ret, cfi_outer_isite, Kind::kRet)}, {.contiguous = false, .calls_and_returns = false});
  EXPECT_THAT(filtered.violations, IsEmpty());
  EXPECT_EQ(filtered.policies[1].unknown[static_cast<size_t>(Reason::kFiltered)], 1u);
}

TEST(Policies, P2BelowTheWindowTheFrameMustFit) {
  EXPECT_THAT(Judge({kReturn}).violations, IsEmpty());
  // cfi_other calls cfi_tail, which may well end in cfi_inner.
  EXPECT_THAT(Judge({Edge(cfi_inner_ret, cfi_other_site, Kind::kRet)}).violations, IsEmpty());
  // cfi_outer calls cfi_inner, which never jumps anywhere.
  Result result = Judge({Edge(cfi_taken_ret, cfi_outer_site, Kind::kRet)});
  EXPECT_THAT(Names(result), testing::ElementsAre("P2 medium"));
  EXPECT_THAT(result.violations[0].reason, HasSubstr("cfi_inner"));
}

TEST(Policies, P2ATailCallReturnsForItsCaller) {
  EXPECT_THAT(Judge({Edge(cfi_other_call, cfi_tail, Kind::kCall), Edge(cfi_tail_jump, cfi_inner, Kind::kJump), Edge(cfi_inner_ret, cfi_other_site, Kind::kRet)}).violations, IsEmpty());
}

TEST(Policies, P3AnIndirectCall) {
  EXPECT_THAT(Judge({Edge(cfi_outer_icall, cfi_taken, Kind::kIndCall)}).violations, IsEmpty());
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_icall, cfi_outer_label, Kind::kIndCall)})), testing::ElementsAre("P3 medium"));
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_icall, Untaken(), Kind::kIndCall)})), testing::ElementsAre("P3 low"));
}

TEST(Policies, P4AnIndirectJump) {
  EXPECT_THAT(Judge({Edge(cfi_outer_jump, cfi_outer_label, Kind::kIndJump)}).violations, IsEmpty());
  EXPECT_THAT(Judge({Edge(cfi_outer_jump, cfi_other, Kind::kIndJump)}).violations, IsEmpty()) << "a tail call";
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_jump, cfi_other_site, Kind::kIndJump)})), testing::ElementsAre("P4 medium"));
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_jump, Untaken(), Kind::kIndJump)})), testing::ElementsAre("P4 low"));
  // A name that begins like another's is no part of it, as NAME.cold would be.
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_jump, cfi_outer_too_middle, Kind::kIndJump)})), testing::ElementsAre("P4 medium"));
}

TEST(Policies, P5TheMiddleOfAnInstruction) {
  // pop %rax; ret in the immediate of the mov.
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_jump, At(cfi_outer_isite) + 1, Kind::kIndJump)})), testing::ElementsAre("P5 high"));
}

TEST(Policies, P6TheCodeBetweenMustBeStraight) {
  // From cfi_outer's start the call at cfi_outer_call comes before the indirect one.
  EXPECT_THAT(Names(Judge({Edge(cfi_other_ret, cfi_outer_site, Kind::kUnknown), Edge(cfi_outer_jump, cfi_outer_label, Kind::kIndJump)})), testing::Contains("P6 low"));
  EXPECT_THAT(Judge({kCall, kReturn, Edge(cfi_outer_icall, cfi_taken, Kind::kIndCall)}).violations, IsEmpty());
  EXPECT_THAT(Names(Judge({kCall, Edge(cfi_outer_icall, cfi_taken, Kind::kIndCall)}, {.contiguous = false})), IsEmpty());
}

// A lost record is no attack: where the line is broken, nobody knows which calls are open.
TEST(Policies, P2AsksForNoCallAcrossMissingRecords) {
  const BranchEntry icall = Edge(cfi_outer_icall, cfi_taken, Kind::kIndCall), back = Edge(cfi_taken_ret, cfi_outer_isite, Kind::kRet);
  EXPECT_THAT(Judge({kCall, kReturn, icall, back}).violations, IsEmpty());
  for (const auto& torn : {std::vector{kCall, back}, std::vector{kCall, icall, back}, std::vector{kCall, kReturn, back}, std::vector{kCall, kCall, kReturn, icall, back, kReturn}, std::vector{icall, kReturn, back}}) {
    Result result = Judge(torn);
    EXPECT_THAT(Names(result), testing::Contains("P6 low"));
    EXPECT_EQ(result.severity, Severity::kLow);
  }
}

TEST(Policies, P7ADirectBranchGoesWhereTheFileSays) {
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_call, cfi_taken, Kind::kCall)})), testing::ElementsAre("P7 medium"));
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_site, cfi_outer_label, Kind::kJump)})), testing::ElementsAre("P7 medium"));
}

TEST(Policies, X7CodeOfAJitMayJumpToAFunctionThatReturnsToIt) {
  // qemu's generated code pushes where it goes on, and jumps to a helper: its return is no call's, and what was open is open still.
  Result result = Judge({kCall, Edge(cfi_inner_ret, 0x10000123, Kind::kRet), kReturn});
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kReturnMatch)].held, 1u);
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kReturnMatch)].excepted, 1u);
  // It calls others, and is returned to: nothing of that is open when it returns itself.
  const BranchEntry calls{0x10000008, At(cfi_inner), MakeInfo(Kind::kIndCall)}, back{0x10000064, At(cfi_outer_isite), MakeInfo(Kind::kRet)};
  const std::vector<BranchEntry> through = {kCall, Edge(cfi_outer_icall, 0x10000000, Kind::kIndCall), calls, Edge(cfi_inner_ret, 0x10000010, Kind::kRet), back, kReturn};
  EXPECT_THAT(Judge(through, {.contiguous = false}).violations, IsEmpty());
}

// Code of which nothing is known calls and is returned to: its calls are answered like others, or what is open would shift.
TEST(Policies, P2CallsOfCodeThatIsNotKnownAreAnswered) {
  constexpr uint64_t kUntold = 0x30000000;
  const Window ahead{.contiguous = false, .future = true, .point = CheckPoint{}};
  const BranchEntry into = Edge(cfi_outer_icall, kUntold, Kind::kIndCall), back{kUntold + 64, At(cfi_outer_isite), MakeInfo(Kind::kRet)};
  const BranchEntry calls{kUntold + 8, At(cfi_inner), MakeInfo(Kind::kIndCall)};
  EXPECT_THAT(Judge({kCall, kReturn, into, calls, Edge(cfi_inner_ret, kUntold + 16, Kind::kRet), back, Edge(cfi_outer_call, cfi_inner, Kind::kCall), kReturn}, ahead).violations, IsEmpty());
  // A program that may be one that makes code: a place that it has pushed itself.
  EXPECT_THAT(Judge({kCall, Edge(cfi_inner_ret, kUntold + 16, Kind::kRet)}, ahead).violations, IsEmpty());
}

TEST(Policies, P8CodeLiesInFiles) {
  EXPECT_THAT(Names(Judge({Edge(cfi_outer_icall, 0x20000123, Kind::kIndCall)})), testing::ElementsAre("P8 medium"));
  EXPECT_THAT(Names(Judge({Edge(cfi_inner_ret, 0x7ffc00001000, Kind::kRet)})), testing::ElementsAre("P8 high"));
  Result zero = Judge({Edge(cfi_inner_ret, 0x10, Kind::kRet)});
  EXPECT_THAT(zero.violations.at(0).reason, HasSubstr("zero page"));
  Result jit = Judge({Edge(cfi_outer_icall, 0x10000123, Kind::kIndCall)});
  EXPECT_THAT(jit.violations, IsEmpty());
  EXPECT_GT(jit.exceptions[static_cast<size_t>(Exception::kJit)], 0u);
}

// A walk ahead reads its way by the kernel's mappings. If these were lost on the way here, nothing is alleged.
TEST(Policies, P8OfAWalkAheadIsTheKernelsWord) {
  constexpr uint64_t kUntold = 0x7f0000001000;
  const std::vector<BranchEntry> through = {Edge(cfi_inner_ret, kUntold, Kind::kRet), {kUntold + 4, At(cfi_inner), MakeInfo(Kind::kIndCall)}};
  Window ahead{.contiguous = false, .future = true, .point = CheckPoint{}};
  Result result = Judge(through, ahead);
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kMemory)].unknown[static_cast<size_t>(Reason::kNoMap)], 1u);
  EXPECT_THAT(Judge({through[0]}, ahead).violations, IsEmpty());
  ahead.point->not_code = true;
  EXPECT_THAT(Names(Judge({through[0]}, ahead)), testing::ElementsAre("P8 high"));
  EXPECT_THAT(Judge(through, ahead).violations, IsEmpty());  // the newest is another, which is code
}

TEST(Policies, P9ALongChainOfShortPieces) {
  std::vector<BranchEntry> chain;
  for (int i = 0; i < 12; ++i) chain.push_back(Edge(cfi_other_ret, cfi_other_site, Kind::kRet));
  Result result = Judge(chain);
  EXPECT_THAT(Names(result), testing::Contains("P9 low"));
  EXPECT_GE(result.gadget_run, 8u);
}

TEST(Policies, X1ASignalsReturnIsNoAttack) {
  // The kernel enters the handler; it returns to the restorer; what was open before is still open.
  BranchEntry into{0xffffffff81000000, At(cfi_taken), MakeInfo(Kind::kEret)};
  Result result = Judge({kCall, into, Edge(cfi_taken_ret, cfi_restorer, Kind::kRet), kReturn});
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.exceptions[static_cast<size_t>(Exception::kSignal)], 2u);
}

TEST(Policies, APageFaultAtAFunctionsEntryIsNoHandler) {
  // The call's target was not in memory: the kernel comes back to the place that the call led to.
  BranchEntry again{0xffffffff81000000, At(cfi_inner), MakeInfo(Kind::kEret)};
  Result result = Judge({kCall, again, again, kReturn});
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kReturnMatch)].held, 1u);
}

TEST(Policies, AWindowThatBeginsAtAPageFaultHasNoHandler) {
  // The call was made before the window's first record: whether the kernel came back or entered a handler is not known.
  BranchEntry again{0xffffffff81000000, At(cfi_inner), MakeInfo(Kind::kEret)};
  EXPECT_THAT(Judge({again, kReturn}).violations, IsEmpty());
  EXPECT_THAT(Judge({{At(cfi_inner_ret), 0, MakeInfo(Kind::kRet)}, again, kReturn}).violations, IsEmpty());
}

extern "C" const char _start[];
TEST(Policies, RecordsOfTheProgramThatExecutedThisOneAreNotJudged) {
  BranchEntry begins{0xffffffff81000000, At(_start), MakeInfo(Kind::kEret)};
  EXPECT_THAT(Names(Judge({Edge(cfi_inner_ret, 0x7ffc00001000, Kind::kRet), kCall, kReturn})), testing::ElementsAre("P8 high"));
  Result result = Judge({Edge(cfi_inner_ret, 0x7ffc00001000, Kind::kRet), begins, kCall, kReturn});
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.edges, 2u);
}

TEST(Policies, WhatIsNotKnownRaisesNothing) {
  EXPECT_THAT(Judge({{0, At(cfi_inner), MakeInfo(Kind::kRet)}, {At(cfi_inner_ret), 0, MakeInfo(Kind::kRet)}, {0, 0, 0}}).violations, IsEmpty());
  EXPECT_EQ(Judge({{0xffffffff81000000, 0xffffffff81000100, MakeInfo(Kind::kRet)}}).edges, 0u);
  EXPECT_EQ(Judge({}).edges, 0u);
}

TEST(FactsOfThisProgram, BoundariesEntriesAndPointers) {
  auto facts = *Facts::Load(*elf::File::Open("/proc/self/exe"));
  const uint64_t bias = Bias();
  EXPECT_EQ(facts.IsEntry(At(cfi_outer) - bias), Known::kYes);
  EXPECT_EQ(facts.IsEntry(At(cfi_outer_site) - bias), Known::kNo);
  EXPECT_EQ(facts.IsBoundary(At(cfi_outer_site) - bias), Known::kYes);
  EXPECT_EQ(facts.IsBoundary(At(cfi_outer_isite) - bias + 2), Known::kNo);
  EXPECT_EQ(facts.IsTaken(At(cfi_taken) - bias), Known::kYes);
  EXPECT_EQ(facts.IsTaken(Untaken() - bias), Known::kNo);
  EXPECT_EQ(facts.TailJumps(*facts.Find(At(cfi_tail) - bias)), Known::kYes);
  EXPECT_EQ(facts.TailJumps(*facts.Find(At(cfi_inner) - bias)), Known::kNo);
  ASSERT_TRUE(facts.CallBefore(At(cfi_outer_isite) - bias).has_value());
  EXPECT_FALSE(facts.CallBefore(At(cfi_outer_icall) - bias).has_value());
  EXPECT_TRUE(facts.has_unwind());
  EXPECT_EQ(kept_pointer, cfi_taken);
}

TEST(Policies, X9AThunkReturnsForItsCaller) {
  const std::vector<BranchEntry> thunk = {Edge(cfi_tail_jump, cfi_thunk, Kind::kJump), Edge(cfi_thunk_call, cfi_thunk_on, Kind::kCall)};
  std::vector<BranchEntry> good = {Edge(cfi_other_call, cfi_tail, Kind::kCall), thunk[0], thunk[1], Edge(cfi_thunk_ret, cfi_other_site, Kind::kRet)};
  EXPECT_THAT(Names(Judge(good, {.contiguous = false})), Not(testing::Contains(HasSubstr("P2"))));
  good.back() = Edge(cfi_thunk_ret, cfi_outer_isite, Kind::kRet);
  EXPECT_THAT(Names(Judge(good, {.contiguous = false})), testing::Contains("P2 medium")) << "the open call is still asked for";
}

TEST(Policies, X3LongjmpWithoutItsName) {
  Result result = Judge({Edge(cfi_leap_jump, cfi_outer_site, Kind::kIndJump)}, {.contiguous = false});
  EXPECT_THAT(Names(result), Not(testing::Contains(HasSubstr("P4"))));
  EXPECT_EQ(result.exceptions[static_cast<size_t>(Exception::kLongjmp)], 1u);
}

// The policies that only a check point can ask.
Window AtPoint(CheckPoint point) { return {.contiguous = false, .point = point}; }
const uint64_t kSyscallSite = At(cfi_restorer) + 9;  // behind mov $15, %rax; syscall

TEST(Policies, P10TheStackPointersPlace) {
  EXPECT_THAT(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kOwn})).violations, IsEmpty());
  EXPECT_THAT(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kSignal})).violations, IsEmpty());
  EXPECT_THAT(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kVisited})).violations, IsEmpty());
  EXPECT_THAT(Names(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kStrange}))), testing::ElementsAre("P10 info"));
  EXPECT_THAT(Names(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kData}))), testing::ElementsAre("P10 low"));
  Result unknown = Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kUnknown}));
  EXPECT_THAT(unknown.violations, IsEmpty());
  EXPECT_EQ(unknown.policies[static_cast<size_t>(Policy::kStack)].unknown[static_cast<size_t>(Reason::kNoMap)], 1u);
}

// What libc's restorer is for: a frame that no signal has made. A window that is complete says so.
TEST(Policies, P2AForgedSignalFrameThroughTheLibrarysOwnRestorer) {
  const BranchEntry restores = Edge(cfi_inner_ret, cfi_restorer, Kind::kRet);
  EXPECT_THAT(Names(Judge({kCall, restores}, AtPoint({}))), testing::ElementsAre("P1 medium", "P2 medium"));
  // Through a handler that the kernel has entered, whose code is of no file: legal.
  const BranchEntry handler{0xffffffff81000000, 0x10000100, MakeInfo(Kind::kEret)};
  EXPECT_THAT(Judge({kCall, handler, {0x10000108, At(cfi_restorer), MakeInfo(Kind::kRet)}}, AtPoint({})).violations, IsEmpty());
  // The kernel came by when nothing was open, and the call that was made since has its return yet to come.
  Result below = Judge({restores}, AtPoint({}));
  EXPECT_THAT(below.violations, IsEmpty());
  EXPECT_EQ(below.exceptions[static_cast<size_t>(Exception::kSignal)], 2u);
  // At the call itself the count of handlers tells.
  EXPECT_THAT(Names(Judge({}, AtPoint({.no_signal = true}))), testing::ElementsAre("P2 medium"));
}

// Whoever makes the kernel lead a thread to where programs begin has not executed one: only the kernel's word counts live.
TEST(Policies, AForgedBeginningHidesNothing) {
  const BranchEntry begins{0xffffffff81000000, At(_start), MakeInfo(Kind::kEret)};
  Result result = Judge({Edge(cfi_inner_ret, 0x7ffc00001000, Kind::kRet), begins, kCall, kReturn}, AtPoint({}));
  EXPECT_THAT(Names(result), testing::ElementsAre("P8 high"));
  EXPECT_EQ(result.forgotten, 0u);
  // In a recording there is no such word: what came before is left out, and counted.
  EXPECT_EQ(Judge({Edge(cfi_inner_ret, 0x7ffc00001000, Kind::kRet), begins, kCall, kReturn}).forgotten, 1u);
}

TEST(Policies, P10RaisesWhatIsBrokenBesideIt) {
  EXPECT_THAT(Names(Judge({Edge(cfi_inner_ret, cfi_outer_label, Kind::kRet)}, AtPoint({.stack = StackPlace::kData}))), testing::ElementsAre("P1 high", "P10 low"));
}

TEST(Policies, P11TheSystemCallsInstruction) {
  Result file = Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kOwn, .call_site = kSyscallSite, .call = 15}));
  EXPECT_THAT(file.violations, IsEmpty());
  EXPECT_EQ(file.policies[static_cast<size_t>(Policy::kCallSite)].held, 1u);
  EXPECT_THAT(Names(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kOwn, .call_site = 0x20000002, .call = 59}))), testing::ElementsAre("P11 medium"));
  Result jit = Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kOwn, .call_site = 0x10000002, .call = 59}));
  EXPECT_THAT(jit.violations, IsEmpty());
  EXPECT_EQ(jit.policies[static_cast<size_t>(Policy::kCallSite)].excepted, 1u);
  // 0f 05 within mov $0x0000050f, %eax
  EXPECT_THAT(Names(Judge({kCall, kReturn}, AtPoint({.stack = StackPlace::kOwn, .call_site = At(cfi_hidden_call) + 3, .call = 59}))), testing::ElementsAre("P11 high"));
}

// P12 and P13: learned from one window, asked of others.
TEST(Policies, P12AndP13WhatWasLearned) {
  Baseline learned;
  Map map;
  std::vector<BranchEntry> seen = {kReturn};
  Window honest{.records = seen, .contiguous = false, .point = CheckPoint{.stack = StackPlace::kOwn, .call_site = kSyscallSite, .call = 59, .sensitive = true}};
  learned.Learn(honest, map);
  ASSERT_GT(learned.edges(), 0u);
  const CheckPoint point{.stack = StackPlace::kOwn, .call_site = kSyscallSite, .call = 59, .sensitive = true, .baseline = &learned};
  Result same = Judge({kReturn}, AtPoint(point));
  EXPECT_THAT(same.violations, IsEmpty());
  EXPECT_EQ(same.policies[static_cast<size_t>(Policy::kLearned)].held, 1u);
  EXPECT_EQ(same.policies[static_cast<size_t>(Policy::kPath)].held, 1u);
  // Another way back, legal by itself.
  const auto other = Names(Judge({Edge(cfi_inner_ret, cfi_other_site, Kind::kRet)}, AtPoint(point)));
  EXPECT_THAT(other, testing::UnorderedElementsAre("P12 medium", "P13 medium"));
  // At a call that is not sensitive the new edge is worth a note only.
  CheckPoint plain = point;
  plain.sensitive = false;
  EXPECT_THAT(Names(Judge({Edge(cfi_inner_ret, cfi_other_site, Kind::kRet)}, AtPoint(plain))), testing::ElementsAre("P12 info"));
}

TEST(Policies, IndirectEdgesWithoutAnAnswerAreCounted) {
  Result known = Judge({kCall, kReturn, Edge(cfi_outer_icall, cfi_taken, Kind::kIndCall)});
  EXPECT_EQ(known.unwind_edges, 2u);
  EXPECT_EQ(known.unwind_unknown, 0u);
}

}  // namespace
}  // namespace brink::cfi

#endif
