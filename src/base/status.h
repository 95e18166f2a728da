// Errors of brink: absl::Status at every fallible boundary.
//
// std types in all our interfaces; Debian's Abseil has its own string_view (built as C++14), so only base/ names it.
// errno becomes a Status in ErrnoError and nowhere else. A message is one line: what failed, why, what to do.
#pragma once

#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace brink {

using Status = absl::Status;
template <typename T>
using StatusOr = absl::StatusOr<T>;

inline Status OkStatus() { return absl::OkStatus(); }

// The given errno value as a Status: "WHAT: strerror". The code follows absl::ErrnoToStatusCode; errno itself is
// kept as a payload and read back by ErrnoOf.
Status ErrnoError(int error, std::string_view what);
// errno kept by ErrnoError, or 0.
int ErrnoOf(const Status& status);

Status InvalidArgument(std::string_view message);
Status NotFound(std::string_view message);
Status FailedPrecondition(std::string_view message);
Status PermissionDenied(std::string_view message);
Status Unavailable(std::string_view message);
Status Unimplemented(std::string_view message);
Status ResourceExhausted(std::string_view message);
Status DataLoss(std::string_view message);
Status Internal(std::string_view message);
Status Aborted(std::string_view message);

// The message as std::string (Abseil's own view type does not convert).
std::string Message(const Status& status);
// `status` with "CONTEXT: " put before its message; code and payloads are kept. Ok stays Ok.
Status Annotate(const Status& status, std::string_view context);

}  // namespace brink

#define BRINK_CONCAT_INNER(a, b) a##b
#define BRINK_CONCAT(a, b) BRINK_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                        \
  do {                                                               \
    if (::brink::Status brink_status_ = (expr); !brink_status_.ok()) \
      return brink_status_;                                          \
  } while (0)

// ASSIGN_OR_RETURN(auto x, F()); evaluates F once; on error returns its Status.
#define ASSIGN_OR_RETURN(lhs, expr) BRINK_ASSIGN_OR_RETURN_(BRINK_CONCAT(brink_statusor_, __LINE__), lhs, expr)
#define BRINK_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)
