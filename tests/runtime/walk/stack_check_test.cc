// The checker itself must see what is wrong.
#include "walk/stack_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink::testing_support {
namespace {

// 1000: nop; 1001: je 1000; 1003: call 1009; 1008: ret; 1009: jmp *rax
constexpr char kCode[] = "\x90\x74\xfd\xe8\x01\x00\x00\x00\xc3\xff\xe0";

StackVerdict Judge(std::vector<BranchEntry> newest_first, uint64_t start) {
  StackVerdict verdict;
  CheckStack(newest_first, start, [](uint64_t address, size_t size) -> std::string {
    if (address < 0x1000 || address >= 0x100b) return {};
    return std::string(kCode, sizeof kCode - 1).substr(address - 0x1000, size);
  }, &verdict, Text::kX86);
  return verdict;
}

// 1000: nop; 1004: b.eq 1000; 1008: bl 1014; 100c: ret; 1010: tbz w0, #0, 1000; 1014: cbnz x1, 100c; 1018: blraa x8, x9; 101c: b 1010; 1020: svc #0
constexpr uint32_t kA64Code[] = {0xd503201f, 0x54ffffe0, 0x94000003, 0xd65f03c0, 0x3607ff80, 0xb5ffffc1, 0xd73f0909, 0x17fffffd, 0xd4000001};

StackVerdict JudgeA64(std::vector<BranchEntry> newest_first, uint64_t start) {
  StackVerdict verdict;
  CheckStack(newest_first, start, [](uint64_t address, size_t size) -> std::string {
    if (address < 0x1000 || address >= 0x1000 + sizeof kA64Code) return {};
    return std::string(reinterpret_cast<const char*>(kA64Code), sizeof kA64Code).substr(address - 0x1000, size);
  }, &verdict, Text::kA64);
  return verdict;
}

BranchEntry Entry(uint64_t from, uint64_t to, Kind kind) { return BranchEntry{{from, to, MakeInfo(kind)}}; }

TEST(CheckStack, AcceptsATrueStack) {
  auto verdict = Judge({Entry(0x1009, 0x1008, Kind::kIndJump), Entry(0x1003, 0x1009, Kind::kCall), Entry(0x1001, 0x1000, Kind::kCond)}, 0x1000);
  EXPECT_EQ(verdict.wrong, 0u) << testing::PrintToString(verdict.complaints);
  EXPECT_EQ(verdict.ranges, 3u);
  EXPECT_EQ(verdict.entries, 3u);
}

TEST(CheckStack, SeesEveryKindOfMistake) {
  EXPECT_EQ(Judge({Entry(0x1000, 0x1001, Kind::kCond)}, 0).wrong, 1u);                                        // a nop
  EXPECT_EQ(Judge({Entry(0x1001, 0x1000, Kind::kJump)}, 0).wrong, 1u);                                        // other kind
  EXPECT_EQ(Judge({Entry(0x1001, 0x1003, Kind::kCond)}, 0).wrong, 1u);                                        // other target
  EXPECT_EQ(Judge({Entry(0x1009, 0x1000, Kind::kIndJump), Entry(0x1001, 0x1000, Kind::kCond)}, 0).wrong, 1u);  // over a call
  EXPECT_EQ(Judge({Entry(0x1008, 0x2000, Kind::kRet)}, 0x1005).wrong, 1u);                                     // off a boundary
  EXPECT_EQ(Judge({Entry(0x1001, 0x1000, Kind::kCond)}, 0x1008).wrong, 1u);                                   // backwards
  EXPECT_EQ(Judge({Entry(0x5000, 0x1000, Kind::kCond)}, 0).unreadable, 1u);
}

TEST(CheckStack, KnowsTheBranchesOfA64) {
  auto verdict = JudgeA64({Entry(0x101c, 0x1010, Kind::kJump), Entry(0x1018, 0x101c, Kind::kIndCall), Entry(0x1010, 0x1000, Kind::kCond), Entry(0x100c, 0x1010, Kind::kRet),
                           Entry(0x1014, 0x100c, Kind::kCond), Entry(0x1008, 0x1014, Kind::kCall), Entry(0x1004, 0x1000, Kind::kCond)}, 0x1000);
  // From 1000 over 1004 to 1018 there are a call and a return in between.
  EXPECT_EQ(verdict.wrong, 1u) << testing::PrintToString(verdict.complaints);
  EXPECT_EQ(verdict.ranges, 7u);
  EXPECT_EQ(JudgeA64({Entry(0x1004, 0x1004, Kind::kCond)}, 0).wrong, 1u);
  EXPECT_EQ(JudgeA64({Entry(0x1000, 0x1004, Kind::kJump)}, 0).wrong, 1u);
  EXPECT_EQ(JudgeA64({Entry(0x100c, 0x1000, Kind::kIndJump)}, 0).wrong, 1u);
  EXPECT_EQ(JudgeA64({Entry(0x100c, 0x1000, Kind::kRet)}, 0x1006).wrong, 1u) << "between two words";
}

}  // namespace
}  // namespace brink::testing_support
