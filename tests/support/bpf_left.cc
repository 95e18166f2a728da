#include "support/bpf_left.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace brink::testing_support {

std::set<uint32_t> ProgramsHeldBy(pid_t pid) {
  std::set<uint32_t> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/" + std::to_string(pid) + "/fdinfo", error), end; !error && it != end; it.increment(error)) {
    std::ifstream in(it->path());
    for (std::string word; in >> word;) {
      uint32_t id = 0;
      if (word == "prog_id:" && in >> id) ids.insert(id);
    }
  }
  return ids;
}

bool UnloadedWithin(const std::set<uint32_t>& programs, std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    bool left = false;
    for (uint32_t id : programs) {
      bpf_attr attr = {};
      attr.prog_id = id;
      const int fd = static_cast<int>(syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &attr, sizeof(attr)));
      left = left || fd >= 0;
      if (fd >= 0) close(fd);
    }
    if (!left) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
  }
}

}  // namespace brink::testing_support
