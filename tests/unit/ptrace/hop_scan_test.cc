// Of x86-64 code: there calls leave their return addresses on the stack.
#include "ptrace/hop_scan.h"

#ifdef __x86_64__

#include <cstring>

#include <gtest/gtest.h>

namespace brink::ptrace {
namespace {

constexpr uint64_t kBase = 0x10000;
constexpr uint64_t kSp = 0x7fff0000;

// Code at kBase; nothing else can be read.
class Code : public decode::Memory {
 public:
  explicit Code(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  size_t Read(uint64_t address, void* out, size_t size) override {
    if (address < kBase || address >= kBase + bytes_.size()) return 0;
    size_t part = std::min(size, static_cast<size_t>(kBase + bytes_.size() - address));
    std::memcpy(out, bytes_.data() + (address - kBase), part);
    return part;
  }

 private:
  std::vector<uint8_t> bytes_;
};

Path Scan(std::vector<uint8_t> bytes, size_t limit = 32, PathState state = {.sp = kSp}) {
  Code code(std::move(bytes));
  return ScanPath(kBase, state, limit, code);
}

TEST(ScanPath, StraightCodeEndsAtTheFirstCondition) {
  Path path = Scan({0x90, 0x90, 0x74, 0x10});  // nop; nop; je
  EXPECT_EQ(path.end, Path::End::kLive);
  EXPECT_EQ(path.stop_ip, kBase + 2);
  EXPECT_TRUE(path.branches.empty());
}

TEST(ScanPath, DirectJumpsAndCallsAreFollowed) {
  // 0: jmp 3; 2: int3; 3: call 9; 8: int3; 9: jmp rax
  Path path = Scan({0xeb, 0x01, 0xcc, 0xe8, 0x01, 0, 0, 0, 0xcc, 0xff, 0xe0});
  ASSERT_EQ(path.branches.size(), 2u);
  EXPECT_EQ(path.branches[0].from, kBase);
  EXPECT_EQ(path.branches[0].to, kBase + 3);
  EXPECT_EQ(path.branches[1].kind, Kind::kCall);
  EXPECT_EQ(path.stop_ip, kBase + 9);
  EXPECT_FALSE(path.assumed);
}

TEST(ScanPath, AMatchedReturnGoesBackWithoutAStop) {
  // 0: call 8; 5: jmp rax; 7: int3; 8: push rbx; 9: sub rsp,8; 13: add rsp,8; 17: pop rbx; 18: ret
  Path path = Scan({0xe8, 3, 0, 0, 0, 0xff, 0xe0, 0xcc, 0x53, 0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 8, 0x5b, 0xc3});
  ASSERT_EQ(path.branches.size(), 2u);
  EXPECT_EQ(path.branches[1].from, kBase + 18);
  EXPECT_EQ(path.branches[1].to, kBase + 5);
  EXPECT_EQ(path.branches[1].kind, Kind::kRet);
  EXPECT_TRUE(path.assumed);
  EXPECT_EQ(path.stop_ip, kBase + 5);
  EXPECT_EQ(path.state.sp, kSp);
}

TEST(ScanPath, ARetpolineIsNoMatchedReturn) {
  // 0: call 7; 5: jmp 5; 7: mov [rsp], rax; 11: ret
  Path path = Scan({0xe8, 2, 0, 0, 0, 0xeb, 0xfe, 0x48, 0x89, 0x04, 0x24, 0xc3});
  EXPECT_EQ(path.branches.size(), 1u);
  EXPECT_EQ(path.end, Path::End::kLive);
  EXPECT_EQ(path.stop_ip, kBase + 11);
}

TEST(ScanPath, AReturnAfterAnUnknownStackPointerNeedsAStop) {
  // 0: call 6; 5: int3; 6: leave; 7: ret
  Path path = Scan({0xe8, 1, 0, 0, 0, 0xcc, 0xc9, 0xc3});
  EXPECT_EQ(path.stop_ip, kBase + 7);
  EXPECT_EQ(path.end, Path::End::kLive);
  EXPECT_FALSE(path.state.sp);
}

TEST(ScanPath, AReturnWithoutItsCallNeedsAStop) {
  Path path = Scan({0xc3});
  EXPECT_EQ(path.end, Path::End::kLive);
  EXPECT_EQ(path.stop_ip, kBase);
}

TEST(ScanPath, CallsOfEarlierStretchesAreMatchedToo) {
  PathState state{.sp = kSp};
  state.Push(kBase + 1);           // called from elsewhere, returns to 1
  Path path = Scan({0xc3, 0xff, 0xe0}, 32, state);  // ret; jmp rax
  ASSERT_EQ(path.branches.size(), 1u);
  EXPECT_EQ(path.branches[0].to, kBase + 1);
  EXPECT_EQ(path.state.sp, kSp);
}

TEST(ScanPath, TheBreakpointIsNeverPutWhereTheThreadPassesEarlier) {
  // The same ret is matched the first time and not the second: 0: call 7; 5: jmp 7; 7: ret
  Path path = Scan({0xe8, 2, 0, 0, 0, 0xeb, 0x00, 0xc3});
  EXPECT_EQ(path.stop_ip, kBase + 7);
  EXPECT_EQ(path.branches.size(), 1u) << "stops at the first arrival";
  EXPECT_FALSE(path.assumed);
}

TEST(ScanPath, ALimitReachedOverAnAssumedReturnIsNotTaken) {
  // 0: call 7; 5: jmp 0; 7: ret
  Path path = Scan({0xe8, 2, 0, 0, 0, 0xeb, 0xf9, 0xc3}, 8);
  EXPECT_EQ(path.end, Path::End::kLive);
  EXPECT_EQ(path.stop_ip, kBase + 7);
  EXPECT_EQ(path.branches.size(), 1u);
}

TEST(ScanPath, AnEndlessLoopEndsAtTheLimit) {
  Path path = Scan({0xeb, 0xfe}, 5);
  EXPECT_EQ(path.end, Path::End::kLimit);
  EXPECT_EQ(path.branches.size(), 5u);
}

TEST(ScanPath, SystemCallsAndTrapsAreTerminal) {
  EXPECT_EQ(Scan({0x90, 0x0f, 0x05}).end, Path::End::kTerminal);
  EXPECT_EQ(Scan({0xcc}).end, Path::End::kTerminal);
}

TEST(ScanPath, CodeThatEndsIsUnreadable) {
  Path path = Scan({0x90, 0x90});
  EXPECT_EQ(path.end, Path::End::kUnreadable);
  EXPECT_EQ(path.stop_ip, kBase + 2);
}

TEST(PathState, RetWithAnOperandReleasesTheArguments) {
  // 0: call 8; 5: jmp rax; 8: ret 16
  Path path = Scan({0xe8, 3, 0, 0, 0, 0xff, 0xe0, 0xcc, 0xc2, 16, 0});
  EXPECT_EQ(path.state.sp, kSp + 16);
}

}  // namespace
}  // namespace brink::ptrace

#endif
