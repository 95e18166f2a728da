#include "perfdata/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording.h"

namespace brink::perfdata {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// The record as 64-bit words, the form in which the expectations are written down.
std::vector<uint64_t> Words(std::span<const std::byte> record) {
  std::vector<uint64_t> words(record.size() / 8);
  std::memcpy(words.data(), record.data(), words.size() * 8);
  return words;
}

uint64_t Head(uint32_t type, uint16_t misc, uint16_t size) { return type | uint64_t{misc} << 32 | uint64_t{size} << 48; }

const SampleId kId{.pid = 7, .tid = 8, .time = 0x99, .id = 5, .cpu = 3};
// TID, TIME, CPU, IDENTIFIER in the order of a trailer.
std::vector<uint64_t> WithId(std::vector<uint64_t> words) {
  words.insert(words.end(), {7 | 8ull << 32, 0x99, 3, 5});
  return words;
}

TEST(EncodeSample, PutsTheFieldsInRecordOrder) {
  EventAttr attr = CpuClockAttr();
  attr.sample_type |= kSampleAddr | kSampleId | kSampleStreamId | kSampleCallchain | kSampleRaw | kSampleWeight |
                      kSampleDataSrc | kSampleTransaction | kSamplePhysAddr | kSampleCgroup;
  attr.branch_sample_type |= kBranchHwIndex | kBranchCounters;
  RecordEncoder encoder(attr);
  std::vector<uint64_t> chain = {kContextUser, 0x1000};
  std::vector<std::byte> raw(5, std::byte{0xab});
  std::vector<brink_branch> branches = {{1, 2, 3}, {4, 5, 6}};
  std::vector<uint64_t> counters = {77};
  SampleFields sample{.misc = kMiscUser, .ip = 0x11, .pid = 1, .tid = 2, .time = 0x22, .addr = 0x33, .id = 0x44,
                      .stream_id = 0x55, .cpu = 6, .period = 0x66, .chain = chain, .raw = raw, .branches = branches,
                      .hw_idx = 9, .counters = counters, .weight = 0x71, .data_src = 0x72, .transaction = 0x73,
                      .phys_addr = 0x74, .cgroup = 0x75};
  auto record = Encoded([&](auto out) { return encoder.Sample(out, sample); });
  EXPECT_EQ(record.size(), encoder.SampleSize(sample));
  EXPECT_THAT(Words(record),
              ElementsAre(Head(9, 2, static_cast<uint16_t>(record.size())), 0x44, 0x11, 1 | 2ull << 32, 0x22, 0x33, 0x44, 0x55,
                          6, 0x66, 2, kContextUser, 0x1000, 0xabababab0000000cull, 0xab, 2, 9, 1, 2, 3, 4, 5, 6, 77, 0,
                          0x71, 0x72, 0x73, 0x74, 0x75));
}

TEST(EncodeSample, HoldsTwoThousandAndFortyEightBranches) {
  RecordEncoder encoder(CpuClockAttr());
  auto branches = Branches(2048);
  auto record = Encoded([&](auto out) { return encoder.Sample(out, {.branches = branches}); });
  EXPECT_EQ(record.size(), 8u + 6 * 8 + 8 + 2048 * 24);
}

TEST(EncodeSample, RefusesWhatARecordCannotHoldAndWhatTheBufferCannot) {
  RecordEncoder encoder(CpuClockAttr());
  auto branches = Branches(2731);
  std::vector<std::byte> buffer(100'000);
  EXPECT_EQ(encoder.Sample(buffer, {.branches = branches}), 0u);
  EXPECT_EQ(encoder.Sample(std::span(buffer).first(64 + 24 * 2 - 1), {.branches = std::span(branches).first(2)}), 0u);
  EXPECT_EQ(encoder.Sample(std::span(buffer).first(64 + 24 * 2), {.branches = std::span(branches).first(2)}), 64u + 48);
}

TEST(EncodeSideBand, EndsEachRecordWithTheSampleId) {
  RecordEncoder encoder(CpuClockAttr());
  auto comm = Encoded([&](auto out) { return encoder.Comm(out, 1, 2, "sh", true, kId); });
  EXPECT_THAT(Words(comm), ElementsAreArray(WithId({Head(3, 1 << 13, 56), 1 | 2ull << 32, 0x6873})));
  auto fork = Encoded([&](auto out) { return encoder.Fork(out, {.pid = 1, .ppid = 2, .tid = 3, .ptid = 4, .time = 5}, kId); });
  EXPECT_THAT(Words(fork), ElementsAreArray(WithId({Head(7, 0, 64), 1 | 2ull << 32, 3 | 4ull << 32, 5})));
  auto exit = Encoded([&](auto out) { return encoder.Exit(out, {.pid = 1, .ppid = 2, .tid = 3, .ptid = 4, .time = 5}, kId); });
  EXPECT_THAT(Words(exit), ElementsAreArray(WithId({Head(4, 0, 64), 1 | 2ull << 32, 3 | 4ull << 32, 5})));
  auto lost = Encoded([&](auto out) { return encoder.Lost(out, 11, 12, kId); });
  EXPECT_THAT(Words(lost), ElementsAreArray(WithId({Head(2, 0, 56), 11, 12})));
  auto lost_samples = Encoded([&](auto out) { return encoder.LostSamples(out, 13, kId); });
  EXPECT_THAT(Words(lost_samples), ElementsAreArray(WithId({Head(13, 0, 48), 13})));
  auto cgroup = Encoded([&](auto out) { return encoder.Cgroup(out, 21, "/a", kId); });
  EXPECT_THAT(Words(cgroup), ElementsAreArray(WithId({Head(19, 0, 56), 21, 0x612f})));
  auto symbol = Encoded([&](auto out) { return encoder.Ksymbol(out, 0xff00, 16, 1, 0, "bpf_prog", kId); });
  EXPECT_THAT(Words(symbol), ElementsAreArray(WithId({Head(17, 0, 72), 0xff00, 16 | 1ull << 32, 0x676f72705f667062, 0})));
  std::vector<uint64_t> pairs = {3, 4, 5, 6};
  auto spaces = Encoded([&](auto out) { return encoder.Namespaces(out, 1, 2, pairs, kId); });
  EXPECT_THAT(Words(spaces), ElementsAreArray(WithId({Head(16, 0, 88), 1 | 2ull << 32, 2, 3, 4, 5, 6})));
  std::byte tag[8] = {std::byte{1}};
  auto bpf = Encoded([&](auto out) { return encoder.BpfEvent(out, 1, 0, 42, tag, kId); });
  EXPECT_THAT(Words(bpf), ElementsAreArray(WithId({Head(18, 0, 56), 1 | 42ull << 32, 1})));
}

TEST(EncodeSideBand, WritesBothFormsOfMmap2) {
  RecordEncoder encoder(CpuClockAttr());
  Mmap2Fields mmap{.pid = 1, .tid = 2, .start = 0x1000, .length = 0x2000, .pgoff = 0x3000, .major = 8, .minor = 1,
                   .inode = 99, .inode_generation = 5, .prot = 5, .flags = 2, .filename = "/bin/x"};
  auto plain = Encoded([&](auto out) { return encoder.Mmap2(out, mmap, kId); });
  EXPECT_THAT(Words(plain), ElementsAreArray(WithId({Head(10, 2, 112), 1 | 2ull << 32, 0x1000, 0x2000, 0x3000, 8 | 1ull << 32,
                                                     99, 5, 5 | 2ull << 32, 0x782f6e69622f})));
  std::string id(20, '\x11');
  mmap.build_id = id;
  auto with_id = Encoded([&](auto out) { return encoder.Mmap2(out, mmap, kId); });
  EXPECT_THAT(Words(with_id), ElementsAreArray(WithId({Head(10, 2 | 1 << 14, 112), 1 | 2ull << 32, 0x1000, 0x2000, 0x3000,
                                                       0x1111111100000014, 0x1111111111111111, 0x1111111111111111,
                                                       5 | 2ull << 32, 0x782f6e69622f})));
}

TEST(EncodeSideBand, LeavesTheTrailerOutWithoutSampleIdAll) {
  EventAttr attr = CpuClockAttr();
  attr.flags &= ~kAttrSampleIdAll;
  RecordEncoder encoder(attr);
  EXPECT_THAT(Words(Encoded([&](auto out) { return encoder.LostSamples(out, 13, kId); })), ElementsAre(Head(13, 0, 16), 13));
}

TEST(EncodeRounds, CarriesTheTimeWhenThereIsOne) {
  EXPECT_THAT(Words(Encoded([](auto out) { return RecordEncoder::FinishedRound(out); })), ElementsAre(Head(68, 0, 8)));
  EXPECT_THAT(Words(Encoded([](auto out) { return RecordEncoder::FinishedRound(out, 77); })), ElementsAre(Head(68, 0, 16), 77));
  EXPECT_THAT(Words(Encoded([](auto out) { return RecordEncoder::FinishedInit(out); })), ElementsAre(Head(82, 0, 8)));
}

}  // namespace
}  // namespace brink::perfdata
