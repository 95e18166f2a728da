// Short programs with known paths.
#include "walk/host_walker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace brink::walk {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kCode = 0x400000, kStack = 0x7f0000001000, kData = 0x10000000;

// A process of two code pages, a page of stack and one of data.
class Process {
 public:
  explicit Process(const std::vector<uint8_t>& code, uint64_t at = kCode) {
    pages_[kCode].resize(8192, 0x90);
    pages_[kStack].resize(4096);
    pages_[kData].resize(4096);
    std::memcpy(pages_[kCode].data() + (at - kCode), code.data(), code.size());
    registers.ip = at;
    registers.gpr[4] = kStack + 2048;
    registers.flags = 0x202;
  }
  ReadMemory Reader() {
    return [this](uint64_t address, void* to, size_t size) {
      for (auto& [start, bytes] : pages_) {
        if (address >= start && address + size <= start + bytes.size()) {
          std::memcpy(to, bytes.data() + (address - start), size);
          return true;
        }
      }
      return false;
    };
  }
  uint8_t* At(uint64_t address) {
    for (auto& [start, bytes] : pages_) {
      if (address >= start && address < start + bytes.size()) return bytes.data() + (address - start);
    }
    return nullptr;
  }
  Registers registers;

 private:
  std::map<uint64_t, std::vector<uint8_t>> pages_;
};

std::vector<std::pair<uint64_t, uint64_t>> Pairs(const WalkResult& result) {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const BranchEntry& b : result.branches) pairs.emplace_back(b.from, b.to);
  return pairs;
}

TEST(HostWalker, FollowsCallLoopAndReturnUpToTheSystemCall) {
  Process process({
      0xb9, 0x03, 0x00, 0x00, 0x00,  // 00 mov ecx, 3
      0xe8, 0x02, 0x00, 0x00, 0x00,  // 05 call 0c
      0x0f, 0x05,                    // 0a syscall
      0xff, 0xc9,                    // 0c dec ecx
      0x75, 0xfc,                    // 0e jnz 0c
      0xc3,                          // 10 ret
  });
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_SYSCALL);
  EXPECT_EQ(result.end_ip, kCode + 0x0a);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode + 5, kCode + 0xc), std::pair(kCode + 0xe, kCode + 0xc), std::pair(kCode + 0xe, kCode + 0xc),
                                         std::pair(kCode + 0x10, kCode + 0x0a)));
  EXPECT_EQ(result.branches[0].kind(), Kind::kCall);
  EXPECT_EQ(result.branches[1].kind(), Kind::kCond);
  EXPECT_EQ(result.branches[3].kind(), Kind::kRet);
  EXPECT_EQ(walker.Gpr(1), 0u);
}

TEST(HostWalker, NeverFollowsCodeThatItHasWrittenItself) {
  Process process({
      0xc6, 0x05, 0x79, 0x00, 0x00, 0x00, 0xc3,  // 00 mov byte [rip+0x79], 0xc3: writes 80
      0xe9, 0x74, 0x00, 0x00, 0x00,              // 07 jmp 80
  });
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_CODE_CHANGED);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode + 7, kCode + 0x80)));
}

TEST(HostWalker, EndsWhereItWritesIntoTheLineThatItExecutes) {
  Process process({
      0xeb, 0x00,                                // 00 jmp 02
      0xc6, 0x05, 0x19, 0x00, 0x00, 0x00, 0xc3,  // 02 mov byte [rip+0x19], 0xc3: writes 22
      0xeb, 0xf7,                                // 09 jmp 02
  });
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_CODE_CHANGED);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode, kCode + 2)));
  EXPECT_EQ(result.end_ip, kCode + 9);
}

TEST(HostWalker, EndsAtAConditionOnTheTimeStampCounter) {
  Process process({0x0f, 0x31, 0x85, 0xc0, 0x74, 0x00});  // rdtsc; test eax, eax; jz
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_UNKNOWN_CONDITION);
  EXPECT_EQ(result.end_ip, kCode + 4);
}

TEST(HostWalker, CountsTheElementWhoseComparisonIsUnknown) {
  Process process({
      0x0f, 0x31,                    // 00 rdtsc
      0x89, 0x07,                    // 02 mov [rdi], eax
      0xb9, 0x03, 0x00, 0x00, 0x00,  // 04 mov ecx, 3
      0xf3, 0xa6,                    // 09 repe cmpsb
  });
  process.registers.gpr[6] = kData + 64;
  process.registers.gpr[7] = kData;
  HostWalker walker(LiftOptions{});
  WalkOptions options;
  const WalkResult result = walker.Walk(process.registers, process.Reader(), options);
  EXPECT_EQ(result.stop, BRINK_STOP_UNKNOWN_CONDITION);
  EXPECT_EQ(result.end_ip, kCode + 9);
  EXPECT_EQ(result.steps, 4u);
  // The state is that of a walk which was given as many steps.
  options.max_steps = result.steps;
  const std::optional<uint64_t> left = walker.Gpr(1), at = walker.Gpr(7);
  EXPECT_EQ(walker.Walk(process.registers, process.Reader(), options).steps, result.steps);
  EXPECT_EQ(left, 2u);
  EXPECT_EQ(at, kData + 1);
  EXPECT_EQ(walker.Gpr(1), left);
  EXPECT_EQ(walker.Gpr(7), at);
}

TEST(HostWalker, SeesItsOwnStores) {
  Process process({
      0x48, 0xc7, 0x07, 0x0a, 0x00, 0x40, 0x00,  // 00 mov qword [rdi], kCode + 0x0a
      0xff, 0x27,                                // 07 jmp [rdi]
      0x90,                                      // 09
      0x0f, 0x05,                                // 0a syscall
  });
  process.registers.gpr[7] = kData + 60;  // crosses a line
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_SYSCALL);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode + 7, kCode + 0x0a)));
  EXPECT_EQ(result.branches[0].kind(), Kind::kIndJump);
  EXPECT_EQ(*process.At(kData + 60), 0) << "the process itself is never written";
}

TEST(HostWalker, CrossesPagesInTheMiddleOfAnInstruction) {
  Process process({0xb8, 0x01, 0x00, 0x00, 0x00, 0x0f, 0x05}, kCode + 4094);
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_SYSCALL);
  EXPECT_EQ(walker.Gpr(0), 1u);
}

TEST(HostWalker, NoticesChangedCodeAndLiftsItAgain) {
  Process process({0xb8, 0x01, 0x00, 0x00, 0x00, 0x0f, 0x05});
  HostWalker walker(LiftOptions{});
  EXPECT_EQ(walker.Walk(process.registers, process.Reader()).stop, BRINK_STOP_SYSCALL);
  *process.At(kCode + 1) = 7;
  EXPECT_EQ(walker.Walk(process.registers, process.Reader()).stop, BRINK_STOP_SYSCALL);
  EXPECT_EQ(walker.Gpr(0), 7u);
}

TEST(HostWalker, NeverWalksOverABreakpoint) {
  Process process({0x90, 0xcc});
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_MISS);
  EXPECT_EQ(result.end_ip, kCode + 1);
}

TEST(HostWalker, NeverReadsDeviceMemoryAndTreatsVvarAsUnknown) {
  Process process({0x8b, 0x07, 0x85, 0xc0, 0x74, 0x00});  // mov eax, [rdi]; test eax, eax; jz
  process.registers.gpr[7] = kData + 128;
  HostWalker walker(LiftOptions{});
  WalkOptions options;
  options.ranges = {{kData, kData + 4096, BRINK_RANGE_DEVICE, 0}};
  const WalkResult device = walker.Walk(process.registers, process.Reader(), options);
  EXPECT_EQ(device.stop, BRINK_STOP_DEVICE_MEMORY);
  EXPECT_EQ(device.fault_address, kData + 128);
  options.ranges[0].kind = BRINK_RANGE_UNKNOWN;
  EXPECT_EQ(walker.Walk(process.registers, process.Reader(), options).stop, BRINK_STOP_UNKNOWN_CONDITION);
}

TEST(HostWalker, EndsBeforeAStoreThatThePageDoesNotPermit) {
  for (const uint8_t displacement : {uint8_t{0}, uint8_t{0xfc}}) {  // within a line, and from a page that may be stored to into one that may not
    Process process({
        0xc7, 0x00, 0x01, 0x00, 0x00, 0x00,                    // 00 mov dword [rax], 1
        0x48, 0xc7, 0x43, displacement, 0x01, 0x00, 0x00, 0x00,  // 06 mov qword [rbx+displacement], 1
        0xeb, 0xf0,                                            // 0e jmp 00
    });
    process.registers.gpr[0] = kData;
    process.registers.gpr[3] = kData + 0x800;
    WalkOptions options;
    options.access = [](uint64_t address) -> uint32_t {
      if (address >= kData + 0x800 && address < kData + 4096) return 0;
      return BRINK_ACCESS_WRITE | BRINK_ACCESS_EXEC;
    };
    HostWalker walker(LiftOptions{});
    const WalkResult result = walker.Walk(process.registers, process.Reader(), options);
    EXPECT_EQ(result.stop, BRINK_STOP_FAULT);
    EXPECT_EQ(result.end_ip, kCode + 6);
    EXPECT_EQ(result.fault_address & ~uint64_t{63}, kData + 0x800);
    EXPECT_TRUE(result.branches.empty());
  }
}

TEST(HostWalker, EndsAtCodeThatThePageDoesNotPermit) {
  Process process({0xff, 0xe0});  // jmp rax
  process.registers.gpr[0] = kCode + 4096;
  WalkOptions options;
  options.access = [](uint64_t address) -> uint32_t { return address < kCode + 4096 ? BRINK_ACCESS_EXEC : BRINK_ACCESS_WRITE; };
  HostWalker walker(LiftOptions{});
  const WalkResult result = walker.Walk(process.registers, process.Reader(), options);
  EXPECT_EQ(result.stop, BRINK_STOP_FAULT);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode, kCode + 4096)));
  EXPECT_EQ(result.fault_address, kCode + 4096);
}

TEST(HostWalker, StopsAtDepthAndAtTheStepBudget) {
  Process process({0xeb, 0xfe});  // jmp to itself
  HostWalker walker(LiftOptions{});
  WalkOptions options;
  options.depth = 2048;
  options.max_steps = 60000;
  const WalkResult full = walker.Walk(process.registers, process.Reader(), options);
  EXPECT_EQ(full.stop, BRINK_STOP_FULL);
  EXPECT_EQ(full.branches.size(), 2048u);
  options.max_steps = 100;
  const WalkResult budget = walker.Walk(process.registers, process.Reader(), options);
  EXPECT_EQ(budget.stop, BRINK_STOP_BUDGET);
  EXPECT_EQ(budget.branches.size(), 100u);
}

TEST(HostWalker, KeepsOnlyTheKindsAskedFor) {
  Process process({0xe8, 0x02, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xc3});  // call 7; syscall; ret
  HostWalker walker(LiftOptions{});
  WalkOptions options;
  options.kind_mask = 1u << 6;
  const WalkResult result = walker.Walk(process.registers, process.Reader(), options);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode + 7, kCode + 5)));
}

TEST(HostWalker, SegmentBasesAreUnknownUnlessGiven) {
  Process process({0x64, 0x8b, 0x04, 0x25, 0x10, 0x00, 0x00, 0x00, 0x85, 0xc0, 0x74, 0x02, 0x90, 0x90, 0x0f, 0x05});  // mov eax, fs:[16]; test; jz +2
  HostWalker walker(LiftOptions{});
  EXPECT_EQ(walker.Walk(process.registers, process.Reader()).stop, BRINK_STOP_UNKNOWN_CONDITION);
  process.registers.fs_base = kData;
  const WalkResult result = walker.Walk(process.registers, process.Reader());
  EXPECT_EQ(result.stop, BRINK_STOP_SYSCALL);
  EXPECT_THAT(Pairs(result), ElementsAre(std::pair(kCode + 10, kCode + 14)));
}

}  // namespace
}  // namespace brink::walk
