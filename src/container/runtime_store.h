// What container runtimes leave on disk about a container: names, image, pod. No API server, no runtime socket.
//
// Asked in this order: OCI bundle annotations (containerd, cri-o, podman), docker's config.v2.json, podman's and cri-o's
// storage index, the kubelet's log names. Everything is read below one root, so that tests bring a tree of their own.
// All text is untrusted input: sizes are bounded, and printing goes through EscapeForTerminal.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "container/cgroup_path.h"

namespace brink {

// Where a container's name came from.
enum class NameSource { kNone, kOciBundle, kDockerConfig, kStorageIndex, kPodLogs, kPath };
std::string_view NameSourceName(NameSource source);

struct StoreEntry {
  NameSource source = NameSource::kNone;
  Runtime runtime = Runtime::kUnknown;
  std::string name;           // the container's: Kubernetes container name, docker --name, podman --name
  std::string image;
  std::string pod_name, pod_namespace, pod_uid;
  bool infra = false;         // a pod's sandbox ("pause")
  std::string miss;           // why nothing was found; "" when something was
};

class RuntimeStore {
 public:
  // `root` stands before every path; "" = this host.
  explicit RuntimeStore(std::string root = "");

  // Reads what is there about the container of `identity` (64-digit id). At most a few dozen small files.
  StoreEntry Find(const CgroupIdentity& identity) const;
  // Pod by uid from /var/log/pods, for containers whose runtime left nothing. "" fields where unknown.
  StoreEntry FindPod(std::string_view uid) const;

 private:
  bool FromBundles(const std::string& id, StoreEntry* entry) const;
  bool FromDocker(const std::string& id, StoreEntry* entry) const;
  bool FromStorageIndex(const std::string& id, StoreEntry* entry) const;
  bool FromContainerLogs(const std::string& id, StoreEntry* entry) const;
  std::vector<std::string> Expand(std::string_view pattern) const;

  std::string root_;
};

}  // namespace brink
