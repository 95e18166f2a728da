#include "symbol/address_space.h"

#include <gtest/gtest.h>

namespace brink::symbol {
namespace {

class AddressSpacesTest : public testing::Test {
 protected:
  void Map(int32_t pid, uint64_t start, uint64_t length, uint64_t offset, std::string_view path) {
    spaces.Mmap({.pid = pid, .start = start, .length = length, .page_offset = offset, .path = path});
  }
  std::string Where(int32_t pid, uint64_t address) {
    Location location = spaces.Normalise(pid, address);
    char text[200];
    std::snprintf(text, sizeof text, "%s+%#llx", objects[location.object].ShortName().c_str(), static_cast<unsigned long long>(location.offset));
    return text;
  }
  ObjectTable objects;
  AddressSpaces spaces{&objects};
};

TEST_F(AddressSpacesTest, FileAddressesBecomeFileOffsets) {
  Map(7, 0x555500001000, 0x3000, 0x1000, "/bin/app");
  EXPECT_EQ(Where(7, 0x555500001234), "app+0x1234");
  EXPECT_EQ(Where(7, 0x555500004000), "[unmapped]+0x555500004000");
  EXPECT_EQ(Where(8, 0x555500001234), "[unmapped]+0x555500001234");
}

TEST_F(AddressSpacesTest, ALaterMappingReplacesThePartItOverlaps) {
  Map(7, 0x10000, 0x4000, 0, "/bin/old");
  Map(7, 0x11000, 0x1000, 0x8000, "/bin/new");
  EXPECT_EQ(Where(7, 0x10fff), "old+0xfff");
  EXPECT_EQ(Where(7, 0x11000), "new+0x8000");
  EXPECT_EQ(Where(7, 0x12000), "old+0x2000");
}

TEST_F(AddressSpacesTest, AMappingOverSeveralRemovesThem) {
  Map(7, 0x10000, 0x1000, 0, "/bin/a");
  Map(7, 0x11000, 0x1000, 0, "/bin/b");
  Map(7, 0x12000, 0x1000, 0, "/bin/c");
  Map(7, 0x10800, 0x2000, 0, "/bin/d");
  EXPECT_EQ(Where(7, 0x10400), "a+0x400");
  EXPECT_EQ(Where(7, 0x11000), "d+0x800");
  EXPECT_EQ(Where(7, 0x12900), "c+0x900");
}

TEST_F(AddressSpacesTest, AForkedChildHasItsParentsMappingsUntilItChangesThem) {
  Map(7, 0x10000, 0x1000, 0, "/bin/app");
  spaces.Fork(8, 8, 7, 7);
  Map(8, 0x10000, 0x1000, 0, "/bin/other");
  EXPECT_EQ(Where(7, 0x10010), "app+0x10");
  EXPECT_EQ(Where(8, 0x10010), "other+0x10");
}

TEST_F(AddressSpacesTest, ExecEmptiesTheProcess) {
  Map(7, 0x10000, 0x1000, 0, "/bin/sh");
  spaces.Comm(7, 7, "app", /*exec=*/true);
  EXPECT_EQ(Where(7, 0x10010), "[unmapped]+0x10010");
  EXPECT_EQ(spaces.CommOf(7, 7), "app");
}

TEST_F(AddressSpacesTest, ARenameKeepsTheMappings) {
  Map(7, 0x10000, 0x1000, 0, "/bin/app");
  spaces.Comm(7, 9, "worker", /*exec=*/false);
  EXPECT_EQ(Where(7, 0x10010), "app+0x10");
  EXPECT_EQ(spaces.CommOf(7, 9), "worker");
}

TEST_F(AddressSpacesTest, SamplesAfterTheExitStillFindTheirMappings) {
  Map(7, 0x10000, 0x1000, 0, "/bin/app");
  spaces.Exit(7, 7);
  EXPECT_EQ(Where(7, 0x10010), "app+0x10");
}

TEST_F(AddressSpacesTest, OldDeadProcessesAreForgotten) {
  for (int32_t pid = 1; pid <= static_cast<int32_t>(AddressSpaces::kKeptDead) + 1; ++pid) {
    Map(pid, 0x10000, 0x1000, 0, "/bin/app");
    spaces.Exit(pid, pid);
  }
  EXPECT_FALSE(spaces.KnowsProcess(1));
  EXPECT_TRUE(spaces.KnowsProcess(2));
}

TEST_F(AddressSpacesTest, KernelAddressesLoseKaslr) {
  spaces.Mmap({.pid = -1, .start = 0xffffffff9a000000, .length = 0x2000000, .page_offset = 0xffffffff9a000000,
               .path = "[kernel.kallsyms]_text", .kernel = true});
  spaces.Mmap({.pid = -1, .start = 0xffffffffc0500000, .length = 0x10000, .path = "[ext4]", .kernel = true});
  EXPECT_EQ(Where(7, 0xffffffff9a001230), "[kernel]+0x1230");
  EXPECT_EQ(Where(8, 0xffffffffc0500040), "[ext4]+0x40");
  EXPECT_EQ(objects[1].reference, "_text");
}

TEST_F(AddressSpacesTest, KernelImageMappedFromBelowItsReferenceSymbol) {
  spaces.Mmap({.pid = -1, .start = 0xffffffc010080000, .length = 0x1000000, .page_offset = 0xffffffc010081000,
               .path = "[kernel.kallsyms]_stext", .kernel = true});
  EXPECT_EQ(spaces.Normalise(1, 0xffffffc010081040).offset, 0x40u);
}

TEST_F(AddressSpacesTest, BpfProgramsComeFromKsymbolRecords) {
  spaces.Ksymbol({.address = 0xffffffffc0a00000, .length = 0x100, .name = "bpf_prog_6deef7357e7b4530_walk"});
  Location location = spaces.Normalise(3, 0xffffffffc0a00010);
  EXPECT_EQ(objects[location.object].kind, ObjectKind::kBpf);
  EXPECT_EQ(objects[location.object].path, "bpf_prog_6deef7357e7b4530_walk");
  EXPECT_EQ(location.offset, 0x10u);
}

TEST_F(AddressSpacesTest, AnonymousCodeBelongsToItsProcessAndKeepsItsAddress) {
  Map(7, 0x7f0000000000, 0x1000, 0, "//anon");
  Map(8, 0x7f0000000000, 0x1000, 0, "//anon");
  Location seven = spaces.Normalise(7, 0x7f0000000010), eight = spaces.Normalise(8, 0x7f0000000010);
  EXPECT_EQ(seven.offset, 0x7f0000000010u);
  EXPECT_EQ(objects[seven.object].kind, ObjectKind::kJit);
  EXPECT_NE(seven.object, eight.object);
}

TEST_F(AddressSpacesTest, VsyscallIsUserThoughItsTopBitIsSet) {
  EXPECT_EQ(Where(7, 0xffffffffff600400), "[vsyscall]+0x400");
  EXPECT_FALSE(AddressSpaces::IsKernel(0xffffffffff600400));
}

TEST_F(AddressSpacesTest, JitDumpMarkerIsRemembered) {
  Map(7, 0x7f0000000000, 0x1000, 0, "/root/.debug/jit/jit-7.dump");
  EXPECT_EQ(spaces.JitDumpOf(7), "/root/.debug/jit/jit-7.dump");
  Map(8, 0x7f0000000000, 0x1000, 0, "/tmp/jit-x.dump");
  EXPECT_EQ(spaces.JitDumpOf(8), "");
}

TEST_F(AddressSpacesTest, GenerationChangesWithEveryChangeOfTheAnswers) {
  Map(7, 0x10000, 0x1000, 0, "/bin/app");
  uint64_t before = spaces.Generation(7);
  Map(8, 0x10000, 0x1000, 0, "/bin/app");
  EXPECT_EQ(spaces.Generation(7), before);
  Map(7, 0x20000, 0x1000, 0, "/lib/x.so");
  EXPECT_NE(spaces.Generation(7), before);
}

TEST_F(AddressSpacesTest, MappingsAtTheEndOfTheAddressSpaceDoNotWrap) {
  Map(7, 0x7ffffffff000, ~uint64_t{0}, 0, "/bin/app");
  EXPECT_EQ(Where(7, 0x10), "[unmapped]+0x10");
  EXPECT_EQ(Where(7, 0x7ffffffff010), "app+0x10");
}

TEST(ObjectTable, BuildIdsStatedLaterReachEarlierObjects) {
  ObjectTable objects;
  ObjectId id = objects.Intern({.kind = ObjectKind::kFile, .path = "/bin/app"});
  objects.AddBuildId("/bin/app", "\x01\x02");
  EXPECT_EQ(objects[id].build_id, "\x01\x02");
  EXPECT_EQ(objects.Intern({.kind = ObjectKind::kFile, .path = "/bin/app"}), id);
  EXPECT_NE(objects.Intern({.kind = ObjectKind::kFile, .path = "/bin/app", .build_id = "\x03"}), id);
}

TEST(ObjectTable, ShortNames) {
  EXPECT_EQ((Object{.kind = ObjectKind::kFile, .path = "/usr/lib/libc.so.6 (deleted)"}.ShortName()), "libc.so.6");
  EXPECT_EQ((Object{.kind = ObjectKind::kJit, .pid = 12}.ShortName()), "[jit 12]");
}

}  // namespace
}  // namespace brink::symbol
