#include "latency/machine_access.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace brink::latency {

StatusOr<SmiCounter> SmiCounter::Open(const std::string& root, int cpu) {
  constexpr off_t kSmiCount = 0x34;
  SmiCounter counter;
  std::string path = root + "/" + std::to_string(cpu) + "/msr";
  auto fd = OpenFile(path, O_RDONLY);
  if (!fd.ok()) return Annotate(fd.status(), "SMI counter (as root, after modprobe msr)");
  counter.fd_ = std::move(*fd);
  if (::pread(counter.fd_.get(), &counter.last_, sizeof counter.last_, kSmiCount) != sizeof counter.last_) {
    return ErrnoError(errno ? errno : EIO, path + ": register 0x34 cannot be read");
  }
  counter.last_ &= 0xffffffff;  // the register is 32 bits wide
  return counter;
}

uint64_t SmiCounter::Read() {
  uint64_t value = 0;
  if (::pread(fd_.get(), &value, sizeof value, 0x34) == sizeof value) last_ = value & 0xffffffff;
  return last_;
}

int NodeOfCpu(int cpu) {
  int node = 0;
  DIR* dir = ::opendir(("/sys/devices/system/cpu/cpu" + std::to_string(cpu)).c_str());
  if (!dir) return 0;
  while (struct dirent* entry = ::readdir(dir)) {
    if (std::strncmp(entry->d_name, "node", 4) == 0 && entry->d_name[4] >= '0' && entry->d_name[4] <= '9') node = std::atoi(entry->d_name + 4);
  }
  ::closedir(dir);
  return node;
}

NodePreference::NodePreference(int node) {
  unsigned long mask[16] = {};
  if (node < 0 || node >= 1024) return;
  mask[node / 64] |= 1ul << (node % 64);
  set_ = ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, 1024) == 0;
}

NodePreference::~NodePreference() {
  if (set_) ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
}

}  // namespace brink::latency
