// Either the tests, or (--target MODE) what they capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "target.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--target") == 0) return brink::snap_tests::RunTarget(argv[2]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
