#include <cstring>
#include <dirent.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "perfdata/features.h"

namespace brink::perfdata {
namespace {

// The value of the first "name : value" line.
std::string ProcField(const std::string& text, std::string_view name) {
  for (std::string_view line : Split(text, '\n')) {
    if (line.substr(0, name.size()) != name) continue;
    size_t colon = line.find(':');
    if (colon != std::string_view::npos) return std::string(Trim(line.substr(colon + 1)));
  }
  return "";
}

std::string ReadOrEmpty(const std::string& path) {
  auto text = ReadFile(path);
  return text.ok() ? *text : std::string();
}

std::vector<std::pair<uint32_t, std::string>> PmuTypes() {
  const std::string root = "/sys/bus/event_source/devices";
  std::vector<std::pair<uint32_t, std::string>> out;
  DIR* dir = opendir(root.c_str());
  if (!dir) return out;
  while (dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    auto type = ParseUint(Trim(ReadOrEmpty(root + "/" + entry->d_name + "/type")));
    if (type.ok()) out.emplace_back(static_cast<uint32_t>(*type), entry->d_name);
  }
  closedir(dir);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Features CollectHostFeatures() {
  Features features;
  utsname name;
  if (uname(&name) == 0) {
    features.hostname = name.nodename;
    features.os_release = name.release;
    features.arch = name.machine;
  }
  long available = sysconf(_SC_NPROCESSORS_CONF), online = sysconf(_SC_NPROCESSORS_ONLN);
  if (available > 0 && online > 0) {
    features.cpus_available = static_cast<uint32_t>(available);
    features.cpus_online = static_cast<uint32_t>(online);
  }
  std::string cpuinfo = ReadOrEmpty("/proc/cpuinfo");
  features.cpu_desc = ProcField(cpuinfo, "model name");
  std::string vendor = ProcField(cpuinfo, "vendor_id");
  if (!vendor.empty()) {  // the x86 form: vendor,family,model,stepping
    features.cpuid = vendor + "," + ProcField(cpuinfo, "cpu family") + "," + ProcField(cpuinfo, "model\t") + "," +
                     ProcField(cpuinfo, "stepping");
  }
  std::string mem = ProcField(ReadOrEmpty("/proc/meminfo"), "MemTotal");
  auto kb = ParseUint(Trim(std::string_view(mem).substr(0, mem.find(' '))));
  if (kb.ok()) features.total_mem_kb = *kb;
  features.pmu_mappings = PmuTypes();
  return features;
}

}  // namespace brink::perfdata
