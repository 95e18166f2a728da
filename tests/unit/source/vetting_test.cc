#include "source/vetting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink {
namespace {

using testing::HasSubstr;

VmArea Device(uint64_t start, uint64_t end) { return {{.start = start, .end = end, .path = "/dev/x"}, true, true}; }
VmArea Vvar(uint64_t start, uint64_t end) { return {{.start = start, .end = end, .path = "[vvar]"}, true, true}; }

TEST(Judge, AnOrdinaryProcessIsWalkedWithVvarUnknown) {
  std::vector<VmArea> areas = {VmArea{{.start = 0x1000, .end = 0x2000, .executable = true, .path = "/bin/x"}}, Vvar(0x7000, 0x9000)};
  Verdict verdict = Judge(areas, {}, {});
  EXPECT_EQ(verdict.proc.flags, static_cast<uint32_t>(BRINK_PROC_FSBASE));
  ASSERT_EQ(verdict.proc.nr_ranges, 1u);
  EXPECT_EQ(verdict.proc.range[0].kind, static_cast<uint32_t>(BRINK_RANGE_UNKNOWN));
  EXPECT_EQ(verdict.note, "");
}

TEST(Judge, DeviceMemoryRefusesUnlessAllowed) {
  std::vector<VmArea> areas = {Device(0x5000, 0x6000)};
  Verdict refused = Judge(areas, {}, {});
  EXPECT_TRUE(refused.proc.flags & BRINK_PROC_REFUSED);
  EXPECT_THAT(refused.note, HasSubstr("/dev/x"));
  Verdict allowed = Judge(areas, {}, {.allow_device = true});
  EXPECT_FALSE(allowed.proc.flags & BRINK_PROC_REFUSED);
  ASSERT_EQ(allowed.proc.nr_ranges, 1u);
  EXPECT_EQ(allowed.proc.range[0].start, 0x5000u);
  EXPECT_EQ(allowed.proc.range[0].end, 0x6000u);
  EXPECT_EQ(allowed.proc.range[0].kind, static_cast<uint32_t>(BRINK_RANGE_DEVICE));
}

TEST(Judge, ASegmentWriterLosesItsSegmentBases) {
  Verdict verdict = Judge({}, {.writes = true, .where = "/bin/\x1b[31m"}, {});
  EXPECT_FALSE(verdict.proc.flags & BRINK_PROC_FSBASE);
  EXPECT_THAT(verdict.note, HasSubstr("\\x1b"));
}

TEST(Judge, ManyAreasAreJoinedAndNothingOfThemIsLeftOut) {
  std::vector<VmArea> areas;
  for (uint64_t i = 0; i < 100; ++i) areas.push_back(Device(0x100000 + i * i * 0x3000, 0x101000 + i * i * 0x3000));
  areas.push_back(Vvar(0x7fff0000, 0x7fff4000));
  Verdict verdict = Judge(areas, {}, {.allow_device = true});
  ASSERT_EQ(verdict.proc.nr_ranges, static_cast<uint32_t>(BRINK_WALK_RANGES - 1)) << "one is the walker's own";
  for (const VmArea& area : areas) {
    uint32_t wanted = area.kernel_written() ? BRINK_RANGE_UNKNOWN : BRINK_RANGE_DEVICE;
    bool covered = false;
    for (uint32_t i = 0; i < verdict.proc.nr_ranges; ++i) {
      const brink_walk_range& range = verdict.proc.range[i];
      covered |= range.start <= area.start && area.end <= range.end && (range.kind == wanted || range.kind == BRINK_RANGE_DEVICE);
    }
    EXPECT_TRUE(covered) << std::hex << area.start;
  }
}

}  // namespace
}  // namespace brink
