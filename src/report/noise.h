// How far a row's share moves between parts of the same thing: what a difference has to exceed to mean something. Pure.
//
// The parts of one side of a comparison are its recordings or, of a single one, the two halves that every second sample
// makes. Entries of one stack come together and runs differ, so counts scatter more than independent ones would: by the
// dispersion, which the parts tell (Pearson's statistic of all rows, pooled; a row's own where it is worse).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brink::report {

class NoiseModel {
 public:
  // Entries in each part. Fewer than two parts with entries: the dispersion stays 1. Halves of one recording cannot scatter
  // more than whole stacks of one row would: `most_dispersion` is their size then, as few rows alone tell it badly.
  explicit NoiseModel(std::vector<uint64_t> totals, double most_dispersion = 1e9);

  // One row's counts in each part, for the pooled dispersion. All rows first, then the questions.
  void Observe(std::span<const uint64_t> counts);

  double dispersion() const;  // 1: as independent counts
  // Standard error of the share of a row with these counts, which may all be 0.
  double ShareError(std::span<const uint64_t> counts) const;
  // Standard error of a rate `hits / of` of entries of this side, and of a mean over `of` entries whose scatter is as large
  // as the mean itself.
  double RateError(uint64_t hits, uint64_t of) const;
  double MeanError(double mean, uint64_t of) const;

 private:
  // Pearson's statistic of one row; 0 where it cannot be had.
  double Scatter(std::span<const uint64_t> counts) const;

  std::vector<uint64_t> totals_;
  double most_dispersion_;
  uint64_t total_ = 0;
  double sum_ = 0;     // of scatter
  uint64_t rows_ = 0;  // that it is over
  double freedom_ = 0; // parts - 1
};

// Whether `b - a` is within `sigmas` of its standard errors.
bool WithinNoise(double a, double a_error, double b, double b_error, double sigmas);

}  // namespace brink::report
