// The whole in-kernel path at full rate with stacks from a map: what comes out is what went in, and what does not come
// out is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "session/event_source.h"
#include "session/session.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;

constexpr uint64_t kForeignBits = 0xfffffffe00000000;  // above the 33 bits of perf's flags word

std::vector<ReplayStack> Stacks() {
  std::vector<ReplayStack> stacks;
  for (uint64_t i = 0; i < 64; ++i) {
    ReplayStack stack = {.ip = 0x400000 + i, .entries = {}};
    for (uint64_t j = 0; j <= i; ++j) stack.entries.push_back({i << 32 | j, i << 32 | (j + 1), MakeInfo(Kind::kCond)});
    stacks.push_back(stack);
  }
  return stacks;
}

// Of the record that brings stack `i`.
uint64_t StackBytes(size_t i) { return sizeof(brink_sample) + (i + 1) * sizeof(brink_branch); }
// What records occupy in a ring: the kernel puts 8 bytes before each; ours are multiples of 8.
uint64_t RingBytes(const Loss& records) { return records.bytes + 8 * records.records; }

struct CheckingConsumer : Consumer {
  Status OnSample(const SampleView& sample) override {
    while (hold) std::this_thread::yield();
    ++samples;
    uint64_t i = sample.head->ip - 0x400000;
    bool good = i < 64 && sample.branches.size() == i + 1 && sample.head->source == BRINK_SOURCE_REPLAY && sample.head->time_ns >= last;
    for (size_t j = 0; good && j < sample.branches.size(); ++j) {
      good = sample.branches[j].from == (i << 32 | j) && sample.branches[j].to == (i << 32 | (j + 1)) &&
             sample.branches[j].kind() == Kind::kCond && (sample.branches[j].info & kForeignBits) == 0;
    }
    last = sample.head->time_ns;
    wrong += !good;
    return OkStatus();
  }
  Status OnPerfRecord(const PerfRecordView&) override { return OkStatus(); }
  Status OnLost(LossCause, const Loss& loss, uint64_t) override {
    told += loss.records;
    return OkStatus();
  }
  Status Finish() override { return OkStatus(); }
  uint64_t samples = 0, wrong = 0, told = 0, last = 0;
  std::atomic<bool> hold{false};
};

// The replay source, whose statistics hook stops the drain thread at the first sample while `hold` is set: the ring is
// then emptied by nobody, on any machine.
class HoldingSource : public StackSource {
 public:
  explicit HoldingSource(std::unique_ptr<EventSource> source) : source_(std::move(source)) {}
  SourceTraits traits() const override { return source_->traits(); }
  Status Load(SourceContext& context) override { return source_->Load(context); }
  bpf_program* program() override { return source_->program(); }
  void OnSample(const brink_sample&) override {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  StatusOr<uint64_t> Feed(uint64_t count) { return source_->Feed(count); }
  std::atomic<bool> hold{false};

 private:
  std::unique_ptr<EventSource> source_;
};

struct Replay {
  explicit Replay(SessionSpec spec = {}) {
    spec.target.all_cpus = true;
    spec.events = {*ParseEvent("cpu-clock")};
    spec.frequency = 100;
    spec.enable = false;  // only Feed makes samples
    auto owned = std::make_unique<HoldingSource>(EventSource::Replay(Stacks()));
    source = owned.get();
    auto made = Session::Create(spec, std::move(owned), consumer);
    EXPECT_THAT(made, IsOk());
    if (!made.ok()) return;
    session = std::move(*made);
    EXPECT_THAT(session->Arm(), IsOk());
  }
  CheckingConsumer consumer;
  HoldingSource* source = nullptr;
  std::unique_ptr<Session> session;
};

TEST(ReplaySession, EveryEntryArrivesAsItWasFed) {
  SKIP_UNLESS("bpf.perf_event");
  Replay replay({.ring_bytes = 16 << 20, .buffers = 32});
  ASSERT_TRUE(replay.session);
  auto sent = replay.source->Feed(2000);
  ASSERT_THAT(sent, IsOk());
  ASSERT_THAT(replay.session->Stop(), IsOk());
  Books books = replay.session->books();
  EXPECT_EQ(replay.consumer.samples, *sent);
  EXPECT_EQ(replay.consumer.wrong, 0u);
  EXPECT_EQ(books.written.records, *sent);
  EXPECT_EQ(books.samples_lost(), Loss{});
  EXPECT_EQ(replay.session->counters()[BRINK_CNT_EMITTED_BYTES], books.written.bytes);
}

TEST(ReplaySession, ASmallRingLosesExactlyWhatItSays) {
  SKIP_UNLESS("bpf.perf_event");
  constexpr uint64_t kRing = 64 << 10;
  Replay replay({.ring_bytes = kRing});
  ASSERT_TRUE(replay.session);
  replay.source->hold = true;
  auto sent = replay.source->Feed(2048);  // 32 times all stacks, 1.9 MB
  replay.source->hold = false;
  ASSERT_THAT(sent, IsOk());
  ASSERT_THAT(replay.session->Stop(), IsOk());
  Books books = replay.session->books();
  const Loss full = books.of(LossCause::kRingFull);
  // The ring took what fits, down to the smallest stack, and not a byte more.
  EXPECT_LT(RingBytes(books.written), kRing);
  EXPECT_GE(RingBytes(books.written), kRing - RingBytes({1, StackBytes(0)}));
  uint64_t all_stacks = 0;
  for (size_t i = 0; i < 64; ++i) all_stacks += StackBytes(i);
  EXPECT_EQ(full.records + books.written.records, *sent);
  EXPECT_EQ(full.bytes + books.written.bytes, *sent / 64 * all_stacks);
  EXPECT_EQ(books.sent(), *sent);
  EXPECT_EQ(books.written.records, replay.consumer.samples);
  EXPECT_EQ(replay.consumer.told, books.samples_lost().records);  // the stream says it too
  EXPECT_EQ(replay.consumer.wrong, 0u);
}

TEST(ReplaySession, AStoppedWriterLosesExactlyWhatItSays) {
  SKIP_UNLESS("bpf.perf_event");
  Replay replay({.buffers = 4, .buffer_size = 256 << 10});
  ASSERT_TRUE(replay.session);
  replay.consumer.hold = true;
  auto sent = replay.source->Feed(50'000);
  ASSERT_THAT(sent, IsOk());
  replay.consumer.hold = false;
  ASSERT_THAT(replay.session->Stop(), IsOk());
  Books books = replay.session->books();
  EXPECT_GT(books.of(LossCause::kNoBuffer).records + books.of(LossCause::kRingFull).records, 0u);
  EXPECT_EQ(books.sent(), *sent);
  EXPECT_EQ(books.written.records, replay.consumer.samples);
  EXPECT_EQ(replay.consumer.wrong, 0u);
}

}  // namespace
}  // namespace brink
