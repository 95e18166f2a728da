#include "source/vm_areas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/status_matchers.h"

namespace brink {
namespace {

constexpr char kSmaps[] =
    "555500000000-555500002000 r-xp 00001000 fe:00 1234                       /usr/bin/a b\n"
    "Size:                  8 kB\n"
    "VmFlags: rd ex mr mw me sd \n"
    "7f0000000000-7f0000001000 rw-s 00000000 00:06 99                         /dev/card0\n"
    "VmFlags: rd wr sh mr mw me ms pf io de dd sd \n"
    "7f0000004000-7f0000008000 r--p 00000000 00:00 0                          [vvar]\n"
    "VmFlags: rd mr pf io de dd \n"
    "7f0000010000-7f0000011000 rw-p 00000000 00:00 0 \n"
    "Size:                  4 kB\n";

TEST(ParseSmaps, ReadsHeadsAndFlags) {
  auto areas = ParseSmaps(kSmaps);
  ASSERT_EQ(areas.size(), 4u);
  EXPECT_EQ(areas[0].start, 0x555500000000u);
  EXPECT_EQ(areas[0].end, 0x555500002000u);
  EXPECT_EQ(areas[0].offset, 0x1000u);
  EXPECT_EQ(areas[0].inode, 1234u);
  EXPECT_EQ(areas[0].path, "/usr/bin/a b");
  EXPECT_TRUE(areas[0].executable);
  EXPECT_FALSE(areas[0].device());
  EXPECT_TRUE(areas[1].io && areas[1].pfn_map && areas[1].writable);
  EXPECT_TRUE(areas[2].device() && areas[2].kernel_written());
}

TEST(ParseSmaps, AnAreaWithoutFlagsCountsAsDevice) { EXPECT_TRUE(ParseSmaps(kSmaps)[3].device()); }

TEST(ParseSmaps, SkipsWhatMakesNoSense) {
  EXPECT_TRUE(ParseSmaps("").empty());
  EXPECT_TRUE(ParseSmaps("VmFlags: io\nxyz\n-\n10-\n20-10 r-xp 0 0:0 0\n1-2\n1-2 r\n").empty());
}

TEST(ReadVmAreas, SeesThisProcess) {
  auto areas = ReadVmAreas(getpid());
  ASSERT_THAT(areas, testing_support::IsOk());
  uint64_t here = reinterpret_cast<uint64_t>(&kSmaps);
  int hits = 0, vvar = 0;
  for (const VmArea& area : *areas) {
    hits += area.start <= here && here < area.end && !area.device();
    vvar += area.kernel_written() && area.device();
  }
  EXPECT_EQ(hits, 1);
  EXPECT_GE(vvar, 1);
}

TEST(ReadVmAreas, NamesAProcessThatIsGone) {
  EXPECT_THAT(ReadVmAreas(0x7ffffff0), testing_support::StatusIs(absl::StatusCode::kNotFound, testing::HasSubstr("is gone")));
}

}  // namespace
}  // namespace brink
