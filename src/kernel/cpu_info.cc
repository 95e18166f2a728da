#include "kernel/cpu_info.h"

#include <cstring>

#include "base/strings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace brink {

std::string_view CpuVendorName(CpuVendor vendor) {
  switch (vendor) {
    case CpuVendor::kIntel: return "intel";
    case CpuVendor::kAmd: return "amd";
    case CpuVendor::kArm: return "arm";
    case CpuVendor::kPower: return "power";
    case CpuVendor::kUnknown: break;
  }
  return "unknown";
}

#if defined(__x86_64__)
namespace {

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf Cpuid(uint32_t leaf, uint32_t sub = 0) {
  Leaf r;
  __get_cpuid_count(leaf, sub, &r.eax, &r.ebx, &r.ecx, &r.edx);  // leaves zeros where the leaf does not exist
  return r;
}

CpuVendor VendorOf(const Leaf& zero) {
  char text[12];
  std::memcpy(text, &zero.ebx, 4);
  std::memcpy(text + 4, &zero.edx, 4);
  std::memcpy(text + 8, &zero.ecx, 4);
  std::string_view id(text, sizeof text);
  if (id == "GenuineIntel") return CpuVendor::kIntel;
  if (id == "AuthenticAMD" || id == "HygonGenuine") return CpuVendor::kAmd;
  return CpuVendor::kUnknown;
}

std::string ModelName() {
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    Leaf leaf = Cpuid(0x80000002 + i);
    std::memcpy(text + i * 16, &leaf, 16);
  }
  return EscapeForTerminal(Trim(std::string_view(text, strnlen(text, 48))));
}

}  // namespace

CpuInfo CpuInfo::Read() {
  CpuInfo info;
  info.vendor = VendorOf(Cpuid(0));
  Leaf one = Cpuid(1);
  info.family = one.eax >> 8 & 15;
  info.model = one.eax >> 4 & 15;
  if (info.family == 15) info.family += one.eax >> 20 & 255;
  if (info.family >= 6) info.model += (one.eax >> 16 & 15) << 4;
  info.hypervisor = one.ecx >> 31;
  info.model_name = ModelName();
  info.arch_lbr = info.vendor == CpuVendor::kIntel && Cpuid(7).edx >> 19 & 1;
  if (info.vendor == CpuVendor::kAmd) {
    info.amd_brs = Cpuid(0x80000008).ebx >> 31;
    Leaf ext = Cpuid(0x80000022);
    info.amd_lbr_v2 = ext.eax >> 1 & 1;
    info.amd_lbr_depth = info.amd_lbr_v2 ? ext.ebx >> 4 & 63 : 0;
  }
  return info;
}
#else
CpuInfo CpuInfo::Read() {
  CpuInfo info;
#if defined(__aarch64__)
  info.vendor = CpuVendor::kArm;
#elif defined(__powerpc64__)
  info.vendor = CpuVendor::kPower;
#endif
  return info;
}
#endif

}  // namespace brink
