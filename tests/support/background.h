// The brink binary in the background, until it says that it is ready.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace brink::testing_support {

class Background {
 public:
  // Starts brink ARGS, its standard output thrown away; returns once its standard error has said `ready` or has ended.
  Background(std::vector<std::string> args, std::string ready);
  // Kills it if it still runs.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  bool ready() const { return text_.find(ready_) != std::string::npos; }
  const std::string& text() const { return text_; }  // what it said until then
  pid_t pid() const { return pid_; }

  struct End {
    int status = -1;  // exit status, or 128 + signal
    std::chrono::milliseconds took{0};
  };
  // Sends the signal and waits for the end.
  End Stop(int signal);

 private:
  std::string ready_, text_;
  pid_t pid_ = -1;
  int err_ = -1;
};

}  // namespace brink::testing_support
