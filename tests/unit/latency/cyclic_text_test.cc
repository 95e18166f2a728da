#include "latency/cyclic_text.h"

#include <nlohmann/json.hpp>

#include "latency/cyclic_json.h"
#include "latency/outputs.h"
#include "latency/parse_cyclic.h"
#include "support/status_matchers.h"

namespace brink::latency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;

// Two threads of microsecond values, with a histogram of `buckets`.
Result TwoThreads(const std::vector<std::vector<int64_t>>& values_us, int64_t buckets) {
  Result result;
  for (size_t i = 0; i < values_us.size(); ++i) {
    ThreadResult thread;
    thread.index = static_cast<int>(i);
    thread.tid = 4892 + static_cast<int>(i);
    thread.priority = 80;
    thread.interval_ns = 1'000'000 + static_cast<int64_t>(i) * 500'000;
    thread.linear.assign(static_cast<size_t>(buckets), 0);
    for (int64_t us : values_us[i]) {
      thread.values.Add(us * 1000 + 999);
      thread.sum_units += static_cast<double>(us);
      if (us < buckets) {
        ++thread.linear[static_cast<size_t>(us)];
      } else if (buckets) {
        ++thread.overflows;
        if (thread.overflow_cycles.size() < static_cast<size_t>(buckets)) thread.overflow_cycles.push_back(thread.cycles);
      }
      thread.act_ns = us * 1000;
      ++thread.cycles;
    }
    result.threads.push_back(std::move(thread));
  }
  return result;
}

TEST(StatusLine, IsCyclictestsToTheBlank) {
  StatusView view{.index = 0, .tid = 4892, .priority = 80, .interval_us = 1000, .cycles = 1000, .has_min = true, .min = 13, .act = 16, .max = 99, .avg = 26.9};
  EXPECT_EQ(StatusLine(view, false), "T: 0 ( 4892) P:80 I:1000 C:   1000 Min:     13 Act:   16 Avg:   26 Max:      99\n");
  EXPECT_EQ(StatusLine(view, true), "T: 0 ( 4892) P:80 I:1000 C:   1000 Min:     13 Act:      16 Avg:      26 Max:      99\n");
  view.with_smi = true, view.smi = 3;
  EXPECT_THAT(StatusLine(view, false), HasSubstr("Max:      99 SMI:       3\n"));
}

TEST(StatusLine, WithoutASampleShowsAMillion) {
  EXPECT_EQ(StatusLine({.interval_us = 1000}, false), "T: 0 (    0) P: 0 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n");
}

TEST(StatusLine, AMinimumAboveAMillionIsShown) {
  // In cyclictest it stays at 1000000.
  StatusView view{.has_min = true, .min = 2'000'000};
  EXPECT_THAT(StatusLine(view, false), HasSubstr("Min:2000000"));
}

TEST(Frame, NamesThePolicyTwiceWhereItIsNotRealTime) {
  EXPECT_EQ(FrameHead(Policy::kOther, "0.14 0.23 0.20 4/90 16795"), "policy: other/other: loadavg: 0.14 0.23 0.20 4/90 16795          \n\n");
  EXPECT_EQ(FrameHead(Policy::kFifo, "x"), "policy: fifo: loadavg: x          \n\n");
  EXPECT_EQ(CursorUp(2), "\033[4A");
}

TEST(HistogramText, NewStyle) {
  Result result = TwoThreads({{13, 13, 13, 40}, {13, 13, 90, 93}}, 50);
  EXPECT_EQ(HistogramText(result, 50, false, false),
            "# Histogram\n000013 000003\t000002\n000040 000001\t000000\n# Min Latencies: 00013 00013\n# Avg Latencies: 00019 00052\n# Max Latencies: 00040 00093\n"
            "# Histogram Overflows: 00000 00002\n# Histogram Overflow at cycle number:\n# Thread 0:\n# Thread 1: 00002 00003\n\n");
}

TEST(HistogramText, SumColumnAlsoInTheLinesBelow) {
  Result result = TwoThreads({{1, 5}, {1, 2}}, 3);
  std::string text = HistogramText(result, 3, true, false);
  EXPECT_THAT(text, HasSubstr("000001 000001\t000001\t000002\n"));
  EXPECT_THAT(text, HasSubstr("# Max Latencies: 00005 00002 00005\n"));
  EXPECT_THAT(text, HasSubstr("# Histogram Overflows: 00001 00000 00001\n"));
}

TEST(HistogramText, OldStyleHasEmptyBucketsAndTotals) {
  Result result = TwoThreads({{1, 1}, {2, 9}}, 3);
  EXPECT_THAT(HistogramText(result, 3, false, true), testing::AllOf(HasSubstr("000000 000000\t000000\n000001 000002\t000000\n"), HasSubstr("# Total: 000000002 000000001\n")));
  EXPECT_THAT(HistogramText(result, 3, false, false), testing::Not(HasSubstr("# Total")));
}

TEST(HistogramText, OverflowLogKeepsAsManyAsThereAreBuckets) {
  Result result = TwoThreads({{9, 9, 9, 9, 9}}, 3);
  EXPECT_THAT(HistogramText(result, 3, false, false), HasSubstr("# Thread 0: 00000 00001 00002 # 00002 others\n"));
}

TEST(VerboseLine, Form) {
  int64_t smi = 2;
  EXPECT_EQ(VerboseLine(0, 1, 90, nullptr), "       0:       1:      90\n");
  EXPECT_EQ(VerboseLine(0, 1, 90, &smi), "       0:       1:      90       2\n");
}

TEST(SpikesAndBreak, Form) {
  Result result = TwoThreads({{1}, {26}}, 0);
  result.spikes = {{1, {26, 13874241176}}};
  result.spikes_seen = 3;
  result.broke = Break{4893, 26};
  EXPECT_EQ(SpikeText(result), "\nT: 1 Spike:      26: TS:  13874241176\nspikes = 3\n\n");
  EXPECT_EQ(BreakText(result), "# Thread Ids: 04892 04893\n# Break thread: 4893\n# Break value: 26\n");
}

TEST(CyclicJson, IsValidWithQuotesAndThreadsWithoutSamples) {
  // cyclictest writes "avg": -nan and pastes the command line as it is.
  Result result = TwoThreads({{16, 32}, {}}, 40);
  result.command_line = "cyclictest --histfile=\"a\\b\"\n\xff";
  Config config;
  config.histogram = 40;
  auto json = nlohmann::json::parse(CyclicJson(result, config, 0), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["file_version"], 1);
  EXPECT_THAT(json["cmdline:"].get<std::string>(), HasSubstr("--histfile=\"a\\b\"\n"));
  EXPECT_TRUE(json.contains("rt_test_version:"));
  EXPECT_EQ(json["num_threads"], 2);
  EXPECT_EQ(json["resolution_in_ns"], 0);
  EXPECT_EQ(json["thread"]["0"]["histogram"], (nlohmann::json{{"16", 1}, {"32", 1}}));
  EXPECT_EQ(json["thread"]["0"]["avg"], 24);
  EXPECT_TRUE(json["thread"]["1"]["avg"].is_null());
  EXPECT_EQ(json["thread"]["1"]["min"], 1000000);
}

TEST(CyclicJson, WithoutHistogramHasNoSuchKey) {
  // It crashed once.
  auto json = nlohmann::json::parse(CyclicJson(TwoThreads({{16}}, 0), Config(), 0), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_FALSE(json["thread"]["0"].contains("histogram"));
}

TEST(ParseCyclic, ReadsBackWhatIsPrinted) {
  Result result = TwoThreads({{13, 13, 40}, {13, 90}}, 50);
  Config config;
  config.histogram = 50, config.histogram_all = true, config.break_value = 20, config.spike = 20;
  result.broke = Break{4893, 90};
  result.spikes = {{1, {90, 5}}};
  result.spikes_seen = 1;
  CyclicOutput out = ParseCyclicText("# /dev/cpu_dma_latency set to 0us\n" + FinalText(result, config, true));
  EXPECT_EQ(out.dma_latency_us, 0);
  EXPECT_THAT(out.other, ElementsAre());
  EXPECT_TRUE(out.has_histogram && out.has_total_line);
  ASSERT_EQ(out.buckets.size(), 50u);
  EXPECT_THAT(out.buckets[13].second, ElementsAre(2, 1, 3));
  EXPECT_THAT(out.max, ElementsAre(40, 90, 90));
  EXPECT_THAT(out.overflows, ElementsAre(0, 1, 1));
  EXPECT_EQ(out.break_thread, 4893);
  EXPECT_EQ(out.spikes_seen, 1u);
  EXPECT_EQ(out.overflow_cycles[1], std::vector<uint64_t>{1});
}

TEST(ParseCyclic, ReadsRealOutput) {
  CyclicOutput out = ParseCyclicText(
      "# /dev/cpu_dma_latency set to 0us\npolicy: other/other: loadavg: 9.35 5.61 2.78 9/133 21178          \n\n"
      "T: 0 (    0) P: 0 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n\033[3A"
      "policy: fifo: loadavg: 9.35 5.61 2.78 9/133 21178          \n\nT: 0 (21178) P:80 I:1000 C:     20 Min:     72 Act: 6655 Avg: 2165 Max:    8009\n"
      "# Thread Ids: 21178\n# Break thread: 21178\n# Break value: 100\n");
  EXPECT_EQ(out.frames, 2u);
  EXPECT_EQ(out.policy, "fifo");
  ASSERT_EQ(out.statuses.size(), 1u);
  EXPECT_EQ(out.statuses[0].max, 8009);
  EXPECT_EQ(out.break_value, 100);
  EXPECT_THAT(out.other, ElementsAre());
}

TEST(ResultJson, RoundTrip) {
  Document document;
  document.result = TwoThreads({{13, 13, 40}, {}}, 0);
  document.result.clock = "monotonic";
  document.result.threads[0].missed = 2;
  document.result.threads[0].corrected.Merge(document.result.threads[0].values);
  document.result.threads[0].worst = {{40'999, 2, 77}};
  document.result.broke = Break{4893, 26};
  SpikeReport spike;
  spike.lateness_ns = 5'000'000;
  spike.cause = Cause::kTask;
  spike.subject = "busy (pid 7)";
  spike.parts.wait = 5'000'000;
  spike.lines = {{"wait", 5'000'000, "busy (pid 7) ran"}};
  document.spikes = {spike};
  auto again = ParseResultJson(ResultJson(document));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->result.clock, "monotonic");
  EXPECT_EQ(again->result.threads[0].values.Percentile(100), 40'999);
  EXPECT_EQ(again->result.threads[0].values.total(), 3u);
  EXPECT_EQ(again->result.threads[0].missed, 2u);
  EXPECT_EQ(again->result.threads[1].cycles, 0u);
  EXPECT_EQ(again->spikes[0].cause, Cause::kTask);
  EXPECT_EQ(again->spikes[0].parts.sum(), 5'000'000);
  EXPECT_EQ(ResultCsv(*again), ResultCsv(document));
}

TEST(ParseAny, RefusesWhatIsNone) {
  EXPECT_FALSE(ParseAny("").ok());
  EXPECT_FALSE(ParseAny("{\"a\":1}").ok());
  EXPECT_FALSE(ParseAny("hello\n").ok());
  EXPECT_FALSE(ParseAny("{\"schema\":\"brink.latency.v1\",\"kind\":3}").ok());
}

TEST(Plot, HasALinePerCpuAndIsAPicture) {
  Document document;
  document.result = TwoThreads({{13, 40}, {20}}, 0);
  document.result.threads[0].cpu = 0, document.result.threads[1].cpu = 1;
  std::string svg = PlotSvg(document);
  EXPECT_THAT(svg, testing::AllOf(HasSubstr("<title>CPU 0</title>"), HasSubstr("<title>CPU 1</title>"), HasSubstr("</svg>")));
  EXPECT_EQ(PlotPng(document).substr(1, 3), "PNG");
  EXPECT_THAT(PlotHtml(document), HasSubstr("p99.9"));
  EXPECT_FALSE(WritePlot(document, "x.bmp").ok());
}

}  // namespace
}  // namespace brink::latency
