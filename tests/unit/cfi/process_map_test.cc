// What an address of a process is, as far as it is known which program it executes.
#include "cfi/process_map.h"

#include <gtest/gtest.h>

namespace brink::cfi {
namespace {

TEST(ProcessMap, AnonymousCodeIsAJitsOrNobodysOrOfAProgramThatIsNotKnown) {
  constexpr int32_t kPid = 77;
  constexpr uint64_t kCode = 0x10000;
  ProcessMap map({});
  map.spaces().Mmap({.pid = kPid, .start = kCode, .length = 4096, .page_offset = 0, .path = "//anon", .build_id = "", .kernel = false, .executable = true});
  const std::pair<std::optional<bool>, MemoryKind> kinds[] = {{true, MemoryKind::kJit}, {false, MemoryKind::kAnonymous}, {std::nullopt, MemoryKind::kUnknown}};
  for (const auto& [jit, kind] : kinds) {
    map.Enter(kPid, jit, false);
    EXPECT_EQ(map.At(kCode + 8).memory, kind);
    EXPECT_EQ(map.At(0x900000).memory, MemoryKind::kNotCode);
    map.MakesCode(0x900000, 4096);
    EXPECT_EQ(map.At(0x900000).memory, kind);
  }
  map.Enter(kPid, false, true);
  EXPECT_EQ(map.At(0x900000).memory, MemoryKind::kUnknown) << "records were lost";
}

}  // namespace
}  // namespace brink::cfi
