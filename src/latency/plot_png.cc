#include <zlib.h>

#include <cmath>

#include "latency/outputs.h"

namespace brink::latency {
namespace {

constexpr int kWidth = 960, kHeight = 480, kLeft = 60, kRight = 20, kTop = 20, kBottom = 40;
constexpr uint32_t kColours[] = {0x1f77b4, 0xd62728, 0x2ca02c, 0x9467bd, 0xff7f0e, 0x17becf, 0x8c564b, 0xe377c2};

// Digits and the few letters of the axes, 3 x 5, a row in three bits from the top.
uint16_t Glyph(char c) {
  constexpr uint16_t kDigits[] = {075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717};
  if (c >= '0' && c <= '9') return kDigits[c - '0'];
  if (c == '.') return 000002;
  if (c == 'u') return 005557;
  if (c == 's') return 007427;
  if (c == 'm') return 007755;
  if (c == 'k') return 045655;
  if (c == 'M') return 057755;
  return 0;
}

class Image {
 public:
  Image() : pixels_(static_cast<size_t>(kWidth) * kHeight * 3, 255) {}

  void Set(int x, int y, uint32_t colour) {
    if (x < 0 || y < 0 || x >= kWidth || y >= kHeight) return;
    size_t at = (static_cast<size_t>(y) * kWidth + static_cast<size_t>(x)) * 3;
    for (int i = 0; i < 3; ++i) pixels_[at + static_cast<size_t>(i)] = static_cast<uint8_t>(colour >> (16 - 8 * i));
  }
  void Line(double x0, double y0, double x1, double y1, uint32_t colour) {
    int steps = static_cast<int>(std::max(std::abs(x1 - x0), std::abs(y1 - y0))) + 1;
    for (int i = 0; i <= steps; ++i) {
      double t = static_cast<double>(i) / steps;
      int x = static_cast<int>(std::lround(x0 + (x1 - x0) * t)), y = static_cast<int>(std::lround(y0 + (y1 - y0) * t));
      Set(x, y, colour);
      Set(x, y + 1, colour);
    }
  }
  void Text(int x, int y, const std::string& text) {
    for (char c : text) {
      uint16_t glyph = Glyph(c);
      for (int row = 0; row < 5; ++row) {
        for (int column = 0; column < 3; ++column) {
          if (!(glyph >> ((4 - row) * 3 + 2 - column) & 1)) continue;
          for (int dy = 0; dy < 2; ++dy) {
            for (int dx = 0; dx < 2; ++dx) Set(x + column * 2 + dx, y + row * 2 + dy, 0x333333);
          }
        }
      }
      x += 8;
    }
  }

  std::string Png() const {
    std::string raw;
    for (int y = 0; y < kHeight; ++y) {
      raw += '\0';  // no filter
      raw.append(reinterpret_cast<const char*>(&pixels_[static_cast<size_t>(y) * kWidth * 3]), static_cast<size_t>(kWidth) * 3);
    }
    uLongf size = compressBound(raw.size());
    std::string packed(size, '\0');
    compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()), raw.size(), 9);
    packed.resize(size);
    std::string out("\x89PNG\r\n\x1a\n", 8);
    std::string head = Number(kWidth) + Number(kHeight) + std::string("\x08\x02\x00\x00\x00", 5);
    return out + Chunk("IHDR", head) + Chunk("IDAT", packed) + Chunk("IEND", "");
  }

 private:
  static std::string Number(uint32_t value) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
    return out;
  }
  static std::string Chunk(const std::string& type, const std::string& data) {
    std::string body = type + data;
    return Number(static_cast<uint32_t>(data.size())) + body + Number(static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
  }
  std::vector<uint8_t> pixels_;
};

std::string ShortTime(double ns) {
  double us = ns / 1000;
  auto whole = [](double value) { return value < 1 ? "0." + std::to_string(static_cast<int>(value * 10 + 0.5)) : std::to_string(static_cast<int>(value + 0.5)); };
  return us < 1000 ? whole(us) + "us" : us < 1e6 ? whole(us / 1000) + "ms" : whole(us / 1e6) + "s";
}

std::string ShortCount(uint64_t count) {
  return count < 1000 ? std::to_string(count) : count < 1'000'000 ? std::to_string(count / 1000) + "k" : std::to_string(count / 1'000'000) + "M";
}

}  // namespace

std::string PlotPng(const Document& document) {
  PlotCurves plot = MakeCurves(document);
  const double w = kWidth - kLeft - kRight, h = kHeight - kTop - kBottom;
  Image image;
  for (double tick = 100; tick < plot.high_ns; tick *= 10) {
    if (tick < plot.low_ns) continue;
    double x = kLeft + w * std::log(tick / plot.low_ns) / std::log(plot.high_ns / plot.low_ns);
    image.Line(x, kTop, x, kTop + h, 0xdddddd);
    image.Text(static_cast<int>(x) - 16, static_cast<int>(kTop + h) + 10, ShortTime(tick));
  }
  for (uint64_t count = 1; count <= plot.most && count < UINT64_MAX / 10; count *= 10) {
    double y = kTop + h * (1 - plot.HeightOf(count));
    image.Line(kLeft, y, kLeft + w, y, 0xdddddd);
    image.Text(8, static_cast<int>(y) - 5, ShortCount(count));
  }
  for (size_t i = 0; i < plot.curves.size(); ++i) {
    const auto& points = plot.curves[i].points;
    for (size_t j = 1; j < points.size(); ++j) {
      image.Line(kLeft + w * points[j - 1].first, kTop + h * (1 - plot.HeightOf(points[j - 1].second)), kLeft + w * points[j].first,
                 kTop + h * (1 - plot.HeightOf(points[j].second)), kColours[i % std::size(kColours)]);
    }
  }
  return image.Png();
}

}  // namespace brink::latency
