// What record asks of walks by itself, by the frequency.
#include <gtest/gtest.h>

#include "source/walk_source.h"

namespace brink {
namespace {

TEST(WalkDefaults, FollowTheFrequency) {
  const WalkDefaults deep{.depth = 256, .share_permille = 20, .wait_permille = 10}, middle{.depth = 128, .share_permille = 20, .wait_permille = 10},
      shallow{.depth = 32, .share_permille = 5, .wait_permille = 3}, period{.depth = 32, .share_permille = 20, .wait_permille = 10};
  const struct {
    uint64_t frequency;
    WalkDefaults expected;
  } rows[] = {{0, period}, {1, deep}, {99, deep}, {125, deep}, {126, middle}, {250, middle}, {251, shallow}, {997, shallow}, {100'000, shallow}};
  for (const auto& row : rows) EXPECT_TRUE(WalkDefaultsFor(row.frequency) == row.expected) << row.frequency;
}

}  // namespace
}  // namespace brink
