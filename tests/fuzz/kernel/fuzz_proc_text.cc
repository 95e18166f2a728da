// Text of the kernel with names in it that any user may choose: mappings, tasks, modules, cgroups, mounts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/strings.h"
#include "container/cgroup_path.h"
#include "container/hierarchy.h"
#include "kernel/proc_kernel.h"
#include "kernel/proc_maps.h"
#include "kernel/proc_task.h"
#include "session/run_cgroup.h"
#include "source/vm_areas.h"

using namespace brink;

namespace {

void Mappings(std::string_view text) {
  const std::vector<Mapping> whole = ParseMaps(text);
  size_t lines = 0;
  for (std::string_view line : Split(text, '\n')) lines += ParseMapsLine(line).has_value();
  if (lines != whole.size()) std::abort();
  for (const Mapping& mapping : whole) {
    if (mapping.path.size() > text.size()) std::abort();  // unescaping only shortens
  }
  for (const VmArea& area : ParseSmaps(text)) (void)area.device(), (void)area.kernel_written();
}

void Cgroups(std::string_view text) {
  for (std::string_view line : Split(text, '\n')) {
    const CgroupIdentity identity = IdentifyCgroup(line);
    // An id is what a runtime would have given; it ends up in file names and population names.
    if (identity.container_id.find_first_of("/\n") != std::string::npos) std::abort();
    (void)UnescapeUnit(line);
  }
  (void)ParseV2Path(text);
  (void)ParseCgroupMounts(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Mappings(text);
  Cgroups(text);
  (void)ParseTaskStat(text);
  (void)ParseBusyTime(text, {0, 1});
  (void)FindKernelText(text);
  for (const KernelModule& module : ParseModules(text)) {
    if (module.name.size() > size) std::abort();
  }
  return 0;
}
