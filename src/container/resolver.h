// Names for containers: cgroup key or path -> runtime, id, name, image, pod. Used by snap, report and record.
//
//   ContainerResolver resolver({.runtime_root = "", .hierarchy = ChooseHierarchy()});
//   const ContainerInfo& info = resolver.ByPath("/kubepods/burstable/pod.../ID");   // recordings: from CGROUP records
//   const ContainerInfo& info = resolver.ById(kernfs_id);                            // live
//   info.Label()   "shop/web-7d9f/nginx" | "web" | "3f2a9c41d0b7" | "ssh.service" | "" (no container)
//
// Answers are kept: cgroups and runtime files vanish with the container, so ask at first sight. At most kMaxCached
// entries; the oldest go first, counted. Not thread safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "container/hierarchy.h"
#include "container/runtime_store.h"

namespace brink {

struct ContainerInfo {
  std::string path;          // of the cgroup; "" unknown
  CgroupIdentity identity;   // what the path says
  StoreEntry store;          // what the runtime's files say
  // Ids of the containers around this one, outermost first (kind, k3s, docker in docker).
  std::vector<std::string> outer;
  std::string miss;          // why there is no name: "cgroup gone before it was seen", "no runtime knows ID"; "" named

  bool is_container() const { return !identity.container_id.empty(); }
  // First 12 digits of a 64-digit id, else the id.
  std::string ShortId() const;
  // NS/POD; the uid's form where only that is known; "" outside pods.
  std::string Pod() const;
  std::string Label() const;
  // Whether a user's word means this container: id or a prefix of 4 and more digits, short id, name, NS/POD/NAME, unit.
  bool Answers(std::string_view word) const;
  bool InPod(std::string_view word) const;  // NS/NAME, NAME, uid
};

struct ResolverOptions {
  std::string runtime_root;   // --runtime-root; "" = this host
  ContainerHierarchy hierarchy;
};

class ContainerResolver {
 public:
  static constexpr size_t kMaxCached = 16384;

  explicit ContainerResolver(ResolverOptions options);

  // Valid until the entry is evicted; copy what is kept longer.
  const ContainerInfo& ByPath(std::string_view path);
  const ContainerInfo& ById(uint64_t id);
  // The kernel told of a group's birth (cgroup_mkdir, CGROUP record): its name survives it.
  void Learn(uint64_t id, std::string_view path);
  // Group of a process that is alive.
  const ContainerInfo& ByPid(pid_t pid);

  // Groups whose container answers to `word` (see Answers; pods when `pod`), found by walking the hierarchy now. The
  // error names the nearest containers.
  StatusOr<std::vector<CgroupFolder>> Find(std::string_view word, bool pod);

  const ContainerHierarchy& hierarchy() const { return options_.hierarchy; }
  uint64_t evicted() const { return evicted_; }

 private:
  const ContainerInfo& Keep(std::string path, std::string miss);

  ResolverOptions options_;
  RuntimeStore store_;
  absl::flat_hash_map<std::string, std::unique_ptr<ContainerInfo>> by_path_;
  absl::flat_hash_map<uint64_t, std::string> path_of_;
  std::deque<std::string> order_;
  std::deque<uint64_t> id_order_;
  ContainerInfo gone_;
  uint64_t evicted_ = 0;
};

}  // namespace brink
