#include "base/status.h"

#include <cstring>

#include <absl/strings/cord.h>

#include "base/strings.h"

namespace brink {
namespace {

constexpr char kErrnoPayload[] = "brink/errno";

absl::string_view View(std::string_view text) { return absl::string_view(text.data(), text.size()); }

}  // namespace

Status ErrnoError(int error, std::string_view what) {
  std::string message = EscapeForTerminal(what);
  message.append(": ").append(std::strerror(error));
  Status status(absl::ErrnoToStatusCode(error), View(message));
  status.SetPayload(kErrnoPayload, absl::Cord(std::to_string(error)));
  return status;
}

int ErrnoOf(const Status& status) {
  auto payload = status.GetPayload(kErrnoPayload);
  return payload ? std::atoi(std::string(*payload).c_str()) : 0;
}

Status InvalidArgument(std::string_view m) { return absl::InvalidArgumentError(View(m)); }
Status NotFound(std::string_view m) { return absl::NotFoundError(View(m)); }
Status FailedPrecondition(std::string_view m) { return absl::FailedPreconditionError(View(m)); }
Status PermissionDenied(std::string_view m) { return absl::PermissionDeniedError(View(m)); }
Status Unavailable(std::string_view m) { return absl::UnavailableError(View(m)); }
Status Unimplemented(std::string_view m) { return absl::UnimplementedError(View(m)); }
Status ResourceExhausted(std::string_view m) { return absl::ResourceExhaustedError(View(m)); }
Status DataLoss(std::string_view m) { return absl::DataLossError(View(m)); }
Status Internal(std::string_view m) { return absl::InternalError(View(m)); }
Status Aborted(std::string_view m) { return absl::AbortedError(View(m)); }

// Names in a message come from anywhere: it is made harmless here, for all who print one, and stays one line.
std::string Message(const Status& status) { return EscapeForTerminal({status.message().data(), status.message().size()}); }

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  std::string message(context);
  message.append(": ").append(Message(status));
  Status annotated(status.code(), View(message));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

}  // namespace brink
