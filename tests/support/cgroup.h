// Where the machine's cgroups are.
#pragma once

#include <string>

namespace brink::testing_support {

// Where cgroup v2 is mounted; "" if it is not.
std::string CgroupV2Mount();

}  // namespace brink::testing_support
