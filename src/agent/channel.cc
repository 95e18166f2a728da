#include "agent/channel.h"

#include <sys/socket.h>

#include <cerrno>

namespace brink::agent {

bool Channel::Receive() {
  char buffer[16384];
  while (in_.size() <= most_in_) {
    ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n > 0) {
      in_.append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return true;
}

std::optional<std::string> Channel::Next(std::string_view end) {
  const size_t at = in_.find(end);
  if (at == std::string::npos) return std::nullopt;
  std::string text = in_.substr(0, at);
  in_.erase(0, at + end.size());
  return text;
}

bool Channel::Send(std::string_view text, bool must) {
  if (!must && out_.size() - sent_ + text.size() > most_out_) return false;
  if (sent_ > (1u << 16)) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  out_ += text;
  return true;
}

bool Channel::Flush() {
  while (wants_out()) {
    ssize_t n = send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

}  // namespace brink::agent
