// Which cgroup hierarchies exist, and where this process is in each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brink {

struct CgroupHierarchies {
  struct V1 {
    std::string controllers;  // "cpu,cpuacct", "name=systemd"
    std::string mount;        // folder of the hierarchy
    std::string own_path;     // of this process, "/" at the root
  };
  std::string v2;             // mount point of cgroup2; "" none
  std::string own_v2_path;
  std::vector<V1> v1;
  bool perf_event_on_v1 = false;

  // Folder of this process's group on the hierarchy that has perf_event; "" where none is mounted.
  std::string PerfEventFolder() const;

  static CgroupHierarchies Read();
  // From the texts of /proc/self/mountinfo and /proc/self/cgroup. Pure.
  static CgroupHierarchies Parse(std::string_view mountinfo, std::string_view cgroup);
};

}  // namespace brink
