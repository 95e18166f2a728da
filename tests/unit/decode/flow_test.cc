#include "decode/flow.h"

#include <cstring>
#include <map>

#include <gtest/gtest.h>

namespace brink::decode {
namespace {

class FakeMemory : public Memory {
 public:
  size_t Read(uint64_t address, void* out, size_t size) override {
    auto at = words.find(address);
    if (at == words.end() || size != sizeof at->second) return 0;
    std::memcpy(out, &at->second, size);
    return size;
  }
  std::map<uint64_t, uint64_t> words;
};

constexpr uint64_t kIp = 0x401000;

Insn DecodeAt(std::vector<uint8_t> bytes) {
  auto insn = DecodeX86(bytes, kIp);
  EXPECT_TRUE(insn.has_value());
  return insn.value_or(Insn{});
}

struct FlowCase {
  const char* text;
  std::vector<uint8_t> bytes;
  Flow flow;
};

TEST(Decode, KindsOfTransfers) {
  const FlowCase cases[] = {
      {"nop", {0x90}, Flow::kNext},
      {"rep movsq", {0xf3, 0x48, 0xa5}, Flow::kNext},
      {"je +5", {0x74, 0x05}, Flow::kCond},
      {"jne rel32", {0x0f, 0x85, 1, 0, 0, 0}, Flow::kCond},
      {"jrcxz", {0xe3, 0x05}, Flow::kCond},
      {"loop", {0xe2, 0xfe}, Flow::kCond},
      {"jmp rel8", {0xeb, 0x10}, Flow::kJump},
      {"jmp rax", {0xff, 0xe0}, Flow::kIndJump},
      {"notrack jmp rax", {0x3e, 0xff, 0xe0}, Flow::kIndJump},
      {"bnd jmp [rip+x]", {0xf2, 0xff, 0x25, 1, 0, 0, 0}, Flow::kIndJump},
      {"call rel32", {0xe8, 0, 0, 0, 0}, Flow::kCall},
      {"call [r12]", {0x41, 0xff, 0x14, 0x24}, Flow::kIndCall},
      {"ret", {0xc3}, Flow::kRet},
      {"rep ret", {0xf3, 0xc3}, Flow::kRet},
      {"ret 16", {0xc2, 16, 0}, Flow::kRet},
      {"syscall", {0x0f, 0x05}, Flow::kSyscall},
      {"int 0x80", {0xcd, 0x80}, Flow::kSyscall},
      {"sysenter", {0x0f, 0x34}, Flow::kSyscall},
      {"int3", {0xcc}, Flow::kOther},
      {"int 0x20", {0xcd, 0x20}, Flow::kOther},
      {"ud2", {0x0f, 0x0b}, Flow::kOther},
      {"hlt", {0xf4}, Flow::kOther},
      {"iretq", {0x48, 0xcf}, Flow::kOther},
      {"retf", {0xcb}, Flow::kOther},
      {"jmp far [rsp]", {0xff, 0x2c, 0x24}, Flow::kOther},
      {"call far [rsp]", {0xff, 0x1c, 0x24}, Flow::kOther},
      {"xbegin", {0xc7, 0xf8, 1, 0, 0, 0}, Flow::kOther},
      {"xend", {0x0f, 0x01, 0xd5}, Flow::kNext},
      {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, Flow::kNext},
  };
  for (const FlowCase& c : cases) {
    Insn insn = DecodeAt(c.bytes);
    EXPECT_EQ(insn.flow, c.flow) << c.text;
    EXPECT_EQ(insn.length, c.bytes.size()) << c.text;
  }
}

TEST(Decode, RefusesWhatIsNoWholeInstruction) {
  EXPECT_FALSE(DecodeX86(std::vector<uint8_t>{}, kIp));
  EXPECT_FALSE(DecodeX86(std::vector<uint8_t>{0x0f}, kIp));
  EXPECT_FALSE(DecodeX86(std::vector<uint8_t>{0xe8, 0, 0}, kIp));
  EXPECT_FALSE(DecodeX86(std::vector<uint8_t>{0x06}, kIp)) << "push es does not exist in 64-bit code";
}

TEST(Decode, DirectTargets) {
  EXPECT_EQ(DecodeAt({0xeb, 0xfe}).target, kIp);
  EXPECT_EQ(DecodeAt({0xe8, 0xfb, 0xff, 0xff, 0x7f}).target, kIp + 5 + 0x7ffffffb);
  EXPECT_EQ(DecodeAt({0x0f, 0x84, 0x00, 0xff, 0xff, 0xff}).target, kIp + 6 - 0x100);
}

TEST(Decode, StackEffects) {
  struct Case {
    const char* text;
    std::vector<uint8_t> bytes;
    bool known;
    int delta;
    int store_size;
    int64_t store_offset;
  };
  const Case cases[] = {
      {"push rax", {0x50}, true, -8, 8, -8},
      {"push [rsp]", {0xff, 0x34, 0x24}, true, -8, 8, -8},
      {"push ax", {0x66, 0x50}, true, -2, 2, -2},
      {"pop rax", {0x58}, true, 8, 0, 0},
      {"pop rsp", {0x5c}, false, 0, 0, 0},
      {"pushfq", {0x9c}, true, -8, 8, -8},
      {"popfq", {0x9d}, true, 8, 0, 0},
      {"sub rsp, 8", {0x48, 0x83, 0xec, 8}, true, -8, 0, 0},
      {"add rsp, 0x100", {0x48, 0x81, 0xc4, 0, 1, 0, 0}, true, 0x100, 0, 0},
      {"add esp, 8", {0x83, 0xc4, 8}, false, 0, 0, 0},
      {"sub rsp, rax", {0x48, 0x29, 0xc4}, false, 0, 0, 0},
      {"and rsp, -16", {0x48, 0x83, 0xe4, 0xf0}, false, 0, 0, 0},
      {"lea rsp, [rsp+16]", {0x48, 0x8d, 0x64, 0x24, 0x10}, true, 16, 0, 0},
      {"lea rsp, [rbp-16]", {0x48, 0x8d, 0x65, 0xf0}, false, 0, 0, 0},
      {"leave", {0xc9}, false, 0, 0, 0},
      {"mov rsp, rbp", {0x48, 0x89, 0xec}, false, 0, 0, 0},
      {"xchg rsp, rax", {0x48, 0x94}, false, 0, 0, 0},
      {"mov [rsp+8], rax", {0x48, 0x89, 0x44, 0x24, 0x08}, true, 0, 8, 8},
      {"movups [rsp], xmm0", {0x0f, 0x11, 0x04, 0x24}, true, 0, 16, 0},
      {"mov [rsp+rax*8], rcx", {0x48, 0x89, 0x0c, 0xc4}, true, 0, UINT16_MAX, 0},
      {"mov rax, [rsp]", {0x48, 0x8b, 0x04, 0x24}, true, 0, 0, 0},
      {"mov [rax], rcx", {0x48, 0x89, 0x08}, true, 0, 0, 0},
  };
  for (const Case& c : cases) {
    StackEffect effect = DecodeAt(c.bytes).stack;
    EXPECT_EQ(effect.known, c.known) << c.text;
    EXPECT_EQ(effect.delta, c.delta) << c.text;
    EXPECT_EQ(effect.store_size, c.store_size) << c.text;
    EXPECT_EQ(effect.store_offset, c.store_offset) << c.text;
  }
  EXPECT_EQ(DecodeAt({0xc2, 16, 0}).stack.delta, 16) << "ret 16";
}

TEST(Evaluate, AllSixteenConditionsFollowTheManual) {
  constexpr uint64_t kC = 1, kP = 4, kZ = 0x40, kS = 0x80, kO = 0x800;
  FakeMemory memory;
  for (uint64_t bits = 0; bits < 32; ++bits) {
    bool c = bits & 1, p = bits & 2, z = bits & 4, s = bits & 8, o = bits & 16;
    X86Regs regs;
    regs.ip = kIp;
    regs.flags = (c ? kC : 0) | (p ? kP : 0) | (z ? kZ : 0) | (s ? kS : 0) | (o ? kO : 0);
    const bool want[16] = {o,      !o,       c,      !c,       z,      !z,       c || z, !(c || z),
                           s,      !s,       p,      !p,       s != o, s == o,   z || s != o, !z && s == o};
    for (uint8_t cc = 0; cc < 16; ++cc) {
      Insn insn = DecodeAt({static_cast<uint8_t>(0x70 + cc), 0x10});
      auto outcome = Evaluate(insn, regs, memory);
      ASSERT_TRUE(outcome);
      EXPECT_EQ(outcome->branched, want[cc]) << "condition " << int{cc} << " flags " << bits;
      EXPECT_EQ(outcome->next, want[cc] ? kIp + 0x12 : kIp + 2);
    }
  }
}

TEST(Evaluate, CountingBranches) {
  FakeMemory memory;
  X86Regs regs;
  regs.ip = kIp;
  auto taken = [&](std::vector<uint8_t> bytes, uint64_t rcx, uint64_t flags) {
    regs.gpr[1] = rcx;
    regs.flags = flags;
    return Evaluate(DecodeAt(bytes), regs, memory)->branched;
  };
  const std::vector<uint8_t> jrcxz = {0xe3, 5}, jecxz = {0x67, 0xe3, 5}, loop = {0xe2, 5}, loop32 = {0x67, 0xe2, 5},
                             loope = {0xe1, 5}, loopne = {0xe0, 5};
  EXPECT_TRUE(taken(jrcxz, 0, 0));
  EXPECT_FALSE(taken(jrcxz, 1ull << 32, 0));
  EXPECT_TRUE(taken(jecxz, 1ull << 32, 0));
  EXPECT_FALSE(taken(loop, 1, 0));
  EXPECT_TRUE(taken(loop, 2, 0));
  EXPECT_TRUE(taken(loop, 0, 0)) << "wraps around";
  EXPECT_FALSE(taken(loop32, (1ull << 32) + 1, 0));
  EXPECT_TRUE(taken(loope, 2, 0x40));
  EXPECT_FALSE(taken(loope, 2, 0));
  EXPECT_TRUE(taken(loopne, 2, 0));
  EXPECT_FALSE(taken(loopne, 2, 0x40));
}

TEST(Evaluate, IndirectTargets) {
  FakeMemory memory;
  X86Regs regs;
  regs.ip = kIp;
  regs.gpr[0] = 0x1111;
  regs.gpr[4] = 0x7000;
  regs.gpr[12] = 0x9000;
  regs.gpr[1] = 3;
  regs.fs_base = 0x500000;
  memory.words = {{0x7000, 0xaaaa}, {0x9000, 0xbbbb}, {0x9000 + 3 * 8 + 0x10, 0xcccc},
                  {kIp + 6 + 0x20, 0xdddd}, {0x500000 + 0x30, 0xeeee}};
  auto next = [&](std::vector<uint8_t> bytes) { return Evaluate(DecodeAt(bytes), regs, memory)->next; };
  EXPECT_EQ(next({0xff, 0xe0}), 0x1111u);                                     // jmp rax
  EXPECT_EQ(next({0xc3}), 0xaaaau);                                           // ret
  EXPECT_EQ(next({0x41, 0xff, 0x14, 0x24}), 0xbbbbu);                         // call [r12]
  EXPECT_EQ(next({0x41, 0xff, 0x64, 0xcc, 0x10}), 0xccccu);                   // jmp [r12+rcx*8+16]
  EXPECT_EQ(next({0xff, 0x25, 0x20, 0, 0, 0}), 0xddddu);                      // jmp [rip+32]
  EXPECT_EQ(next({0x64, 0xff, 0x14, 0x25, 0x30, 0, 0, 0}), 0xeeeeu);          // call fs:[0x30]
}

TEST(Evaluate, UnreadableTargetsAndOtherFlowsAreUnknown) {
  FakeMemory memory;
  X86Regs regs;
  regs.ip = kIp;
  EXPECT_FALSE(Evaluate(DecodeAt({0xc3}), regs, memory));
  EXPECT_FALSE(Evaluate(DecodeAt({0x0f, 0x05}), regs, memory));
  EXPECT_FALSE(Evaluate(DecodeAt({0xcc}), regs, memory));
}

}  // namespace
}  // namespace brink::decode
