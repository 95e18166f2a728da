// The drain and the writer thread together, with records injected instead of a BPF ring.
#include "pipeline/drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "pipeline/writer_thread.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;

struct NoHandler : DrainHandler {
  void OnSideBand(std::span<const std::byte>, RecordSink&) override {}
  void OnOtherRecord(std::span<const std::byte> record) override { others += !record.empty(); }
  void OnTick(uint64_t, bool, RecordSink&) override {}
  void OnRotating() override {}
  void OnNewFile(RecordSink&) override { ++new_files; }
  uint64_t OldestUnderWay() override { return oldest; }
  int others = 0;
  std::atomic<int> new_files{0};
  std::atomic<uint64_t> oldest{UINT64_MAX};
};

// Notes what it gets; fails or dawdles when told to.
struct FakeConsumer : Consumer {
  Status OnSample(const SampleView& sample) override {
    if (fail_at && samples == fail_at) return Internal("no more");
    while (hold) std::this_thread::yield();
    ++samples;
    last_time = sample.head->time_ns;
    events.push_back('s');
    return OkStatus();
  }
  Status OnPerfRecord(const PerfRecordView&) override {
    ++side_band;
    return OkStatus();
  }
  Status OnTask(const brink_task_event&) override {
    ++tasks;
    return OkStatus();
  }
  Status OnRound(uint64_t time_ns) override {
    rounds.push_back(time_ns);
    ++round_count;
    return OkStatus();
  }
  Settled Settle() override {
    Settled settled;
    if (lose_each_buffer) settled.lost = {1, sizeof(brink_sample)};
    return settled;
  }
  Status Flush() override {
    events.push_back('f');
    return OkStatus();
  }
  Status Rotate() override {
    events.push_back('r');
    return OkStatus();
  }
  Status Finish() override {
    ++finished;
    return OkStatus();
  }
  uint64_t samples = 0, fail_at = 0, last_time = 0;
  int side_band = 0, tasks = 0, finished = 0;
  bool lose_each_buffer = false;
  std::atomic<bool> hold{false};
  std::vector<uint64_t> rounds;
  std::atomic<int> round_count{0};  // of the above, for other threads
  std::string events;
};

brink_sample MakeSample(uint64_t time_ns = 1) {
  brink_sample sample = {};
  sample.header = {BRINK_REC_SAMPLE, BRINK_ABI_VERSION, sizeof(sample)};
  sample.time_ns = time_ns;
  return sample;
}

struct Pipe {
  explicit Pipe(size_t buffers = 4, size_t size = 64 * 1024, DrainOptions options = {.interval_ns = 1'000'000})
      : pool(buffers, size), drain(pool, ledger, nullptr, -1, handler, options),
        writer(pool, ledger, consumer, {}, [this] { ++failures; }) {
    EXPECT_THAT(writer.Start(), IsOk());
    EXPECT_THAT(drain.Start(), IsOk());
  }
  bool Inject(const brink_sample& sample) { return drain.Inject(std::as_bytes(std::span(&sample, 1))); }
  Status Stop() {
    drain.Stop();
    return writer.Join();
  }
  Books books() {
    Books books;
    ledger.AddTo(books);
    return books;
  }
  BufferPool pool;
  Ledger ledger;
  NoHandler handler;
  FakeConsumer consumer;
  Drain drain;
  std::atomic<int> failures{0};
  WriterThread writer;
};

TEST(Drain, StopLosesNoneOfWhatWasQueued) {
  Pipe pipe(/*buffers=*/64);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(pipe.Inject(MakeSample()));
  EXPECT_THAT(pipe.Stop(), IsOk());
  EXPECT_EQ(pipe.consumer.samples, 5000u);
  EXPECT_EQ(pipe.consumer.finished, 1);
  EXPECT_EQ(pipe.books().written, (Loss{5000, 5000 * sizeof(brink_sample)}));
  EXPECT_EQ(pipe.books().samples_lost(), Loss{});
}

TEST(Drain, AFailingConsumerEndsInExactBooks) {
  Pipe pipe(/*buffers=*/64);  // none is to be lost for want of a buffer, however slow the writer
  pipe.consumer.fail_at = 700;
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(pipe.Inject(MakeSample()));
  EXPECT_FALSE(pipe.Stop().ok());
  EXPECT_EQ(pipe.failures, 1);
  EXPECT_EQ(pipe.books().written.records, 700u);
  EXPECT_EQ(pipe.books().of(LossCause::kWriter).records, 1300u);
  EXPECT_EQ(pipe.books().sent(), 2000u);
  EXPECT_EQ(pipe.consumer.finished, 1);
}

TEST(Drain, AStoppedWriterMakesLossesNotWaits) {
  Pipe pipe(/*buffers=*/2, /*size=*/64 * 1024);
  pipe.consumer.hold = true;
  uint64_t taken = 0;
  for (int i = 0; i < 20000; ++i) taken += pipe.Inject(MakeSample());
  while (pipe.books().of(LossCause::kNoBuffer).records == 0) {  // the drain goes on although nothing is written
    taken += pipe.Inject(MakeSample());
    std::this_thread::yield();
  }
  pipe.consumer.hold = false;
  EXPECT_THAT(pipe.Stop(), IsOk());
  Books books = pipe.books();
  EXPECT_GE(books.sent(), taken);
  EXPECT_EQ(books.written.records, pipe.consumer.samples);
  EXPECT_EQ(books.of(LossCause::kNoBuffer).bytes, books.of(LossCause::kNoBuffer).records * sizeof(brink_sample));
}

TEST(Drain, WhatTheConsumerCouldNotKeepCountsAsLost) {
  Pipe pipe(/*buffers=*/64);
  pipe.consumer.lose_each_buffer = true;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pipe.Inject(MakeSample()));
  EXPECT_THAT(pipe.Stop(), IsOk());
  Books books = pipe.books();
  EXPECT_GT(books.of(LossCause::kWriter).records, 0u);
  EXPECT_EQ(books.sent(), 100u);
}

TEST(Drain, ControlWordsComeAfterTheDataBeforeThem) {
  Pipe pipe;
  ASSERT_TRUE(pipe.Inject(MakeSample()));
  pipe.drain.Request(Control::kFlush);
  while (pipe.handler.new_files == 0) {
    pipe.drain.Request(Control::kRotate);
    std::this_thread::yield();
  }
  EXPECT_THAT(pipe.Stop(), IsOk());
  EXPECT_THAT(pipe.consumer.events, testing::StartsWith("sf"));
  EXPECT_NE(pipe.consumer.events.find('r'), std::string::npos);
}

TEST(Drain, RoundsSayWhatIsDrainedAndKeepPerfsRule) {
  DrainOptions options = {.interval_ns = 2'000'000, .max_delay_ns = 5'000'000};
  Pipe pipe(4, 64 * 1024, options);
  while (pipe.consumer.round_count < 5) {
    pipe.Inject(MakeSample(MonotonicNs()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(pipe.Stop(), IsOk());
  ASSERT_GE(pipe.consumer.rounds.size(), 5u);
  for (size_t i = 1; i < pipe.consumer.rounds.size(); ++i) {
    // Each mark is so much later than the one before that nothing older than that one's newest record can follow.
    bool last = i + 1 == pipe.consumer.rounds.size();  // at the stop, when nothing is left to come
    EXPECT_TRUE(last || pipe.consumer.rounds[i] >= pipe.consumer.rounds[i - 1] + options.max_delay_ns);
    EXPECT_LE(pipe.consumer.rounds[i], MonotonicNs());
  }
}

// A deferred walk whose thread was preempted: nothing is let go that its record may have to stand before.
TEST(Drain, NoRoundPassesASampleThatIsStillUnderWay) {
  Pipe pipe(/*buffers=*/8, /*size=*/64 * 1024, {.interval_ns = 1'000'000, .max_delay_ns = 2'000'000});
  while (pipe.consumer.round_count < 2) std::this_thread::yield();
  pipe.handler.oldest = MonotonicNs();
  const uint64_t held = MonotonicNs();  // a round may have begun before it was set
  while (MonotonicNs() < held + 50'000'000) {
    ASSERT_TRUE(pipe.Inject(MakeSample(MonotonicNs())));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int marks = pipe.consumer.round_count;
  pipe.handler.oldest = UINT64_MAX;
  while (pipe.consumer.round_count < marks + 2) std::this_thread::yield();
  EXPECT_THAT(pipe.Stop(), IsOk());
  for (int i = 0; i < marks; ++i) EXPECT_LE(pipe.consumer.rounds[i], held);
}

TEST(Drain, RefusesRecordsWhoseSizesLie) {
  Pipe pipe;
  brink_sample sample = MakeSample();
  sample.nr = 9;  // no room for entries
  ASSERT_TRUE(pipe.Inject(sample));
  sample = MakeSample();
  sample.header.version = 99;
  ASSERT_TRUE(pipe.Inject(sample));
  EXPECT_THAT(pipe.Stop(), IsOk());
  EXPECT_EQ(pipe.books().of(LossCause::kMalformed).records, 2u);
  EXPECT_EQ(pipe.consumer.samples, 0u);
}

TEST(Drain, SideBandAndTaskRecordsFindTheirWay) {
  Pipe pipe;
  brink_task_event event = {};
  event.header = {BRINK_REC_TASK, BRINK_ABI_VERSION, sizeof(event)};
  ASSERT_TRUE(pipe.drain.Inject(std::as_bytes(std::span(&event, 1))));
  event.header.type = BRINK_REC_MISS;
  ASSERT_TRUE(pipe.drain.Inject(std::as_bytes(std::span(&event, 1))));
  EXPECT_THAT(pipe.Stop(), IsOk());
  EXPECT_EQ(pipe.consumer.tasks, 1);
  EXPECT_EQ(pipe.handler.others, 2);
}

TEST(WriterThread, SaysWhichOptionCouldNotBeHad) {
  BufferPool pool(2, 65536);
  Ledger ledger;
  FakeConsumer consumer;
  WriterThread writer(pool, ledger, consumer, {.cpu = 1023}, [] {});
  Status status = writer.Start();
  EXPECT_THAT(Message(status), testing::HasSubstr("--writer-cpu 1023"));
}

}  // namespace
}  // namespace brink
