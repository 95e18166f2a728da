#include "pipeline/side_band_merge.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstring>

#include "pipeline/item.h"

namespace brink {
namespace {

struct Fixture {
  void Add(uint64_t time_ns, uint32_t tag, size_t extra = 0) {
    std::vector<std::byte> record(16 + extra + sizeof(SideBandId));
    std::memcpy(record.data(), &tag, sizeof(tag));
    SideBandId id = {.time_ns = time_ns};
    std::memcpy(record.data() + 16 + extra, &id, sizeof(id));
    merge.Add(record);
  }
  std::vector<uint32_t> Release(uint64_t until) {
    std::vector<uint32_t> tags;
    merge.Release(until, [&](std::span<const std::byte> record) {
      uint32_t tag;
      std::memcpy(&tag, record.data(), sizeof(tag));
      tags.push_back(tag);
    });
    return tags;
  }
  SideBandMerge merge;
};

TEST(SideBandMerge, OrdersByTimeAcrossRings) {
  Fixture f;
  f.Add(30, 3, 8);
  f.Add(50, 5);
  f.Add(10, 1, 100);
  f.Add(40, 4);
  f.Add(20, 2);
  EXPECT_EQ(f.Release(100), (std::vector<uint32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(f.merge.size(), 0u);
}

TEST(SideBandMerge, KeepsWhatAnotherRingMayStillPrecede) {
  Fixture f;
  f.Add(30, 3);
  f.Add(10, 1, 40);
  EXPECT_EQ(f.Release(20), (std::vector<uint32_t>{1}));
  f.Add(25, 2);
  EXPECT_EQ(f.Release(30), (std::vector<uint32_t>{2, 3}));
}

TEST(SideBandMerge, EqualTimesKeepTheirOrder) {
  Fixture f;
  for (uint32_t tag = 0; tag < 50; ++tag) f.Add(7, tag);
  std::vector<uint32_t> tags = f.Release(7);
  for (uint32_t tag = 0; tag < 50; ++tag) EXPECT_EQ(tags[tag], tag);
}

// As the kernel writes KSYMBOL and BPF_EVENT for the second and third of several events: too long by trailers, with what lay
// in the ring at the end.
TEST(SideBandMerge, CutsWhatTheKernelDidNotWrite) {
  for (const uint32_t type : {uint32_t{PERF_RECORD_KSYMBOL}, uint32_t{PERF_RECORD_BPF_EVENT}}) {
    for (const size_t surplus : {0u, 32u, 64u}) {
      std::vector<std::byte> record(24);  // header, address or type and id, length or tag
      if (type == PERF_RECORD_KSYMBOL) {
        const char name[16] = "bpf_prog_x";
        record.insert(record.end(), reinterpret_cast<const std::byte*>(name), reinterpret_cast<const std::byte*>(name) + sizeof(name));
      }
      const SideBandId id = {.pid = 7, .tid = 8, .time_ns = 1000, .cpu = 1, .reserved = 0, .id = 5};
      record.insert(record.end(), reinterpret_cast<const std::byte*>(&id), reinterpret_cast<const std::byte*>(&id + 1));
      const size_t written = record.size();
      record.resize(written + surplus, std::byte{0xee});
      perf_event_header header = {.type = type, .misc = 0, .size = static_cast<uint16_t>(record.size())};
      std::memcpy(record.data(), &header, sizeof(header));
      SideBandMerge merge;
      merge.Add(record);
      size_t seen = 0;
      merge.Release(1000, [&](std::span<const std::byte> out) {
        ++seen;
        ASSERT_EQ(out.size(), written) << type << " " << surplus;
        std::memcpy(&header, out.data(), sizeof(header));
        EXPECT_EQ(header.size, written);
        EXPECT_EQ(std::memcmp(out.data() + written - sizeof(id), &id, sizeof(id)), 0);
      });
      EXPECT_EQ(seen, 1u) << "its time is the one that the kernel wrote";
      EXPECT_EQ(merge.size(), 0u);
    }
  }
}

}  // namespace
}  // namespace brink
