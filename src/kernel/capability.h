// Linux capabilities of this process, by libcap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink {

// A set of capability numbers (CAP_BPF ...). A value; made by ReadEffective or from a list in tests.
class CapSet {
 public:
  CapSet() = default;
  explicit CapSet(uint64_t bits) : bits_(bits) {}

  bool Has(int capability) const { return bits_ >> capability & 1; }
  CapSet With(int capability) const { return CapSet(bits_ | uint64_t{1} << capability); }
  CapSet Without(int capability) const { return CapSet(bits_ & ~(uint64_t{1} << capability)); }
  uint64_t bits() const { return bits_; }
  bool empty() const { return bits_ == 0; }
  friend bool operator==(const CapSet&, const CapSet&) = default;

  // What the kernel's perfmon_capable() and bpf_capable() accept: the capability itself or CAP_SYS_ADMIN.
  bool PerfmonCapable() const;
  bool BpfCapable() const;

  // Effective (or permitted) set of the calling thread.
  static CapSet ReadEffective();
  static CapSet ReadPermitted();

 private:
  uint64_t bits_ = 0;
};

// "cap_bpf"; the number in decimal where libcap has no name for it.
std::string CapabilityName(int capability);
// The command that gives this very program the rights it needs: "setcap cap_bpf,cap_perfmon+ep /usr/bin/brink".
std::string SetcapLine(const std::vector<int>& extra = {});
// /proc/self/exe resolved; "brink" when that cannot be read.
std::string OwnBinaryPath();

}  // namespace brink
