// What this machine can do, as `brink doctor --json` says: asked once a test program, so that tests and users read the
// same answer.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace brink::testing_support {

// Is the feature (a name of `brink doctor --json`) on? A name that doctor does not know is a failed test.
bool HasFeature(const std::string& name);
// "bpf.fentry: the kernel refuses ..." for the skip line.
std::string WhyNot(const std::string& name);

}  // namespace brink::testing_support

// Skips the test, naming the feature and doctor's reason.
#define SKIP_UNLESS(feature) \
  if (!::brink::testing_support::HasFeature(feature)) GTEST_SKIP() << "needs " << ::brink::testing_support::WhyNot(feature)
