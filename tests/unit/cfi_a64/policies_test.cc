// The policies on windows of A64 code, as hop, walk or BRBE would record them: attacks that make sense there, and what is legal.
#include "cfi/policies.h"

#include <gmock/gmock.h>

#include "sample.h"

#ifndef A64_SAMPLE

TEST(A64Policies, HaveNoProgramToJudge) { GTEST_SKIP() << "needs clang and lld"; }

#else

namespace brink::cfi {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kBias = 0xffffa0000000;  // where libraries lie on arm64: bit 47 is set
constexpr uint64_t kHeap = 0xaaaae0000000, kVdso = 0xffffb0000000, kElsewhere = 0xffffc0000000;

class Map : public CodeMap {
 public:
  explicit Map(Facts* facts) : facts_(facts) {}
  Place At(uint64_t address) override {
    if (facts_->InText(address - kBias)) return {.memory = MemoryKind::kFile, .facts = facts_, .address = address - kBias, .module = 1};
    if (address >= kVdso && address - kVdso < 4096) return {.memory = MemoryKind::kVdso};  // of a kernel that is not at hand
    if (address >= kElsewhere && address - kElsewhere < 4096) return {.memory = MemoryKind::kFile, .module = 2};
    return {.memory = MemoryKind::kNotCode};
  }

 private:
  Facts* facts_;
};

class A64Policies : public Sample {
 protected:
  // Oldest first. Places are functions and bytes into them.
  struct Step {
    const char* from;
    uint64_t into;
    const char* to;
    uint64_t to_into;
    Kind kind;
  };
  std::vector<std::string> Judge(const std::vector<Step>& steps, Result* result = nullptr) {
    std::vector<BranchEntry> edges;
    for (const Step& s : steps) edges.push_back({kBias + At(s.from) + s.into, s.to ? kBias + At(s.to) + s.to_into : kHeap + s.to_into, MakeInfo(s.kind)});
    std::reverse(edges.begin(), edges.end());
    Map map(&*facts_);
    Result made;
    Check({.records = edges}, map, &made);
    std::vector<std::string> names;
    for (const Violation& v : made.violations) names.push_back(std::string(PolicyName(v.policy)) + " " + std::string(SeverityName(v.severity)));
    if (result) *result = made;
    return names;
  }
};

// takes: paciasp, stp, mov, mov, mov, blr x8 (20), add (24), ldp, autiasp, ret (36). never_taken: paciasp, stp, mov, bl callee (12), mov (16), ..., ret (32).
constexpr uint64_t kBlr = 20, kBehindBlr = 24, kTakesRet = 36, kBl = 12, kBehindBl = 16;

TEST_F(A64Policies, CallsAndTheirReturnsHold) {
  Result result;
  EXPECT_THAT(Judge({{"never_taken", kBl, "callee", 0, Kind::kCall}, {"callee", 20, "never_taken", kBehindBl, Kind::kRet}}, &result), IsEmpty());
  EXPECT_EQ(result.checked, 2u);
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kReturnSite)].held, 1u);
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kReturnMatch)].held, 1u);
  EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kDirectTarget)].held, 1u);
  EXPECT_THAT(Judge({{"takes", kBlr, "formed", 0, Kind::kIndCall}}), IsEmpty());
  EXPECT_THAT(Judge({{"takes", kBlr, "in_table", 0, Kind::kIndCall}}), IsEmpty());
}

TEST_F(A64Policies, AReturnMustGoBehindBlOrBlr) {
  // A saved x30 that was overwritten: into the middle of a function, then to an entry.
  EXPECT_THAT(Judge({{"takes", kTakesRet, "never_taken", 20, Kind::kRet}}), ElementsAre("P1 medium"));
  EXPECT_THAT(Judge({{"takes", kTakesRet, "callee", 0, Kind::kRet}}), ElementsAre("P1 medium"));
  // Behind a call, but not the one that is open.
  EXPECT_THAT(Judge({{"never_taken", kBl, "callee", 0, Kind::kCall}, {"callee", 20, "takes", kBehindBlr, Kind::kRet}}), ElementsAre("P2 medium"));
}

TEST_F(A64Policies, AnIndirectCallGoesToAnEntryWithAPad) {
  EXPECT_THAT(Judge({{"takes", kBlr, "never_taken", 8, Kind::kIndCall}}), ElementsAre("P3 medium"));
  // restorer has no pad in a file that has them, and nothing holds its address.
  EXPECT_THAT(Judge({{"takes", kBlr, "restorer", 0, Kind::kIndCall}}), ElementsAre("P3 medium"));
  EXPECT_THAT(Judge({{"takes", kBlr, "never_taken", 0, Kind::kIndCall}}), ElementsAre("P3 low")) << "no pointer to it is in its file";
}

TEST_F(A64Policies, NothingBeginsBetweenWords) { EXPECT_THAT(Judge({{"takes", kBlr, "callee", 2, Kind::kIndCall}}), testing::Contains("P5 high")); }

TEST_F(A64Policies, CodeLiesInFiles) { EXPECT_THAT(Judge({{"takes", kBlr, nullptr, 0x100, Kind::kIndCall}}), testing::Contains("P8 high")); }

TEST_F(A64Policies, AChangedDirectBranchIsSeen) { EXPECT_THAT(Judge({{"never_taken", kBl, "takes", 0, Kind::kCall}}), ElementsAre("P7 medium")); }

TEST_F(A64Policies, AHandlerReturnsToTheRestorer) {
  // Kernel to the handler's entry, and from its return to what the kernel put into x30.
  std::vector<BranchEntry> edges = {{kBias + At("callee") + 20, kBias + At("restorer"), MakeInfo(Kind::kRet)}, {0xffff800080010000, kBias + At("callee"), MakeInfo(Kind::kEret)}};
  Map map(&*facts_);
  Result result;
  Check({.records = edges}, map, &result);
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_GE(result.exceptions[static_cast<size_t>(Exception::kSignal)], 1u);
}

// longjmp in a stripped file: known by what it does before it jumps, and only by all of it.
TEST_F(A64Policies, LongjmpIsKnownWithoutItsName) {
  std::vector<uint64_t> nameless;
  for (const Function& f : facts_->functions()) {
    if (facts_->NameOf(f).empty() && facts_->InsnAt(f.start + 20) && facts_->InsnAt(f.start + 20)->flow == decode::Flow::kIndJump) nameless.push_back(f.start);
  }
  ASSERT_EQ(nameless.size(), 2u);
  auto judge = [&](uint64_t start) {
    std::vector<BranchEntry> edges = {{kBias + start + 20, kBias + At("takes") + kBehindBlr, MakeInfo(Kind::kIndJump)}};
    Map map(&*facts_);
    Result result;
    Check({.records = edges}, map, &result);
    return result;
  };
  const Result jumps = judge(nameless[0]), other = judge(nameless[1]);
  EXPECT_THAT(jumps.violations, IsEmpty());
  EXPECT_EQ(jumps.exceptions[static_cast<size_t>(Exception::kLongjmp)], 1u);
  EXPECT_EQ(other.exceptions[static_cast<size_t>(Exception::kLongjmp)], 0u);
  EXPECT_EQ(other.policies[static_cast<size_t>(Policy::kJumpTarget)].violated, 1u);
}

// A recording of another machine: what handlers return to is in a vDSO that nobody has. No alarm, and no claim either.
// The handler's own file may be missing, too.
TEST_F(A64Policies, AHandlerReturnsIntoAVdsoThatIsNotAtHand) {
  for (uint64_t handler : {kBias + At("callee") + 20, kElsewhere + 0x40}) {
    std::vector<BranchEntry> edges = {{handler, kVdso + 0x2c4, MakeInfo(Kind::kRet)},
                                      {kBias + At("never_taken") + kBl, kBias + At("callee"), MakeInfo(Kind::kCall)},
                                      {0xffff800080010000, kBias + At("never_taken"), MakeInfo(Kind::kEret)}};
    Map map(&*facts_);
    Result result;
    Check({.records = edges, .contiguous = false}, map, &result);
    EXPECT_THAT(result.violations, IsEmpty());
    EXPECT_EQ(result.policies[static_cast<size_t>(Policy::kReturnMatch)].unknown[static_cast<size_t>(Reason::kNoFile)], 1u);
  }
}

}  // namespace
}  // namespace brink::cfi

#endif
