#include "container/hierarchy.h"

#include <gtest/gtest.h>

namespace brink {
namespace {

TEST(IsGroupBelow, AGroupIsBelowItselfAndTheRoot) {
  EXPECT_TRUE(IsGroupBelow("/a", "/a"));
  EXPECT_TRUE(IsGroupBelow("/a/b", "/a"));
  EXPECT_TRUE(IsGroupBelow("/a", "/"));
  EXPECT_TRUE(IsGroupBelow("/", "/"));
}

TEST(IsGroupBelow, ALongerNameIsNotBelow) {
  EXPECT_FALSE(IsGroupBelow("/ab", "/a"));
  EXPECT_FALSE(IsGroupBelow("/a", "/a/b"));
  EXPECT_FALSE(IsGroupBelow("/", "/a"));
}

}  // namespace
}  // namespace brink
