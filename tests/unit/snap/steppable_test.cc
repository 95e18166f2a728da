// Instructions that uprobes get wrong, by their bytes as assemblers write them.
#include "snap/steppable.h"

#include <gtest/gtest.h>

#include <vector>

namespace brink::snap {
namespace {

#if defined(__x86_64__)

size_t Mangled(std::vector<uint8_t> code) {
  code.resize(15, 0xcc);
  return MangledByUprobe(code);
}

TEST(Steppable, VectorInstructionsThatLookLikeOthers) {
  EXPECT_EQ(Mangled({0x62, 0xf2, 0x7d, 0x28, 0x7a, 0xc6}), 6u);              // vpbroadcastb %esi,%ymm16: jp
  EXPECT_EQ(Mangled({0xc5, 0xf9, 0x74, 0xc0}), 4u);                          // vpcmpeqb %xmm0,%xmm0,%xmm0: je
  EXPECT_EQ(Mangled({0xc5, 0xf1, 0xeb, 0xc2}), 4u);                          // vpor %xmm2,%xmm1,%xmm0: jmp
  EXPECT_EQ(Mangled({0xc5, 0xf8, 0x77}), 3u);                                // vzeroupper: ja
  EXPECT_EQ(Mangled({0xc5, 0xf8, 0x54, 0x05, 1, 2, 3, 4}), 8u);              // vandps disp(%rip),%xmm0,%xmm0: push
  EXPECT_EQ(Mangled({0xc5, 0xf9, 0x70, 0xc1, 0x1b}), 5u);                    // vpshufd $27,%xmm1,%xmm0: jo
  EXPECT_EQ(Mangled({0xc4, 0xe2, 0x79, 0x78, 0x44, 0x24, 0x08}), 7u);        // vpbroadcastb 8(%rsp),%xmm0: js
  EXPECT_EQ(Mangled({0xc5, 0xfa, 0x7e, 0x84, 0x24, 0, 1, 0, 0}), 9u);        // vmovq 256(%rsp),%xmm0: jle
  EXPECT_EQ(Mangled({0xc5, 0xf8, 0xc2, 0xc1, 0}), 5u);                       // vcmpeqps %xmm1,%xmm0,%xmm0: ret
  EXPECT_EQ(Mangled({0xc4, 0xe2, 0x69, 0x90, 0x04, 0x25, 0, 0, 0, 0}), 10u); // vpgatherdd: nop
}

TEST(Steppable, OffsetsInsideOfInstructions) {
  // push %rbp; mov %rsp,%rbp; mov $0x12345678,%eax; ret
  const std::vector<uint8_t> code = {0x55, 0x48, 0x89, 0xe5, 0xb8, 0x78, 0x56, 0x34, 0x12, 0xc3};
  for (uint64_t whole : {0, 1, 4, 9}) EXPECT_FALSE(InsideInstruction(code, whole)) << whole;
  for (uint64_t offset : {2, 3}) {
    auto inside = InsideInstruction(code, offset);
    ASSERT_TRUE(inside) << offset;
    EXPECT_EQ(inside->before, 1u);
    EXPECT_EQ(inside->after, 4u);
  }
  ASSERT_TRUE(InsideInstruction(code, 8));
  EXPECT_EQ(InsideInstruction(code, 8)->before, 4u);
  // What is no instruction says nothing about what comes after it; neither do bytes that are not there.
  EXPECT_FALSE(InsideInstruction(std::vector<uint8_t>{0x06, 0xb8, 0, 0, 0, 0}, 3));
  EXPECT_FALSE(InsideInstruction(code, 100));
}

TEST(Steppable, AllOthersMayBeProbed) {
  EXPECT_EQ(Mangled({0xf3, 0x0f, 0x1e, 0xfa}), 0u);                    // endbr64
  EXPECT_EQ(Mangled({0x55}), 0u);                                      // push %rbp
  EXPECT_EQ(Mangled({0x74, 0x10}), 0u);                                // je
  EXPECT_EQ(Mangled({0xe8, 1, 2, 3, 4}), 0u);                          // call
  EXPECT_EQ(Mangled({0xc5, 0xf8, 0x28, 0xc1}), 0u);                    // vmovaps %xmm1,%xmm0
  EXPECT_EQ(Mangled({0x62, 0xe1, 0xfe, 0x28, 0x6f, 0x06}), 0u);        // vmovdqu64 (%rsi),%ymm16
  EXPECT_EQ(Mangled({0xc4, 0xe2, 0x78, 0xf2, 0xc1}), 0u);              // andn %ecx,%eax,%eax
  EXPECT_EQ(Mangled({0x66, 0x0f, 0x74, 0xc0}), 0u);                    // pcmpeqb %xmm0,%xmm0: two opcode bytes
}

TEST(Steppable, CutBytes) {
  EXPECT_EQ(MangledByUprobe({}), 0u);
  const uint8_t prefix[] = {0x62, 0xf2, 0x7d};
  EXPECT_EQ(MangledByUprobe(prefix), 0u);
  const uint8_t opcode[] = {0xc5, 0xf9, 0x74};
  EXPECT_EQ(MangledByUprobe(opcode), 4u);
}

#endif

}  // namespace
}  // namespace brink::snap
