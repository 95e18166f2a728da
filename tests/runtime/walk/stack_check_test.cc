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
  }, &verdict);
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

}  // namespace
}  // namespace brink::testing_support
