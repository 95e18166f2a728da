// Times of latency measurement: signed 64-bit nanoseconds everywhere, so that early wake-ups and clock steps show.
#pragma once

#include <cstdint>
#include <ctime>

namespace brink::latency {

inline constexpr int64_t kNsPerSec = 1'000'000'000;

inline int64_t ToNs(const timespec& t) { return static_cast<int64_t>(t.tv_sec) * kNsPerSec + t.tv_nsec; }
inline timespec ToTimespec(int64_t ns) {
  return {static_cast<time_t>(ns / kNsPerSec), static_cast<long>(ns % kNsPerSec)};
}
inline int64_t NowNs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return ToNs(t);
}

// A wake-up measured against its deadline. `lateness` < 0: woken early, which a correct kernel never does.
struct Lateness {
  int64_t ns = 0;
  bool clock_step = false;  // the clock was set between the two: the sample says nothing about the kernel
};

// `shift`: how far the measured clock moved against CLOCK_MONOTONIC since the deadline was computed (0 for clocks that
// cannot be set). More than 50 us are a step; less is slewing.
inline constexpr int64_t kStepNs = 50'000;
inline Lateness Judge(int64_t deadline, int64_t now, int64_t shift) {
  return {now - deadline, shift > kStepNs || shift < -kStepNs};
}

// First multiple of `interval` after `deadline` that is not before `now`, as a number of intervals to skip beyond the
// normal step: the periods that passed without a measurement.
inline uint64_t MissedPeriods(int64_t next, int64_t now, int64_t interval) {
  if (now <= next || interval <= 0) return 0;
  return static_cast<uint64_t>((now - next + interval - 1) / interval);
}

}  // namespace brink::latency
