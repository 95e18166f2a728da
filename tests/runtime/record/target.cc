// What the record tests record.
//
//   target threads N MS    spins until there is a line on standard input; then N threads, each spinning until it has
//                          used MS of CPU time
//   target churn N         N processes, 8 at a time: some load a library, some execute this program again, all spin
//   target spin MS         spins for MS of CPU time
//   target flood N         spins until there is a line; then starts a child, loads a library and makes N executable
//                          mappings; says "flooded" and spins until there is another line; then runs the library's code,
//                          and so does the child
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

volatile uint64_t sink;

void SpinTurns(int turns) {
  for (int i = 0; i < turns; ++i) sink = sink * 31 + static_cast<uint64_t>(i);
}

void Spin(uint64_t ms) {
  timespec now;
  do {
    SpinTurns(2000);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000 < ms);
}

// A library that is not loaded yet, then its code.
void SpinInLibrary() {
  void* library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
  auto* function = library ? reinterpret_cast<double (*)(double)>(dlsym(library, "cbrt")) : nullptr;
  double sum = 0;
  for (int i = 0; function && i < 200'000; ++i) sum += function(i);
  sink = static_cast<uint64_t>(sum);
}

int Threads(int count, uint64_t ms) {
  std::puts("ready");
  std::fflush(stdout);
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 0) == 0) SpinTurns(20'000);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(Spin, ms);
  for (auto& thread : threads) thread.join();
  return 0;
}

int Churn(int count, const char* self) {
  int running = 0;
  for (int i = 0; i < count; ++i) {
    if (running == 8) {
      wait(nullptr);
      --running;
    }
    pid_t pid = fork();
    if (pid == 0) {
      switch (i % 4) {
        case 0: Spin(8); _exit(0);
        case 1: SpinInLibrary(); _exit(0);
        case 2: execl(self, self, "spin", "8", nullptr); _exit(127);
        default: {
          std::thread thread(Spin, 8);
          if (fork() == 0) {
            SpinInLibrary();
            _exit(0);
          }
          thread.join();
          wait(nullptr);
          _exit(0);
        }
      }
    }
    running += pid > 0;
  }
  while (wait(nullptr) > 0) {
  }
  return 0;
}

void AwaitLine() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 0) == 0) SpinTurns(20'000);
  char line[64];
  [[maybe_unused]] ssize_t n = read(STDIN_FILENO, line, sizeof(line));
}

int Flood(int count) {
  std::puts("ready");
  std::fflush(stdout);
  AwaitLine();
  int go[2];
  if (pipe(go) != 0) return 1;
  int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  auto flood = [&] {
    for (int i = 0; i < count; ++i) {
      void* page = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, self, 0);
      if (page != MAP_FAILED) munmap(page, 4096);
    }
  };
  flood();  // so that the child's fork is lost, too
  pid_t pid = fork();
  if (pid == 0) {
    char byte;
    void* library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    [[maybe_unused]] ssize_t n = read(go[0], &byte, 1);
    if (library) SpinInLibrary();
    _exit(0);
  }
  void* library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  flood();
  std::puts("flooded");
  std::fflush(stdout);
  AwaitLine();
  [[maybe_unused]] ssize_t n = write(go[1], "x", 1);
  if (library) SpinInLibrary();
  return pid > 0 && wait(nullptr) == pid ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "threads" && argc == 4) return Threads(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  if (what == "churn" && argc == 3) return Churn(std::atoi(argv[2]), argv[0]);
  if (what == "flood" && argc == 3) return Flood(std::atoi(argv[2]));
  if (what == "spin" && argc == 3) {
    Spin(std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  return 2;
}
