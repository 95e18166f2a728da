// What is left of the kernel in a recording made with --strip-kernel.
#include "session/kernel_stripper.h"

#include <cstring>
#include <gmock/gmock.h>
#include <linux/perf_event.h>

#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::ElementsAre;
using testing_support::IsOk;

constexpr uint64_t kKernel = 0xffffffff81000000, kUser = 0x401000;

class Kept : public Consumer {
 public:
  Status OnSample(const SampleView& sample) override {
    head = *sample.head;
    for (const BranchEntry& entry : sample.branches) branches.emplace_back(entry.from, entry.to);
    chain.assign(sample.chain.begin(), sample.chain.end());
    ++samples;
    return OkStatus();
  }
  Status OnPerfRecord(const PerfRecordView& view) override {
    perf_event_header header;
    std::memcpy(&header, view.record.data(), sizeof header);
    records.push_back(header.type);
    return OkStatus();
  }
  Status Finish() override { return OkStatus(); }

  brink_sample head = {};
  std::vector<std::pair<uint64_t, uint64_t>> branches;
  std::vector<uint64_t> chain;
  std::vector<uint32_t> records;
  int samples = 0;
};

class KernelStripperTest : public testing::Test {
 protected:
  void Record(uint32_t type, uint16_t misc) {
    std::vector<std::byte> bytes(64);
    const perf_event_header header = {.type = type, .misc = misc, .size = 64};
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_THAT(stripper_.OnPerfRecord({.record = bytes, .id = {}}), IsOk());
  }
  Kept kept_;
  KernelStripper stripper_{kept_};
};

TEST_F(KernelStripperTest, BranchesLoseTheirEndInTheKernel) {
  brink_sample head = {};
  head.ip = kKernel + 0x10;
  head.flags = BRINK_SAMPLE_KERNEL_IP;
  head.nr = 4;
  std::vector<BranchEntry> entries(4);
  entries[0].from = kKernel + 0x20, entries[0].to = kUser;
  entries[1].from = kKernel, entries[1].to = kKernel + 0x40;
  entries[2].from = kUser + 8, entries[2].to = kKernel;
  entries[3].from = kUser + 4, entries[3].to = kUser + 6;
  EXPECT_THAT(stripper_.OnSample({.head = &head, .branches = entries, .chain = {}}), IsOk());
  EXPECT_EQ(kept_.samples, 1);
  EXPECT_EQ(kept_.head.ip, 0u);
  // Half and unused entries: no reader joins the code on both sides of them.
  EXPECT_THAT(kept_.branches, ElementsAre(std::pair(0ul, kUser), std::pair(0ul, 0ul), std::pair(kUser + 8, 0ul), std::pair(kUser + 4, kUser + 6)));
}

TEST_F(KernelStripperTest, ChainsKeepTheirMarkersAndTheUserPart) {
  brink_sample head = {};
  head.ip = kUser;
  head.chain_nr = 5;
  const std::vector<uint64_t> chain = {static_cast<uint64_t>(PERF_CONTEXT_KERNEL), kKernel, kKernel + 8, static_cast<uint64_t>(PERF_CONTEXT_USER), kUser};
  EXPECT_THAT(stripper_.OnSample({.head = &head, .branches = {}, .chain = chain}), IsOk());
  EXPECT_EQ(kept_.head.ip, kUser);
  EXPECT_THAT(kept_.chain, ElementsAre(static_cast<uint64_t>(PERF_CONTEXT_KERNEL), static_cast<uint64_t>(PERF_CONTEXT_USER), kUser));
  EXPECT_EQ(kept_.head.chain_nr, 3);
}

TEST_F(KernelStripperTest, RecordsThatPlaceTheKernelGo) {
  Record(PERF_RECORD_MMAP2, PERF_RECORD_MISC_KERNEL);
  Record(PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
  Record(PERF_RECORD_KSYMBOL, 0);
  Record(PERF_RECORD_TEXT_POKE, 0);
  Record(PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
  Record(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
  EXPECT_THAT(kept_.records, ElementsAre(PERF_RECORD_MMAP2, PERF_RECORD_COMM));
}

}  // namespace
}  // namespace brink
