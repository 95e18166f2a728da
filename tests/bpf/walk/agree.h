// The BPF build and the host build of a core on the same code and states, for both machines.
//
// Machine: Skeleton, its Open, Load and Destroy; Begin and Run of the host's core; Options of the lifter; a Maker of code and
// states (Fill, State, maker).
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/stop.h"
#include "support/features.h"
#include "support/status_matchers.h"
#include "support/walk_state.h"
#include "walk/code_cache.h"
#include "walk/hash.h"
#include "walk/host_walker.h"
#include "walk/line_table.h"

namespace brink::walk_test {
inline constexpr uint32_t kSlots = 64, kUops = 1 << 16, kBuckets = 1 << 12;
inline constexpr int kWalksPerProgram = 200;

template <typename T>
T* MapArray(const bpf_map* map, size_t count) {
  void* at = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
  return at == MAP_FAILED ? nullptr : static_cast<T*>(at);
}

inline uint8_t* MapFixed(uint64_t address, size_t size) {
  void* at = ::mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

// Where two states differ first, by field.
inline std::string FirstDifference(const brink_walk& a, const brink_walk& b) {
  auto bytes_a = reinterpret_cast<const uint8_t*>(&a), bytes_b = reinterpret_cast<const uint8_t*>(&b);
  size_t at = 0;
  while (at < sizeof a && bytes_a[at] == bytes_b[at]) ++at;
  if (at == sizeof a) return "";
  struct Field {
    const char* name;
    size_t offset;
  };
  static constexpr Field kFields[] = {{"reg", offsetof(brink_walk, reg)},     {"flags", offsetof(brink_walk, flag_res)}, {"stop", offsetof(brink_walk, stop)},
                                      {"pc", offsetof(brink_walk, pc)},       {"block", offsetof(brink_walk, block)},      {"miss", offsetof(brink_walk, miss_reason)},
                                      {"fills", offsetof(brink_walk, fills)}, {"ea", offsetof(brink_walk, ea)},          {"proc", offsetof(brink_walk, proc)},
                                      {"vknown", offsetof(brink_walk, vknown)}, {"vreg", offsetof(brink_walk, vreg)},    {"ret", offsetof(brink_walk, ret)},
                                      {"valid", offsetof(brink_walk, valid)}, {"tlb", offsetof(brink_walk, tlb)},        {"scratch", offsetof(brink_walk, scratch)},
                                      {"mem", offsetof(brink_walk, mem)}};
  const Field* field = &kFields[0];
  for (const Field& f : kFields) {
    if (f.offset <= at) field = &f;
  }
  return std::string(field->name) + " + " + std::to_string(at - field->offset) + ": BPF " + std::to_string(bytes_a[at]) + ", host " + std::to_string(bytes_b[at]) +
         "; stops " + std::string(StopReasonName(static_cast<int>(a.stop))) + ", " + std::string(StopReasonName(static_cast<int>(b.stop))) + ", steps " +
         std::to_string(a.steps) + ", " + std::to_string(b.steps);
}

template <typename Machine>
class AgreeOf : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    object_ = Machine::Open();
    ASSERT_NE(object_, nullptr);
    bpf_map__set_max_entries(object_->maps.walk_uops, kUops);
    bpf_map__set_max_entries(object_->maps.walk_pages, kSlots);
    bpf_map__set_max_entries(object_->maps.walk_xlat, kBuckets);
    object_->rodata->walk_xlat_mask = kBuckets - 1;
    ASSERT_EQ(Machine::Load(object_), 0);
    uops_ = MapArray<brink_uop>(object_->maps.walk_uops, kUops);
    pages_ = MapArray<brink_walk_page>(object_->maps.walk_pages, kSlots);
    code_ = MapFixed(kCodeBase, kCodePages * 4096);
    data_ = MapFixed(kDataBase, kDataPages * 4096);
    auto* buckets = MapArray<brink_walk_xlat>(object_->maps.walk_xlat, kBuckets);
    ASSERT_TRUE(uops_ && pages_ && buckets && code_ && data_);
    table_ = walk::LineTable({buckets, kBuckets});
  }

  void TearDown() override {
    if (code_) ::munmap(code_, kCodePages * 4096);
    if (data_) ::munmap(data_, kDataPages * 4096);
    Machine::Destroy(object_);
  }

  // A new program: the old one's code is forgotten on both sides.
  void NewProgram() {
    for (const auto& [hash, slot] : lines_) table_.Remove(hash);
    lines_.clear();
    std::memset(uops_, 0, kUops * sizeof *uops_);
    std::memset(pages_, 0, kSlots * sizeof *pages_);
    cache_.emplace(std::span(uops_, kUops), std::span(pages_, kSlots), Machine::Options());
    code_maker_.Fill({code_, kCodePages * 4096});
    maker_.Data({data_, kDataPages * 4096});
  }

  // Lifts what the host's walk missed. False: there is nothing new.
  bool Lift(uint64_t address) {
    uint64_t page = address & ~uint64_t{4095};
    if (page < kCodeBase || page >= kCodeBase + kCodePages * 4096) return false;
    walk::PageKey key{.object = 1, .page = page >> 12};
    uint32_t slot = cache_->Find(key);
    // The last page has no tail: what crosses its end stays a miss.
    const size_t size = page + 4096 < kCodeBase + kCodePages * 4096 ? 4096 + BRINK_WALK_TAIL : 4096;
    const std::span<const uint8_t> code(code_ + (page - kCodeBase), size);
    if (slot == 0) {
      auto added = cache_->AddPage(key, code);
      if (!added.ok()) return false;
      slot = *added;
    }
    auto lifted = cache_->Lift(slot, static_cast<uint16_t>(address & 4095), code);
    if (!lifted.ok() || *lifted == 0) return false;
    for (uint32_t line = 0; line < 64; ++line) {
      const std::span<const uint8_t> bytes = cache_->LineCode(slot, line);
      if (bytes.empty()) continue;
      __u64 words[8];
      std::memcpy(words, bytes.data(), 64);
      uint64_t hash = brink_walk_line_hash(words, line);
      if (lines_.try_emplace(hash, slot).second) table_.Put(hash, slot);
    }
    return true;
  }

  bool Read(uint64_t address, void* to, size_t size) const {
    auto within = [&](uint64_t base, size_t pages) { return address >= base && address + size <= base + pages * 4096 && address + size > address; };
    if (within(kCodeBase, kCodePages) || within(kDataBase, kDataPages)) {
      std::memcpy(to, reinterpret_cast<const void*>(address), size);
      return true;
    }
    std::memset(to, 0, size);  // as the kernel leaves it
    return false;
  }

  void HostWalk() {
    walk::CoreEnvironment env;
    env.uops = {uops_, kUops};
    env.pages = {pages_, kSlots};
    env.read = [this](uint64_t address, void* to, size_t size) { return Read(address, to, size); };
    env.translate = [this](uint64_t hash, uint64_t) {
      auto it = lines_.find(hash);
      return it == lines_.end() ? 0 : it->second;
    };
    do {
      *host_ = *start_;
      *host_out_ = *start_out_;
      Machine::Run(env, host_.get(), host_out_.get());
    } while (host_->stop == BRINK_STOP_MISS && Lift(host_->miss_address));
  }

  void BpfWalk() {
    uint32_t slot = 0;
    ASSERT_EQ(bpf_map__update_elem(object_->maps.walk_state, &slot, sizeof slot, start_.get(), sizeof *start_, BPF_ANY), 0);
    ASSERT_EQ(bpf_map__update_elem(object_->maps.walk_out, &slot, sizeof slot, start_out_.get(), sizeof *start_out_, BPF_ANY), 0);
    LIBBPF_OPTS(bpf_test_run_opts, run);
    ASSERT_EQ(bpf_prog_test_run_opts(bpf_program__fd(object_->progs.walk_test_run), &run), 0);
    ASSERT_EQ(run.retval, 0u);
    ASSERT_EQ(bpf_map__lookup_elem(object_->maps.walk_state, &slot, sizeof slot, bpf_.get(), sizeof *bpf_, 0), 0);
    ASSERT_EQ(bpf_map__lookup_elem(object_->maps.walk_out, &slot, sizeof slot, bpf_out_.get(), sizeof *bpf_out_, 0), 0);
  }

  // What is compared: every byte of the state, and the branches.
  void OnEveryStateThatAWalkLeaves() {
    // An emulated guest is there for its kernel: a tenth of the walks, which are a hundred programs.
    const uint64_t walks = std::getenv("BRINK_LONG") ? 20 * Machine::kWalks : std::getenv("BRINK_EMULATED") ? 10'000 : Machine::kWalks;
    std::map<uint32_t, uint64_t> stops;
    uint64_t steps = 0, branches = 0;
    for (uint64_t i = 0; i < walks; ++i) {
      if (i % kWalksPerProgram == 0) NewProgram();
      Machine::Begin(start_.get(), maker_.Config());
      code_maker_.State(start_.get(), maker_.OneIn(2));
      HostWalk();
      BpfWalk();
      ASSERT_EQ(FirstDifference(*bpf_, *host_), "") << "walk " << i;
      ASSERT_EQ(std::memcmp(bpf_out_.get(), host_out_.get(), sizeof *bpf_out_), 0) << "branches of walk " << i;
      ++stops[host_->stop];
      steps += host_->steps;
      branches += host_->nr;
      *start_ = *host_;  // what a walk leaves behind is what the next one finds
      *start_out_ = *host_out_;
    }
    std::cout << walks << " walks, " << steps << " steps, " << branches << " branches, ends:";
    for (const auto& [stop, count] : stops) std::cout << " " << StopReasonName(static_cast<int>(stop)) << " " << count;
    std::cout << "\n";
    // The walks got somewhere, and ended in many ways. Random code on random registers soon faults: about four steps a walk.
    EXPECT_GT(steps, walks);
    EXPECT_GT(branches, walks / 10);
    EXPECT_GE(stops.size(), Machine::kWaysToEnd);
  }

  typename Machine::Maker code_maker_{std::getenv("BRINK_SEED") ? std::strtoull(std::getenv("BRINK_SEED"), nullptr, 0) : 20240229};
  StateMaker& maker_ = code_maker_.maker();
  typename Machine::Skeleton* object_ = nullptr;
  brink_uop* uops_ = nullptr;
  walk::LineTable table_;
  brink_walk_page* pages_ = nullptr;
  uint8_t *code_ = nullptr, *data_ = nullptr;
  std::optional<walk::CodeCache> cache_;
  std::unordered_map<uint64_t, uint32_t> lines_;
  std::unique_ptr<brink_walk> start_ = std::make_unique<brink_walk>(), host_ = std::make_unique<brink_walk>(), bpf_ = std::make_unique<brink_walk>();
  std::unique_ptr<brink_walk_out> start_out_ = std::make_unique<brink_walk_out>(), host_out_ = std::make_unique<brink_walk_out>(), bpf_out_ = std::make_unique<brink_walk_out>();
};

}  // namespace brink::walk_test
