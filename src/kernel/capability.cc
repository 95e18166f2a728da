#include "kernel/capability.h"

#include <linux/capability.h>
#include <sys/capability.h>
#include <unistd.h>

namespace brink {
namespace {

CapSet Read(cap_flag_t flag) {
  uint64_t bits = 0;
  cap_t caps = ::cap_get_proc();
  if (!caps) return CapSet();
  for (int cap = 0; cap < 64; ++cap) {
    cap_flag_value_t value = CAP_CLEAR;
    // Numbers above the kernel's last capability are errors, and not held.
    if (::cap_get_flag(caps, cap, flag, &value) == 0 && value == CAP_SET) bits |= uint64_t{1} << cap;
  }
  ::cap_free(caps);
  return CapSet(bits);
}

}  // namespace

bool CapSet::PerfmonCapable() const { return Has(CAP_PERFMON) || Has(CAP_SYS_ADMIN); }
bool CapSet::BpfCapable() const { return Has(CAP_BPF) || Has(CAP_SYS_ADMIN); }

CapSet CapSet::ReadEffective() { return Read(CAP_EFFECTIVE); }
CapSet CapSet::ReadPermitted() { return Read(CAP_PERMITTED); }

std::string CapabilityName(int capability) {
  char* name = ::cap_to_name(capability);
  if (!name) return std::to_string(capability);
  std::string out = name;
  ::cap_free(name);
  return out;
}

std::string OwnBinaryPath() {
  char path[4096];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 && n < static_cast<ssize_t>(sizeof path) ? std::string(path, static_cast<size_t>(n)) : "brink";
}

std::string SetcapLine(const std::vector<int>& extra) {
  std::string line = "setcap cap_bpf,cap_perfmon";
  for (int cap : extra) line += "," + CapabilityName(cap);
  return line + "+ep " + OwnBinaryPath();
}

}  // namespace brink
