// Reads what cyclictest, or brink in its place, has printed: status lines, histograms, samples of -v, spikes, break
// lines and JSON file_version 1. Accepts the forms of 2.4 and 2.10 alike.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "latency/result.h"

namespace brink::latency {

struct CyclicOutput {
  struct Status {
    int index = 0;
    int64_t tid = 0, priority = 0, interval_us = 0;
    uint64_t cycles = 0;
    int64_t min = 0, act = 0, avg = 0, max = 0;
    std::optional<uint64_t> smi;
  };
  struct Sample {
    int thread = 0;
    uint64_t cycle = 0;
    int64_t value = 0;
    std::optional<int64_t> smi;
  };
  struct Spike {
    int thread = 0;
    int64_t value = 0, when_us = 0;
  };
  std::optional<int64_t> dma_latency_us;
  std::string policy;                    // of the last frame, "" none
  size_t frames = 0;
  std::vector<Status> statuses;          // of the last frame, or the final ones; by index
  std::vector<Sample> samples;
  std::vector<Spike> spikes;
  std::optional<uint64_t> spikes_seen;
  std::vector<int64_t> thread_ids;
  std::optional<int64_t> break_thread, break_value;
  bool has_histogram = false, has_total_line = false;
  std::vector<std::pair<int64_t, std::vector<uint64_t>>> buckets;  // value, one count a column
  std::vector<int64_t> min, avg, max;
  std::vector<uint64_t> totals, overflows, smis;
  std::vector<std::vector<uint64_t>> overflow_cycles;
  std::vector<uint64_t> overflow_others;
  std::vector<std::string> other;        // lines that are none of the forms
};

// Never fails: what is not understood is in `other`.
CyclicOutput ParseCyclicText(std::string_view text);

// A result with what the text or JSON holds (linear histogram, extremes, cycles); for reports and plots.
StatusOr<Result> ResultFromCyclicText(std::string_view text);
StatusOr<Result> ResultFromCyclicJson(std::string_view text);

}  // namespace brink::latency
