// Nothing in a walk depends on the kernel's page size: memory that comes in pages of 4, 16 and 64 KiB, code and data at the top
// of 47-bit and 48-bit address spaces, code that crosses a page of each size. Above 2^48, where a 52-bit kernel maps only
// what asks for it, a walk ends.
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "walk/host_walker.h"

namespace brink::walk_test {
namespace {

using walk::A64Registers;

struct Space {
  const char* name;
  uint64_t page;
  uint64_t code;   // the loop lies across the end of the page that begins here
  uint64_t data;
};

// All that is mapped, in pages of one size: a page is there or not, never a part of it.
class Memory {
 public:
  explicit Memory(uint64_t page) : page_(page) {}
  void Write(uint64_t address, const void* from, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      auto& bytes = pages_[(address + i) / page_];
      bytes.resize(page_);
      bytes[(address + i) % page_] = static_cast<const uint8_t*>(from)[i];
    }
  }
  void Word(uint64_t address, uint32_t word) { Write(address, &word, sizeof word); }
  bool Read(uint64_t address, void* to, size_t size) const {
    for (size_t i = 0; i < size; ++i) {
      auto at = pages_.find((address + i) / page_);
      if (at == pages_.end()) return false;
      static_cast<uint8_t*>(to)[i] = at->second[(address + i) % page_];
    }
    return true;
  }

 private:
  uint64_t page_;
  std::map<uint64_t, std::vector<uint8_t>> pages_;
};

class Pages : public testing::TestWithParam<Space> {};

// loop: ldr x1, [x2], #8; bl f (in the next page); cbnz x1, loop; ret     f: str x1, [x3], #8; br x30
TEST_P(Pages, AWalkCrossesThem) {
  const Space& space = GetParam();
  Memory memory(space.page);
  const uint64_t loop = space.code + space.page - 8, function = space.code + space.page + 0x100;
  memory.Word(loop, 0xf8408441);                                                             // ldr x1, [x2], #8
  memory.Word(loop + 4, 0x94000000 | ((function - (loop + 4)) / 4 & 0x3ffffff));              // bl f
  memory.Word(loop + 8, 0xb5ffffc1);                                                         // cbnz x1, loop
  memory.Word(loop + 12, 0xd65f03c0);                                                        // ret
  memory.Word(function, 0xf8008461);                                                         // str x1, [x3], #8
  memory.Word(function + 4, 0xd61f03c0);                                                     // br x30
  const uint64_t values[] = {5, 4, 3, 2, 1, 0}, zero = 0;
  const uint64_t from = space.data + space.page - 16;  // across a page
  memory.Write(from, values, sizeof values);
  memory.Write(space.data + 2 * space.page, &zero, sizeof zero);
  A64Registers registers{.sp = space.data + 2 * space.page + 0x100, .ip = loop};
  registers.x[2] = from;
  registers.x[3] = space.data + space.page + 0x200;
  registers.x[30] = 0x1000;
  walk::HostWalker walker(walk::LiftOptions::A64());
  auto read = [&](uint64_t address, void* to, size_t size) { return memory.Read(address, to, size); };
  walk::WalkResult result = walker.Walk(registers, read, {.depth = 17});
  if (space.data >> 48) {
    EXPECT_EQ(result.stop, BRINK_STOP_FAULT);
    EXPECT_TRUE(result.branches.empty());
    return;
  }
  EXPECT_EQ(result.stop, BRINK_STOP_FULL);
  ASSERT_EQ(result.branches.size(), 17u) << "six calls, six ways back, five turns";
  for (size_t turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(result.branches[3 * turn].from, loop + 4);
    EXPECT_EQ(result.branches[3 * turn].to, function);
    EXPECT_EQ(result.branches[3 * turn + 1].from, function + 4);
    EXPECT_EQ(result.branches[3 * turn + 1].to, loop + 8);
    EXPECT_EQ(result.branches[3 * turn + 2].from, loop + 8);
    EXPECT_EQ(result.branches[3 * turn + 2].to, loop);
  }
}

// One page of another size than 4 KiB is missing as a whole: the walk ends there, and says where.
TEST_P(Pages, AMissingPageEndsAWalk) {
  const Space& space = GetParam();
  Memory memory(space.page);
  memory.Word(space.code, 0xf9400041);      // ldr x1, [x2]
  memory.Word(space.code + 4, 0xd65f03c0);  // ret
  A64Registers registers{.sp = space.data, .ip = space.code};
  registers.x[2] = space.data + 3 * space.page - 8;
  walk::HostWalker walker(walk::LiftOptions::A64());
  auto read = [&](uint64_t address, void* to, size_t size) { return memory.Read(address, to, size); };
  walk::WalkResult result = walker.Walk(registers, read, {.depth = 4});
  EXPECT_EQ(result.stop, BRINK_STOP_FAULT);
  EXPECT_TRUE(result.branches.empty());
  EXPECT_EQ(result.end_ip, space.code);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Pages,
                         testing::Values(Space{"4K_48bit", 4096, 0xffffa2a00000, 0xfffffe200000}, Space{"16K_47bit", 16384, 0x7fffa2a00000, 0x7ffffe200000},
                                         Space{"64K_48bit", 65536, 0xffffa2a00000, 0xfffffe200000}, Space{"64K_52bit", 65536, 0xfffffa2a00000, 0xffffffe200000},
                                         Space{"4K_52bit", 4096, 0xfffffa2a00000, 0xffffffe200000}, Space{"16K_52bit", 16384, 0xfffffa2a00000, 0xffffffe200000}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace brink::walk_test
