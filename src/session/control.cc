#include "session/control.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace brink {

StatusOr<std::unique_ptr<RunControl>> RunControl::Make() {
  std::unique_ptr<RunControl> control(new RunControl);
  control->wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!control->wake_.valid()) return ErrnoError(errno, "eventfd");
  return control;
}

void RunControl::Stop() {
  stop_ = true;
  Wake();
}

void RunControl::Fire() {
  fire_ = true;
  Wake();
}

void RunControl::Pause(bool paused) {
  if (pause_.exchange(paused) != paused) Wake();
}

void RunControl::Clear() {
  uint64_t count;
  [[maybe_unused]] ssize_t n = read(wake_.get(), &count, sizeof(count));
}

void RunControl::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(wake_.get(), &one, sizeof(one));
}

}  // namespace brink
