#include "base/out_of_memory.h"

#include <unistd.h>

#include <atomic>
#include <new>

namespace brink {
namespace {

std::atomic<int> end_status = 1;

// Allocates nothing itself.
void End() {
  constexpr char kLine[] = "brink: out of memory; ask for less (--buffers, --buffer-size, --ring-size, --code-cache) or make room\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(end_status);
}

}  // namespace

void EndWhenOutOfMemory(int status) {
  end_status = status;
  std::set_new_handler(End);
}

}  // namespace brink
