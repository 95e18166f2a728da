#include "report/noise.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace brink::report {
namespace {

TEST(NoiseModel, IndependentHalvesHaveTheErrorOfABinomial) {
  NoiseModel model({5000, 5000});
  model.Observe(std::vector<uint64_t>{1000, 1000});
  EXPECT_EQ(model.dispersion(), 1);
  // sqrt(0.2 * 0.8 / 10000)
  EXPECT_NEAR(model.ShareError(std::vector<uint64_t>{1000, 1000}), 0.004, 1e-9);
  // sqrt(0.25 * 0.75 / 300)
  EXPECT_NEAR(model.RateError(75, 300), 0.025, 1e-9);
  EXPECT_NEAR(model.MeanError(12, 144), 1, 1e-9);
}

TEST(NoiseModel, ScatterBetweenPartsIsMeasured) {
  NoiseModel model({1000, 1000});
  // Expected 100 and 100 with variance 90 each: (20^2 + 20^2) / 90 = 8.89 with one degree of freedom.
  model.Observe(std::vector<uint64_t>{80, 120});
  EXPECT_NEAR(model.dispersion(), 800.0 / 90, 1e-9);
}

TEST(NoiseModel, HalvesScatterAtMostAsWholeStacks) {
  NoiseModel model({1000, 1000}, 4);
  model.Observe(std::vector<uint64_t>{80, 120});
  EXPECT_EQ(model.dispersion(), 4);
}

TEST(NoiseModel, RareRowsSayNothingAboutScatter) {
  NoiseModel model({1000, 1000});
  model.Observe(std::vector<uint64_t>{0, 9});
  EXPECT_EQ(model.dispersion(), 1);
}

TEST(NoiseModel, ARowThatWasNotSeenMayHaveBeenMissed) {
  NoiseModel model({50, 50});
  EXPECT_NEAR(model.ShareError(std::vector<uint64_t>{0, 0}), std::sqrt(0.005 * 0.995 / 100), 1e-9);
}

TEST(NoiseModel, EmptySidesAndSinglePartsAreNoTrouble) {
  EXPECT_EQ(NoiseModel({}).ShareError({}), 1);
  NoiseModel one({1000});
  one.Observe(std::vector<uint64_t>{500});
  EXPECT_EQ(one.dispersion(), 1);
}

// Stacks of 32 equal entries: counts scatter 32 times as much as independent ones. Of a thousand comparisons of the same
// thing with itself hardly any may be called a change, and a doubled share must be.
TEST(NoiseModel, FalseAlarmsAreRareAndRealChangesAreFound) {
  std::mt19937 random(7);
  const std::vector<double> shares = {0.3, 0.25, 0.2, 0.1, 0.05, 0.05, 0.03, 0.02};
  auto record = [&](const std::vector<double>& weights) {
    std::discrete_distribution<size_t> pick(weights.begin(), weights.end());
    std::vector<std::vector<uint64_t>> rows(weights.size(), {0, 0});
    for (size_t sample = 0; sample < 2000; ++sample) rows[pick(random)][sample & 1] += 32;
    return rows;
  };
  auto total = [](const std::vector<uint64_t>& row) { return static_cast<double>(row[0] + row[1]); };
  size_t alarms = 0, comparisons = 0, found = 0;
  constexpr int kRuns = 125;
  for (int run = 0; run < kRuns; ++run) {
    auto a = record(shares), b = record(shares);
    std::vector<double> changed = shares;
    changed[3] = 0.2;
    auto c = record(changed);
    auto model_of = [](const auto& rows) {
      NoiseModel model({32000, 32000}, 32);
      for (const auto& row : rows) model.Observe(row);
      return model;
    };
    NoiseModel ma = model_of(a), mb = model_of(b), mc = model_of(c);
    for (size_t i = 0; i < shares.size(); ++i) {
      alarms += !WithinNoise(total(a[i]) / 64000, ma.ShareError(a[i]), total(b[i]) / 64000, mb.ShareError(b[i]), 3);
      ++comparisons;
    }
    found += !WithinNoise(total(a[3]) / 64000, ma.ShareError(a[3]), total(c[3]) / 64000, mc.ShareError(c[3]), 3);
  }
  EXPECT_LT(static_cast<double>(alarms) / static_cast<double>(comparisons), 0.02);
  EXPECT_GT(found, static_cast<size_t>(kRuns * 95 / 100));
}

}  // namespace
}  // namespace brink::report
