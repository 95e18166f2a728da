// The other machine's decoder, on any host. Words as llvm-mc-19 writes them.
#include <cstring>

#include <gtest/gtest.h>

#include "decode/flow.h"

namespace brink::decode {
namespace {

constexpr uint64_t kIp = 0x401000;

class NoMemory : public Memory {
 public:
  size_t Read(uint64_t, void*, size_t) override { return 0; }
};

std::optional<Insn> DecodeWord(uint32_t word, uint64_t ip = kIp) {
  uint8_t bytes[4];
  std::memcpy(bytes, &word, sizeof word);
  return DecodeA64(bytes, ip);
}

Insn MustDecode(uint32_t word) {
  auto insn = DecodeWord(word);
  EXPECT_TRUE(insn.has_value()) << std::hex << word;
  return insn.value_or(Insn{});
}

std::optional<Outcome> Go(uint32_t word, A64Regs regs) {
  NoMemory memory;
  regs.ip = kIp;
  return Evaluate(MustDecode(word), regs, memory);
}

TEST(A64Flow, KindsOfTransfers) {
  const struct {
    const char* text;
    uint32_t word;
    Flow flow;
    uint64_t target;
  } cases[] = {
      {"nop", 0xd503201f, Flow::kNext, 0},
      {"add z0.b, z0.b, z0.b", 0x04200000, Flow::kNext, 0},
      {"b.eq #-8", 0x54ffffc0, Flow::kCond, kIp - 8},
      {"cbz w3, #64", 0x34000203, Flow::kCond, kIp + 64},
      {"tbnz x7, #40, #-4", 0xb747ffe7, Flow::kCond, kIp - 4},
      {"b #0x100", 0x14000040, Flow::kJump, kIp + 0x100},
      {"bl #-0x100", 0x97ffffc0, Flow::kCall, kIp - 0x100},
      {"br x16", 0xd61f0200, Flow::kIndJump, 0},
      {"blr x8", 0xd63f0100, Flow::kIndCall, 0},
      {"ret", 0xd65f03c0, Flow::kRet, 0},
      {"retaa", 0xd65f0bff, Flow::kRet, 0},
      {"braaz x2", 0xd61f085f, Flow::kIndJump, 0},
      {"blrab x1, sp", 0xd73f0c3f, Flow::kIndCall, 0},
      {"svc #0", 0xd4000001, Flow::kSyscall, 0},
      {"brk #1", 0xd4200020, Flow::kOther, 0},
      {"eret", 0xd69f03e0, Flow::kOther, 0},
  };
  for (const auto& c : cases) {
    Insn insn = MustDecode(c.word);
    EXPECT_EQ(insn.flow, c.flow) << c.text;
    EXPECT_EQ(insn.length, 4) << c.text;
    EXPECT_EQ(insn.target, c.target) << c.text;
  }
  EXPECT_FALSE(DecodeWord(0).has_value()) << "udf";
  EXPECT_FALSE(DecodeWord(0xd503201f, kIp + 2).has_value()) << "no instruction begins there";
  EXPECT_FALSE(DecodeA64(std::vector<uint8_t>{0x1f, 0x20, 0x03}, kIp).has_value());
}

// Every condition with every setting of the flags, against the words of the architecture's table.
TEST(A64Flow, ConditionsByTheFlags) {
  for (uint32_t flags = 0; flags < 16; ++flags) {
    const bool n = flags & 8, z = flags & 4, c = flags & 2, v = flags & 1;
    const bool holds[16] = {z, !z, c, !c, n, !n, v, !v, c && !z, !c || z, n == v, n != v, !z && n == v, z || n != v, true, true};
    for (uint32_t condition = 0; condition < 16; ++condition) {
      auto outcome = Go(0x54000080 | condition, {.flags = uint64_t{flags} << 28});  // b.COND #16
      ASSERT_TRUE(outcome.has_value());
      EXPECT_EQ(outcome->branched, holds[condition]) << condition << " with " << flags;
      EXPECT_EQ(outcome->next, kIp + (holds[condition] ? 16 : 4));
    }
  }
}

TEST(A64Flow, ConditionsByARegister) {
  A64Regs regs;
  regs.gpr[3] = uint64_t{1} << 40;
  EXPECT_TRUE(Go(0x34000203, regs)->branched) << "cbz w3 sees 32 bits";
  EXPECT_FALSE(Go(0xb4000203, regs)->branched) << "cbz x3";
  EXPECT_TRUE(Go(0xb5000203, regs)->branched) << "cbnz x3";
  EXPECT_FALSE(Go(0x35000203, regs)->branched) << "cbnz w3";
  EXPECT_TRUE(Go(0xb7400083, regs)->branched) << "tbnz x3, #40";
  EXPECT_FALSE(Go(0xb6400083, regs)->branched) << "tbz x3, #40";
  EXPECT_TRUE(Go(0xb400021f, regs)->branched) << "cbz xzr";
}

TEST(A64Flow, SignaturesAreTakenOffWhereTheInstructionDoes) {
  A64Regs regs{.signature = 0x007f000000000000};
  regs.gpr[30] = 0x002a0000004010f0;
  regs.gpr[8] = 0x002a0000004020f0;
  EXPECT_EQ(Go(0xd65f0bff, regs)->next, 0x4010f0u) << "retaa";
  EXPECT_EQ(Go(0xd65f03c0, regs)->next, regs.gpr[30]) << "ret goes where the register says";
  EXPECT_EQ(Go(0xd63f0100, regs)->next, regs.gpr[8]) << "blr x8";
  EXPECT_EQ(Go(0xd63f091f, regs)->next, 0x4020f0u) << "blraaz x8";
}

TEST(A64Flow, WhatMovesTheStackPointer) {
  const struct {
    const char* text;
    uint32_t word;
    bool known;
    int32_t delta;
  } cases[] = {
      {"sub sp, sp, #0x40", 0xd10103ff, true, -0x40},
      {"add sp, sp, #1, lsl #12", 0x914007ff, true, 4096},
      {"add x0, sp, #8", 0x910023e0, true, 0},
      {"mov sp, x29", 0x910003bf, false, 0},
      {"stp x29, x30, [sp, #-16]!", 0xa9bf7bfd, false, 0},
      {"stp x19, x20, [sp, #16]", 0xa90153f3, true, 0},
      {"ldr x0, [sp], #16", 0xf84107e0, false, 0},
      {"ldr x0, [sp, #16]", 0xf9400be0, true, 0},
      {"and sp, x0, #-16", 0x927cec1f, false, 0},
      {"cmn sp, #1", 0xb10007ff, true, 0},
  };
  for (const auto& c : cases) {
    StackEffect stack = MustDecode(c.word).stack;
    EXPECT_EQ(stack.known, c.known) << c.text;
    EXPECT_EQ(stack.delta, c.delta) << c.text;
  }
}

TEST(A64Flow, ExclusiveAccesses) {
  const struct {
    const char* text;
    uint32_t word;
    bool exclusive, stores;
  } cases[] = {
      {"ldxr x0, [x1]", 0xc85f7c20, true, false},    {"ldaxrb w0, [x1]", 0x085ffc20, true, false},
      {"ldaxp x0, x2, [x1]", 0xc87f8820, true, false}, {"stlxr w3, x0, [x1]", 0xc803fc20, true, true},
      {"stxp w3, w0, w2, [x1]", 0x88230820, true, true}, {"ldar x0, [x1]", 0xc8dffc20, false, false},
      {"stlr x0, [x1]", 0xc89ffc20, false, true},     {"caspal x2, x3, x4, x5, [x0]", 0x4862fc04, false, false},
      {"casal x2, x3, [x0]", 0xc8e2fc03, false, false},
  };
  for (const auto& c : cases) {
    Insn insn = MustDecode(c.word);
    EXPECT_EQ(insn.exclusive, c.exclusive) << c.text;
    if (c.exclusive) {
      EXPECT_EQ(insn.stores, c.stores) << c.text;
    }
  }
}

}  // namespace
}  // namespace brink::decode
