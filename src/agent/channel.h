// A connection that never blocks its owner: bytes in until a whole line (or head) is there, bytes out as the peer takes them.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "base/fd.h"

namespace brink::agent {

class Channel {
 public:
  // `fd` is non-blocking. More than `most_in` bytes without an end make it broken.
  Channel(UniqueFd fd, size_t most_in, size_t most_out) : fd_(std::move(fd)), most_in_(most_in), most_out_(most_out) {}

  int fd() const { return fd_.get(); }
  // Reads what is there. False: the peer is gone, or has sent too much.
  bool Receive();
  // The next text that ends with `end`, without it.
  std::optional<std::string> Next(std::string_view end);
  bool too_long() const { return in_.size() > most_in_; }

  // False: there is no room, and nothing was taken. `must`: taken all the same (answers; who asks is to look at unsent() first).
  bool Send(std::string_view text, bool must);
  // Writes as much as the peer takes. False: it is gone.
  bool Flush();
  bool wants_out() const { return sent_ < out_.size(); }
  size_t unsent() const { return out_.size() - sent_; }
  bool has_line() const { return in_.find('\n') != std::string::npos; }
  void CloseWhenSent() { closing_ = true; }
  bool done() const { return closing_ && !wants_out(); }

 private:
  UniqueFd fd_;
  size_t most_in_, most_out_;
  std::string in_, out_;
  size_t sent_ = 0;
  bool closing_ = false;
};

}  // namespace brink::agent
