#include "report/noise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace brink::report {
namespace {

constexpr double kLeastExpected = 5;  // a part in which fewer were to be expected says nothing about scatter
constexpr double kPriorFreedom = 4;   // weight of the pooled dispersion against a row's own

double Sum(std::span<const uint64_t> counts) { return static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0})); }

}  // namespace

NoiseModel::NoiseModel(std::vector<uint64_t> totals, double most_dispersion) : totals_(std::move(totals)), most_dispersion_(std::max(1.0, most_dispersion)) {
  total_ = std::accumulate(totals_.begin(), totals_.end(), uint64_t{0});
  auto parts = std::count_if(totals_.begin(), totals_.end(), [](uint64_t n) { return n > 0; });
  freedom_ = parts > 1 ? static_cast<double>(parts - 1) : 0;
}

double NoiseModel::Scatter(std::span<const uint64_t> counts) const {
  const double share = Sum(counts) / static_cast<double>(total_);
  double scatter = 0;
  for (size_t i = 0; i < counts.size() && i < totals_.size(); ++i) {
    if (totals_[i] == 0) continue;
    const double expected = static_cast<double>(totals_[i]) * share, off = static_cast<double>(counts[i]) - expected;
    if (expected < kLeastExpected || share >= 1) return 0;
    scatter += off * off / (expected * (1 - share));
  }
  return scatter;
}

void NoiseModel::Observe(std::span<const uint64_t> counts) {
  if (freedom_ == 0 || total_ == 0) return;
  const double least = kLeastExpected * static_cast<double>(totals_.size());
  if (Sum(counts) < least) return;
  sum_ += Scatter(counts);
  ++rows_;
}

double NoiseModel::dispersion() const {
  return rows_ == 0 ? 1 : std::clamp(sum_ / (static_cast<double>(rows_) * freedom_), 1.0, most_dispersion_);
}

double NoiseModel::ShareError(std::span<const uint64_t> counts) const {
  if (total_ == 0) return 1;
  const double total = static_cast<double>(total_), pooled = dispersion();
  const double own = std::min(most_dispersion_, (kPriorFreedom * pooled + Scatter(counts)) / (kPriorFreedom + freedom_));
  // A row that was not seen may have been missed: half an entry.
  const double share = std::clamp(Sum(counts), 0.5, std::max(total - 0.5, 0.5)) / total;
  return std::sqrt(std::max(pooled, own) * share * std::max(1 - share, 0.5 / total) / total);
}

double NoiseModel::RateError(uint64_t hits, uint64_t of) const {
  if (of == 0) return 1;
  const double n = static_cast<double>(of);
  const double rate = std::clamp(static_cast<double>(hits), 0.5, std::max(n - 0.5, 0.5)) / n;
  return std::sqrt(dispersion() * rate * std::max(1 - rate, 0.0) / n);
}

double NoiseModel::MeanError(double mean, uint64_t of) const { return of == 0 ? mean : mean * std::sqrt(dispersion() / static_cast<double>(of)); }

bool WithinNoise(double a, double a_error, double b, double b_error, double sigmas) {
  return std::abs(b - a) <= sigmas * std::sqrt(a_error * a_error + b_error * b_error);
}

}  // namespace brink::report
