// What CPU this is, as far as branch records care.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brink {

enum class CpuVendor { kUnknown, kIntel, kAmd, kArm, kPower };
std::string_view CpuVendorName(CpuVendor vendor);

// From CPUID on x86, from the build's architecture elsewhere. A value; tests make their own.
struct CpuInfo {
  CpuVendor vendor = CpuVendor::kUnknown;
  std::string model_name;   // as the CPU says it; "" unknown
  uint32_t family = 0, model = 0;
  bool hypervisor = false;  // CPUID says a hypervisor is present
  bool arch_lbr = false;    // Intel: LBR with CPUID leaf 0x1c
  bool amd_brs = false;     // Zen 3 branch sampling
  bool amd_lbr_v2 = false;  // Zen 4 and later
  uint32_t amd_lbr_depth = 0;

  static CpuInfo Read();
};

}  // namespace brink
