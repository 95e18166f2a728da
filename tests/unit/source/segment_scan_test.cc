#include "source/segment_scan.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace brink {
namespace {

TEST(HasSegmentBaseWrite, FindsEveryForm) {
  const std::vector<std::vector<uint8_t>> forms = {
      {0xf3, 0x0f, 0xae, 0xd0},        // wrfsbase eax
      {0xf3, 0x48, 0x0f, 0xae, 0xd7},  // wrfsbase rdi
      {0xf3, 0x49, 0x0f, 0xae, 0xdf},  // wrgsbase r15
      {0x90, 0xae, 0xf3, 0x0f, 0xae, 0xd8, 0x90}};
  for (const auto& form : forms) EXPECT_TRUE(HasSegmentBaseWrite(form));
}

TEST(FindThreadBaseWriteA64, FindsTheWriteOfAnyRegisterAndNotTheRead) {
  constexpr size_t kNowhere = std::string_view::npos;
  const std::vector<uint8_t> nop = {0x1f, 0x20, 0x03, 0xd5}, write_x3 = {0x43, 0xd0, 0x1b, 0xd5}, write_zero = {0x5f, 0xd0, 0x1b, 0xd5},
                             read_x0 = {0x40, 0xd0, 0x3b, 0xd5};
  auto code = [&](const std::vector<uint8_t>& word) {
    std::vector<uint8_t> bytes = nop;
    bytes.insert(bytes.end(), word.begin(), word.end());
    return bytes;
  };
  EXPECT_EQ(FindThreadBaseWriteA64(code(write_x3)), 4u);
  EXPECT_EQ(FindThreadBaseWriteA64(code(write_x3), 5), kNowhere);
  EXPECT_EQ(FindThreadBaseWriteA64(code(write_zero)), 4u);
  EXPECT_EQ(FindThreadBaseWriteA64(code(read_x0)), kNowhere);
  EXPECT_EQ(FindThreadBaseWriteA64(code({0x43, 0xd0, 0x1b})), kNowhere);
  std::vector<uint8_t> between = {0, 0};  // across two words it is no instruction
  between.insert(between.end(), write_x3.begin(), write_x3.end());
  EXPECT_EQ(FindThreadBaseWriteA64(between), kNowhere);
  EXPECT_TRUE(SetsThreadBaseAtStart("/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"));
  EXPECT_FALSE(SetsThreadBaseAtStart("/usr/lib/aarch64-linux-gnu/libc.so.6"));
}

TEST(MakesFirstThreadA64, AsksForSetTidAddressBehindTheWrite) {
  constexpr uint32_t kWrite = 0xd51bd053, kNop = 0xd503201f, kNumber = 0xd2800c08, kOther = 0xd2800308, kCall = 0xd4000001, kReturn = 0xd65f03c0;
  constexpr uint32_t kLinkBack2 = 0x97fffffe;
  constexpr uint64_t kStart = 0x400000;
  const auto makes = [&](const std::vector<uint32_t>& code) {
    const auto write = static_cast<uint64_t>(std::find(code.begin(), code.end(), kWrite) - code.begin());
    return MakesFirstThreadA64(kStart + 4 * write, [&](uint64_t address, size_t words) {
      const uint64_t from = std::min<uint64_t>((address - kStart) / 4, code.size());
      return std::vector<uint32_t>(code.begin() + static_cast<ptrdiff_t>(from), code.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(code.size(), from + words)));
    });
  };
  EXPECT_TRUE(makes({kWrite, kNop, kNumber, kNop, kCall, kReturn}));
  EXPECT_TRUE(makes({kNumber, kCall, kReturn, kWrite, kNop, 0x97fffffb, kReturn}));  // in the function that is called
  EXPECT_FALSE(makes({kNop, kWrite, kLinkBack2, kReturn}));                              // which calls itself
  EXPECT_FALSE(makes({kWrite, kNop, kOther, kCall, kNumber, kCall}));
  EXPECT_FALSE(makes({kWrite, kNumber, kOther, kCall}));
  EXPECT_FALSE(makes({kWrite, kNumber, kReturn, kCall}));
  EXPECT_FALSE(makes({kWrite}));
  constexpr uint32_t kLinkOn3 = 0x94000003, kMove8From0 = 0xaa0003e8, kReturnSigned = 0xd65f0bff;
  EXPECT_TRUE(makes({kWrite, kLinkOn3, kReturn, kNop, kNumber, kCall}));
  EXPECT_FALSE(makes({kWrite, kReturn, kLinkOn3, kReturn, kNop, kNumber, kCall}));  // another function's call
  EXPECT_FALSE(makes({kWrite, kReturnSigned, kNumber, kCall}));
  EXPECT_FALSE(makes({kWrite, kNumber, kMove8From0, kCall}));
}

TEST(HasSegmentBaseWrite, LeavesReadsAndFencesAlone) {
  const std::vector<std::vector<uint8_t>> forms = {
      {},
      {0xae},
      {0x0f, 0xae},
      {0x0f, 0xae, 0xd0},              // no F3: ldmxcsr-like encodings
      {0xf3, 0x48, 0x0f, 0xae, 0xc0},  // rdfsbase
      {0x0f, 0xae, 0xf0},              // mfence
      {0xf3, 0x0f, 0xae, 0x10}};       // memory operand
  for (const auto& form : forms) EXPECT_FALSE(HasSegmentBaseWrite(form));
}

// This program holds the patterns above as immediates, so its own text is left out.
std::vector<VmArea> LibrariesAndJit() {
  std::vector<VmArea> areas = *ReadVmAreas(getpid());
  std::erase_if(areas, [](const VmArea& area) { return area.path.ends_with("unit_source"); });
  return areas;
}

TEST(SegmentScanner, JudgesThisProcessAndSeesCodeThatAppears) {
  SegmentScanner scanner;
  auto before = scanner.Scan(getpid(), LibrariesAndJit());
  EXPECT_FALSE(before.writes) << before.where;

  void* page = mmap(nullptr, 3 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
#if defined(__aarch64__)
  const uint8_t code[] = {0x43, 0xd0, 0x1b, 0xd5};
  const size_t before_end = 4;
#else
  const uint8_t code[] = {0xf3, 0x48, 0x0f, 0xae, 0xd0};
  const size_t before_end = 3;  // across the boundary of two read blocks
#endif
  std::memcpy(static_cast<uint8_t*>(page) + (1 << 20) - before_end, code, sizeof code);
  EXPECT_TRUE(scanner.Scan(getpid(), LibrariesAndJit()).writes);
  munmap(page, 3 << 20);
}

TEST(SegmentScanner, WhatCannotBeReadIsAssumedToWrite) {
  VmArea area{{.start = 0x1000, .end = 0x2000, .executable = true, .path = "/nowhere"}};
  auto answer = SegmentScanner().Scan(getpid(), {area});
  EXPECT_TRUE(answer.writes);
  EXPECT_TRUE(answer.unreadable);
}

}  // namespace
}  // namespace brink
