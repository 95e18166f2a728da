#include "monitor/look.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/fd.h"
#include "base/sync.h"
#include "base/thread.h"
#include "kernel/proc_maps.h"
#include "kernel/proc_task.h"

namespace brink::cfi {
namespace {

constexpr uint64_t kTickOfStart = 10'000'000;
constexpr size_t kStackBytes = 4096, kMostMaps = 256u << 10;

// Libraries whose whole purpose is to make code.
bool IsJitFile(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (std::string_view prefix : {"libjvm.so", "libcoreclr.so", "libluajit", "libmozjs", "libjavascriptcoregtk", "libmonosgen", "opcache.so", "libLLVM", "libwasmtime", "libnode.so"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Outlives whoever waits for it.
struct Answer {
  Mutex mutex;
  CondVar given;
  bool over ABSL_GUARDED_BY(mutex) = false;
  Look look ABSL_GUARDED_BY(mutex);
};

}  // namespace

Look LookAt(int32_t pid, uint64_t start_ns, uint64_t stack_pointer) {
  const std::string proc = "/proc/" + std::to_string(pid);
  Look look;
  auto memory = OpenFile(proc + "/mem", O_RDONLY | O_CLOEXEC);
  if (!memory.ok() || !IsStillTheSame(pid, start_ns)) return look;
  look.stack.resize(kStackBytes);
  const ssize_t n = pread(memory->get(), look.stack.data(), look.stack.size(), static_cast<off_t>(stack_pointer));
  look.stack.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (auto maps = ReadFile(proc + "/maps", kMostMaps); maps.ok() && IsStillTheSame(pid, start_ns)) look.maps = std::move(*maps);
  return look;
}

bool IsStillTheSame(int32_t pid, uint64_t start_ns) {
  auto stat = ReadTaskStat(pid);
  return stat.ok() && stat->start_ticks == start_ns / kTickOfStart;
}

bool MakesCode(int32_t pid, bool was) {
  struct stat info;
  const std::string name = std::to_string(pid);
  if (stat(("/proc/" + name + "/root/tmp/perf-" + name + ".map").c_str(), &info) == 0) return true;
  auto maps = ReadMaps(pid);
  if (!maps.ok()) return was;
  return std::any_of(maps->begin(), maps->end(), [](const Mapping& m) { return m.executable && (IsJitFile(m.path) || m.path.starts_with("/memfd:doublemapper") || m.path.starts_with("/memfd:JIT")); });
}

Look Onlooker::At(int32_t pid, uint64_t start_ns, uint64_t stack_pointer) {
  if (busy_->exchange(true)) return {};
  auto answer = std::make_shared<Answer>();
  auto thread = StartThread("the thread that looks at a process", [answer, busy = busy_, how = how_, pid, start_ns, stack_pointer] {
    Look look = how(pid, start_ns, stack_pointer);
    MutexLock lock(answer->mutex);
    answer->look = std::move(look);
    answer->over = true;
    busy->store(false);
    answer->given.NotifyAll();
  });
  if (!thread.ok()) {
    busy_->store(false);
    return {};
  }
  thread->detach();
  const auto until = std::chrono::steady_clock::now() + patience_;
  MutexLock lock(answer->mutex);
  while (!answer->over) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) return {};
    answer->given.WaitFor(answer->mutex, left);
  }
  return std::move(answer->look);
}

}  // namespace brink::cfi
