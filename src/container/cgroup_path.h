// What a cgroup's path says about the container in it: pure text, no files.
//
// Shapes are those of docker, containerd, cri-o, podman, the kubelet's cgroupfs and systemd drivers, LXC, systemd
// services and slices, and nests of them (kind, k3s). A path is untrusted: anyone with a delegated cgroup names it as he
// likes, so an id from here is a hint until the runtime's own files confirm it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brink {

enum class Runtime { kNone, kDocker, kContainerd, kCrio, kPodman, kBuildkit, kLxc, kNspawn, kSystemd, kUnknown };
std::string_view RuntimeName(Runtime runtime);

struct CgroupIdentity {
  Runtime runtime = Runtime::kNone;
  std::string container_id;  // 64 hex digits as a rule; the machine's or LXC's name; "" when none
  std::string pod_uid;       // with dashes: 8-4-4-4-12; "" outside Kubernetes. Static pods: 32 digits without
  std::string qos;           // guaranteed, burstable, besteffort; "" outside Kubernetes
  std::string unit;          // innermost systemd unit (service, scope, slice); "" when none
  int depth = 0;             // containers on the path: 2 and more in nests; the fields are those of the innermost
  bool infra = false;        // not the workload itself: conmon, crio-conmon, init
};

// Of an absolute path within a cgroup hierarchy ("/", "/system.slice/ssh.service"). Never fails: what is not known is
// kNone with empty fields.
CgroupIdentity IdentifyCgroup(std::string_view path);

// Reverses systemd's escaping of unit names (\x2d); broken sequences stay as they are.
std::string UnescapeUnit(std::string_view text);

}  // namespace brink
