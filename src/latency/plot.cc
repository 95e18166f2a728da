#include <algorithm>
#include <cmath>
#include <fcntl.h>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "latency/outputs.h"

namespace brink::latency {
namespace {

constexpr int kWidth = 960, kHeight = 480, kLeft = 70, kRight = 20, kTop = 20, kBottom = 50;
constexpr const char* kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2"};

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out += c;
  }
  return out;
}

}  // namespace

// Counts are summed over bins of a 1/16 octave, so that the steps of the histogram do not show.
PlotCurves MakeCurves(const Document& document) {
  PlotCurves plot;
  std::map<std::string, std::map<int, uint64_t>> bins;
  int low = INT32_MAX, high = INT32_MIN;
  uint64_t most = 1;
  for (const ThreadResult& thread : document.result.threads) {
    std::string name = thread.cpu >= 0 ? absl::StrFormat("CPU %d", thread.cpu) : absl::StrFormat("thread %d", thread.tid ? thread.tid : thread.index);
    thread.values.ForEach([&](int64_t from, int64_t, uint64_t count) {
      int bin = static_cast<int>(std::floor(std::log2(static_cast<double>(std::max<int64_t>(from, 100))) * 16));
      bins[name][bin] += count;
      low = std::min(low, bin);
      high = std::max(high, bin);
    });
  }
  if (low > high) low = 16 * 10, high = low + 16;
  if (high - low < 16) high = low + 16;
  plot.low_ns = std::exp2(static_cast<double>(low) / 16);
  plot.high_ns = std::exp2(static_cast<double>(high + 1) / 16);
  for (const auto& [name, counts] : bins) {
    PlotCurves::Curve curve{name, {}};
    for (int bin = low; bin <= high; ++bin) {
      auto found = counts.find(bin);
      uint64_t count = found == counts.end() ? 0 : found->second;
      most = std::max(most, count);
      curve.points.push_back({(static_cast<double>(bin) + 0.5 - low) / (high + 1 - low), count});
    }
    plot.curves.push_back(std::move(curve));
  }
  plot.most = most;
  return plot;
}

double PlotCurves::HeightOf(uint64_t count) const {
  return count ? (std::log10(static_cast<double>(count)) + 0.3) / (std::log10(static_cast<double>(most)) + 0.4) : 0;
}

std::string PlotSvg(const Document& document) {
  PlotCurves plot = MakeCurves(document);
  const double w = kWidth - kLeft - kRight, h = kHeight - kTop - kBottom;
  std::string out = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", kWidth, kHeight, kWidth, kHeight);
  for (double tick = 100; tick < plot.high_ns * 1.01; tick *= 10) {
    for (double step : {1.0, 2.0, 5.0}) {
      double ns = tick * step;
      if (ns < plot.low_ns || ns > plot.high_ns) continue;
      double x = kLeft + w * std::log(ns / plot.low_ns) / std::log(plot.high_ns / plot.low_ns);
      absl::StrAppendFormat(&out, "<path d=\"M%.1f %d V%.1f\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", x, kTop, kTop + h, x, kTop + h + 18, ns / 1000);
    }
  }
  for (uint64_t count = 1; count <= plot.most; count *= 10) {
    double y = kTop + h * (1 - plot.HeightOf(count));
    absl::StrAppendFormat(&out, "<path d=\"M%d %.1f H%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", kLeft, y, kLeft + w, kLeft - 6, y + 4, count);
    if (count > UINT64_MAX / 10) break;
  }
  for (size_t i = 0; i < plot.curves.size(); ++i) {
    std::string path;
    for (const auto& [x, count] : plot.curves[i].points) absl::StrAppendFormat(&path, "%s%.1f %.1f ", path.empty() ? "M" : "L", kLeft + w * x, kTop + h * (1 - plot.HeightOf(count)));
    const char* colour = kColours[i % std::size(kColours)];
    absl::StrAppendFormat(&out, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"><title>%s</title></path>\n", path, colour, Escaped(plot.curves[i].name));
    if (i < 24) absl::StrAppendFormat(&out, "<text x=\"%d\" y=\"%d\" fill=\"%s\" text-anchor=\"end\">%s</text>\n", kWidth - kRight - 6, kTop + 16 + static_cast<int>(i) * 15, colour, Escaped(plot.curves[i].name));
  }
  absl::StrAppendFormat(&out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">latency, us</text>\n<text x=\"14\" y=\"%.1f\" transform=\"rotate(-90 14 %.1f)\" text-anchor=\"middle\">samples</text>\n</svg>\n",
                        kLeft + w / 2, kHeight - 10, kTop + h / 2, kTop + h / 2);
  return out;
}

std::string PlotHtml(const Document& document) {
  return "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>brink latency</title></head>\n<body>\n" + PlotSvg(document) + "<pre>" + Escaped(ResultText(document)) + "</pre>\n</body></html>\n";
}

Status WritePlot(const Document& document, const std::string& path) {
  std::string text;
  if (path.ends_with(".svg")) text = PlotSvg(document);
  else if (path.ends_with(".html")) text = PlotHtml(document);
  else if (path.ends_with(".png")) text = PlotPng(document);
  else return InvalidArgument("--plot: the name must end in .svg, .html or .png");
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return WriteAll(fd.get(), text.data(), text.size());
}

}  // namespace brink::latency
