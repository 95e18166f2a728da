// `brink record -o -` as a child: the recorder gives up its rights and works for itself, the viewer keeps the terminal.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace brink::top {

class RecorderChild {
 public:
  // Executes this very program with `words` ("record", ...). Its standard output is the stream; what it and the command
  // it runs say on standard error is kept. It ends when we do.
  static StatusOr<std::unique_ptr<RecorderChild>> Start(const std::vector<std::string>& words);
  // Kills it if it still runs, and reaps it.
  ~RecorderChild();
  RecorderChild(const RecorderChild&) = delete;
  RecorderChild& operator=(const RecorderChild&) = delete;

  // A path under which the stream can be opened once.
  std::string stream_path() const;
  // Asks for the orderly end: it sends what it still has, ends the command, and the stream ends with it.
  void RequestEnd();
  // Waits; exit status or 128 + signal.
  int Wait();
  // The last line that it said on standard error, "" none.
  std::string LastWords() const;

 private:
  RecorderChild() = default;
  pid_t pid_ = -1;
  int status_ = -1;  // once reaped
  UniqueFd stream_, errors_;
};

}  // namespace brink::top
