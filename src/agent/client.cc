#include "agent/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include <nlohmann/json.hpp>

#include "agent/socket.h"

namespace brink::agent {

using nlohmann::ordered_json;

namespace {

Status ErrorOf(const ordered_json& answer) {
  const auto error = answer.value("error", ordered_json::object());
  return Status(CodeByName(error.value("code", "")), error.value("message", "the agent refused"));
}

}  // namespace

StatusOr<std::unique_ptr<CtlClient>> CtlClient::Connect(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, agent::Connect(path));
  std::unique_ptr<CtlClient> client(new CtlClient(std::move(fd)));
  ASSIGN_OR_RETURN(ordered_json hello, client->ReadObject(-1));
  if (hello.value("event", "") == "hello") return client;
  return hello.contains("error") ? ErrorOf(hello) : FailedPrecondition(path + " is no agent of brink");
}

StatusOr<ordered_json> CtlClient::ReadObject(int interrupt_fd) {
  while (true) {
    if (size_t end = in_.find('\n'); end != std::string::npos) {
      ordered_json object = ordered_json::parse(in_.substr(0, end), nullptr, false);
      in_.erase(0, end + 1);
      if (!object.is_object()) return DataLoss("the agent's answer is no JSON object");
      return object;
    }
    pollfd fds[] = {{fd_.get(), POLLIN, 0}, {interrupt_fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return ErrnoError(errno, "poll");
    if (fds[1].revents) return ordered_json(nullptr);
    if (!fds[0].revents) continue;
    char buffer[65536];
    ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Unavailable("the agent has closed the connection");
    in_.append(buffer, static_cast<size_t>(n));
  }
}

Status CtlClient::Tell(Request request) {
  request.id = next_id_++;
  const std::string line = RequestLine(request) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    ssize_t n = send(fd_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Unavailable("the agent has closed the connection");
    sent += static_cast<size_t>(n);
  }
  return OkStatus();
}

StatusOr<ordered_json> CtlClient::Ask(Request request) {
  const int64_t id = next_id_;
  RETURN_IF_ERROR(Tell(std::move(request)));
  while (true) {
    ASSIGN_OR_RETURN(ordered_json answer, ReadObject(-1));
    // An answer to a line that could not be read has no id of ours.
    if (answer.contains("event") || (answer.value("id", int64_t{0}) != id && answer.value("id", int64_t{0}) != 0)) continue;
    if (answer.value("ok", false)) return answer["result"];
    return ErrorOf(answer);
  }
}

StatusOr<ordered_json> CtlClient::NextEvent(int interrupt_fd) {
  while (true) {
    ASSIGN_OR_RETURN(ordered_json object, ReadObject(interrupt_fd));
    if (object.is_null() || object.contains("event")) return object;
  }
}

}  // namespace brink::agent
