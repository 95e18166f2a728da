// gmock matchers for Status and StatusOr: EXPECT_THAT(x, IsOk()); EXPECT_THAT(x, StatusIs(code, HasSubstr("..."))).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace brink::testing_support {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << Message(StatusOf(arg));
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIs, code, message, "has the code and a matching message") {
  const Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code && testing::Matches(message)(Message(status));
}

}  // namespace brink::testing_support
