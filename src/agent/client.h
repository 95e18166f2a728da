// The client's end of the agent's socket.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "agent/protocol.h"
#include "base/fd.h"
#include "base/status.h"

namespace brink::agent {

class CtlClient {
 public:
  // Connects and waits for the greeting.
  static StatusOr<std::unique_ptr<CtlClient>> Connect(const std::string& path);

  // Sends a request and waits for its answer, blocking. The agent's error keeps its code.
  StatusOr<nlohmann::ordered_json> Ask(Request request);
  // For streams, after Ask: the next event of `id`'s request, as the line's object. `interrupt_fd`, where readable first,
  // makes it return a null. UNAVAILABLE: the agent is gone.
  StatusOr<nlohmann::ordered_json> NextEvent(int interrupt_fd);
  // Does not wait for the answer, which NextEvent will skip.
  Status Tell(Request request);

 private:
  explicit CtlClient(UniqueFd fd) : fd_(std::move(fd)) {}
  StatusOr<nlohmann::ordered_json> ReadObject(int interrupt_fd);

  UniqueFd fd_;
  std::string in_;
  int64_t next_id_ = 1;
};

}  // namespace brink::agent
