// brink's own forms of a result: table for people, JSON (docs/schema/latency.json) and back, CSV, plot.
#pragma once

#include <string>
#include <string_view>

#include "latency/blame.h"
#include "latency/paths.h"
#include "latency/result.h"

namespace brink::latency {

// One run as `brink latency` keeps it: numbers and, with --blame, the reasons.
struct Document {
  std::string kind = "latency";  // latency, watch, busy
  Result result;
  std::vector<SpikeReport> spikes;
  std::vector<std::string> tail_paths;  // folded, "a;b;c 7"
  PathDiff path_diff;                   // late wake-ups' paths against ordinary ones'
};

// At most `max_spikes` reports.
std::string ResultText(const Document& document, size_t max_spikes = 10);
// One line of JSON, schema "brink.latency.v1".
std::string ResultJson(const Document& document);
StatusOr<Document> ParseResultJson(std::string_view text);
// thread,cpu,low_ns,high_ns,count rows, and total rows with thread "all".
std::string ResultCsv(const Document& document);
// Any of: brink's JSON, cyclictest's JSON, cyclictest's text.
StatusOr<Document> ParseAny(std::string_view text);

// The curves of a plot: one a CPU (or thread), over logarithmic latency.
struct PlotCurves {
  struct Curve {
    std::string name;
    std::vector<std::pair<double, uint64_t>> points;  // 0..1 from low_ns to high_ns, count
  };
  double low_ns = 0, high_ns = 0;
  uint64_t most = 1;
  std::vector<Curve> curves;
  double HeightOf(uint64_t count) const;  // 0..1, logarithmic
};
PlotCurves MakeCurves(const Document& document);

// Histogram as a picture: logarithmic counts over logarithmic latency, a line a CPU. `html` wraps it in a page with the
// table. Needs nothing else.
std::string PlotSvg(const Document& document);
std::string PlotHtml(const Document& document);
std::string PlotPng(const Document& document);
// By the ending: .svg, .html, .png.
Status WritePlot(const Document& document, const std::string& path);

}  // namespace brink::latency
