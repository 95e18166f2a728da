#include "agent/flight.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstring>
#include <thread>

#include "support/status_matchers.h"
#include "support/process.h"

namespace brink::agent {
namespace {

using testing_support::IsOk;

constexpr uint64_t kSecond = 1'000'000'000;

void Sample(FlightRecorder* recorder, uint32_t cpu, uint64_t time_ns, uint32_t tgid = 10) {
  brink_sample head = {};
  head.header.size = sizeof(head);
  head.header.type = BRINK_REC_SAMPLE;
  head.cpu = cpu;
  head.time_ns = time_ns;
  head.tgid = head.tid = tgid;
  ASSERT_THAT(recorder->OnSample({.head = &head, .branches = {}, .chain = {}}), IsOk());
}

// COMM, or FORK and EXIT, of a process's leader.
void Process(FlightRecorder* recorder, uint32_t type, uint32_t pid, uint64_t time_ns, size_t size = 32) {
  std::vector<std::byte> record(size);
  perf_event_header header = {.type = type, .misc = 0, .size = static_cast<uint16_t>(size + sizeof(SideBandId))};
  std::memcpy(record.data(), &header, sizeof(header));
  uint32_t ids[] = {pid, pid};
  if (type == PERF_RECORD_COMM) {
    std::memcpy(record.data() + 8, ids, 8);
  } else {
    uint32_t task[] = {pid, 1, pid, 1};
    std::memcpy(record.data() + 8, task, sizeof(task));
  }
  ASSERT_THAT(recorder->OnPerfRecord({.record = record, .id = {.pid = pid, .tid = pid, .time_ns = time_ns, .cpu = 0, .reserved = 0, .id = 0}}), IsOk());
}

TEST(FlightRecorder, KeepsTheLastSecondsOfEachCpu) {
  FlightRecorder recorder({.window_ns = 10 * kSecond}, 2);
  for (uint64_t second = 1; second <= 30; ++second) Sample(&recorder, 0, second * kSecond);
  Sample(&recorder, 1, 29 * kSecond);
  auto tape = recorder.Take(0, 0);
  EXPECT_EQ(tape.samples.size(), 12u);  // 20 to 30, and the other CPU's
  EXPECT_EQ(recorder.facts().seen, 31u);
  EXPECT_EQ(recorder.facts().evicted_by_size, 0u);
  EXPECT_EQ(recorder.facts().span_ns, 10 * kSecond);
  // By time over all CPUs.
  uint64_t last = 0;
  for (const auto& kept : tape.samples) {
    uint64_t time = reinterpret_cast<const brink_sample*>(kept.bytes.data())->time_ns;
    EXPECT_GE(time, last);
    last = time;
  }
}

TEST(FlightRecorder, ACpuThatWentIdleForgetsToo) {
  FlightRecorder recorder({.window_ns = 10 * kSecond}, 2);
  Sample(&recorder, 1, 1 * kSecond);
  ASSERT_THAT(recorder.OnRound(20 * kSecond), IsOk());
  EXPECT_EQ(recorder.facts().samples, 0u);
}

TEST(FlightRecorder, MemoryIsBoundedAndWhatGoesIsCounted) {
  FlightRecorder recorder({.window_ns = 1000 * kSecond, .bytes = 128 << 10}, 2);
  for (uint64_t i = 0; i < 10'000; ++i) Sample(&recorder, 0, i);
  FlightFacts facts = recorder.facts();
  EXPECT_LE(facts.bytes, 64u << 10);
  EXPECT_GT(facts.samples, 0u);
  EXPECT_EQ(facts.samples + facts.evicted_by_size, facts.seen);
}

TEST(FlightRecorder, ProcessesThatEndedLongAgoAreForgotten) {
  FlightRecorder recorder({.window_ns = 10 * kSecond}, 1);
  Process(&recorder, PERF_RECORD_COMM, 10, 1 * kSecond);
  Process(&recorder, PERF_RECORD_COMM, 11, 1 * kSecond);
  Process(&recorder, PERF_RECORD_EXIT, 11, 2 * kSecond);
  ASSERT_THAT(recorder.OnRound(15 * kSecond), IsOk());
  EXPECT_EQ(recorder.Take(0, 0).side_band.size(), 3u) << "samples of it may still be held";
  ASSERT_THAT(recorder.OnRound(23 * kSecond), IsOk());
  auto tape = recorder.Take(0, 0);
  ASSERT_EQ(tape.side_band.size(), 1u);
  EXPECT_EQ(tape.side_band[0].id.pid, 10u);
}

TEST(FlightRecorder, ANumberThatComesBackLives) {
  FlightRecorder recorder({.window_ns = 10 * kSecond}, 1);
  Process(&recorder, PERF_RECORD_EXIT, 11, 2 * kSecond);
  Process(&recorder, PERF_RECORD_FORK, 11, 3 * kSecond);
  ASSERT_THAT(recorder.OnRound(60 * kSecond), IsOk());
  EXPECT_EQ(recorder.Take(0, 0).side_band.size(), 2u);
}

TEST(FlightRecorder, AForkStormIsBounded) {
  FlightRecorder recorder({.window_ns = 1000 * kSecond, .side_band_bytes = 64 << 10}, 1);
  for (uint32_t pid = 100; pid < 20'100; ++pid) {
    Process(&recorder, PERF_RECORD_COMM, pid, pid);
    Process(&recorder, PERF_RECORD_EXIT, pid, pid + 1);
    ASSERT_LE(recorder.facts().side_band_bytes, 64u << 10);
  }
  EXPECT_GT(recorder.facts().side_band_bytes, 0u);
}

TEST(FlightRecorder, TakeWaitsForTheRoundThatCoversTheMoment) {
  FlightRecorder recorder({}, 1);
  std::thread drain([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Sample(&recorder, 0, 99);
    ASSERT_THAT(recorder.OnRound(100), IsOk());
  });
  auto tape = recorder.Take(100, 60 * kSecond);
  drain.join();
  EXPECT_EQ(tape.samples.size(), 1u);
  EXPECT_EQ(recorder.Take(200, 1'000'000).until_ns, 100u) << "a round that never comes is not waited for beyond the limit";
}

}  // namespace
}  // namespace brink::agent
