#include "container/cgroup_path.h"

#include <gtest/gtest.h>

namespace brink {
namespace {

const std::string kId = "3f8c1b0d9e7a6f5c4b3a29181706f5e4d3c2b1a0998877665544332211ffeedd";
const std::string kInner = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";
const std::string kPod = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
const std::string kPodUnder = "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9";
const std::string kStatic = "0123456789abcdef0123456789abcdef";

struct Shape {
  std::string path;
  Runtime runtime;
  std::string id;
  std::string pod;
  std::string qos;
  std::string unit;
  int depth;
  bool infra = false;
};

const std::vector<Shape> kShapes = {
    // none and plain systemd
    {"/", Runtime::kNone, "", "", "", "", 0},
    {"/init.scope", Runtime::kSystemd, "", "", "", "init.scope", 0},
    {"/system.slice/ssh.service", Runtime::kSystemd, "", "", "", "ssh.service", 0},
    {"/system.slice/system-getty.slice/getty@tty1.service", Runtime::kSystemd, "", "", "", "getty@tty1.service", 0},
    {"/system.slice/dev-disk-by\\x2duuid.service", Runtime::kSystemd, "", "", "", "dev-disk-by-uuid.service", 0},
    {"/user.slice/user-1000.slice/session-3.scope", Runtime::kSystemd, "", "", "", "session-3.scope", 0},
    {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope", Runtime::kSystemd, "", "", "", "app-x.scope", 0},
    {"/custom/group", Runtime::kNone, "", "", "", "", 0},
    // docker
    {"/docker/" + kId, Runtime::kDocker, kId, "", "", "", 1},
    {"/system.slice/docker-" + kId + ".scope", Runtime::kDocker, kId, "", "", "", 1},
    {"/system.slice/docker-" + kId + ".scope/init", Runtime::kDocker, kId, "", "", "", 1},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope", Runtime::kDocker, kId, "", "", "", 1},
    {"/actions_job/" + kId, Runtime::kDocker, kId, "", "", "", 1},
    {"/docker/buildkit/" + kId, Runtime::kBuildkit, kId, "", "", "", 1},
    // containerd without Kubernetes
    {"/default/" + kId, Runtime::kContainerd, kId, "", "", "", 1},
    {"/system.slice/nerdctl-" + kId + ".scope", Runtime::kContainerd, kId, "", "", "", 1},
    // podman
    {"/machine.slice/libpod-" + kId + ".scope", Runtime::kPodman, kId, "", "", "", 1},
    {"/machine.slice/libpod-" + kId + ".scope/container", Runtime::kPodman, kId, "", "", "", 1},
    {"/machine.slice/libpod-conmon-" + kId + ".scope", Runtime::kPodman, kId, "", "", "", 1, true},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope", Runtime::kPodman, kId, "", "", "", 1},
    {"/libpod_parent/libpod-" + kId, Runtime::kPodman, kId, "", "", "", 1},
    {"/libpod_parent/" + kId, Runtime::kPodman, kId, "", "", "", 1},
    // Kubernetes, cgroupfs driver
    {"/kubepods/burstable/pod" + kPod + "/" + kId, Runtime::kUnknown, kId, kPod, "burstable", "", 1},
    {"/kubepods/besteffort/pod" + kPod + "/" + kId, Runtime::kUnknown, kId, kPod, "besteffort", "", 1},
    {"/kubepods/pod" + kPod + "/" + kId, Runtime::kUnknown, kId, kPod, "guaranteed", "", 1},
    {"/kubepods/burstable/pod" + kPod, Runtime::kNone, "", kPod, "burstable", "", 0},
    {"/kubepods/burstable/pod" + kStatic + "/" + kId, Runtime::kUnknown, kId, kStatic, "burstable", "", 1},
    {"/kubepods/burstable/pod" + kPod + "/crio-" + kId, Runtime::kCrio, kId, kPod, "burstable", "", 1},
    // Kubernetes, systemd driver
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kPodUnder + ".slice/cri-containerd-" + kId + ".scope",
     Runtime::kContainerd, kId, kPod, "burstable", "", 1},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + kPodUnder + ".slice/crio-" + kId + ".scope",
     Runtime::kCrio, kId, kPod, "besteffort", "", 1},
    {"/kubepods.slice/kubepods-pod" + kPodUnder + ".slice/docker-" + kId + ".scope", Runtime::kDocker, kId, kPod, "guaranteed", "", 1},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + kPodUnder + ".slice/crio-conmon-" + kId + ".scope",
     Runtime::kCrio, kId, kPod, "besteffort", "", 1, true},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kStatic + ".slice/cri-containerd-" + kId + ".scope",
     Runtime::kContainerd, kId, kStatic, "burstable", "", 1},
    {"/system.slice/containerd.service/kubepods-burstable-pod" + kPodUnder + ".slice:cri-containerd:" + kId, Runtime::kContainerd, kId, kPod, "", "", 1},
    // nests: kind (docker around containerd), k3s in docker, docker in docker
    {"/docker/" + kId + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + kPodUnder +
         ".slice/cri-containerd-" + kInner + ".scope",
     Runtime::kContainerd, kInner, kPod, "burstable", "", 2},
    {"/system.slice/docker-" + kId + ".scope/kubepods/besteffort/pod" + kPod + "/" + kInner, Runtime::kUnknown, kInner, kPod, "besteffort", "", 2},
    {"/docker/" + kId + "/docker/" + kInner, Runtime::kDocker, kInner, "", "", "", 2},
    {"/kubepods/burstable/pod" + kPod + "/" + kId + "/docker/" + kInner, Runtime::kDocker, kInner, "", "", "", 2},
    // LXC and systemd-nspawn
    {"/lxc/web", Runtime::kLxc, "web", "", "", "", 1},
    {"/lxc.payload.db-1/system.slice/ssh.service", Runtime::kLxc, "db-1", "", "", "ssh.service", 1},
    {"/lxc.monitor.db-1", Runtime::kLxc, "db-1", "", "", "", 1, true},
    {"/machine.slice/machine-debian\\x2d12.scope/payload", Runtime::kNspawn, "debian-12", "", "", "", 1},
    {"/machine.slice/systemd-nspawn@build.service", Runtime::kNspawn, "build", "", "", "", 1},
    // not what they look like
    {"/docker/" + kId.substr(1), Runtime::kNone, "", "", "", "", 0},
    {"/kubepods/podnot-a-uid/x", Runtime::kNone, "", "", "guaranteed", "", 0},
    {"/system.slice/docker-" + kId + ".service", Runtime::kSystemd, "", "", "", "docker-" + kId + ".service", 0},
};

TEST(IdentifyCgroup, KnowsTheShapesOfEveryRuntime) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.path);
    CgroupIdentity identity = IdentifyCgroup(shape.path);
    EXPECT_EQ(RuntimeName(identity.runtime), RuntimeName(shape.runtime));
    EXPECT_EQ(identity.container_id, shape.id);
    EXPECT_EQ(identity.pod_uid, shape.pod);
    EXPECT_EQ(identity.qos, shape.qos);
    EXPECT_EQ(identity.unit, shape.unit);
    EXPECT_EQ(identity.depth, shape.depth);
    EXPECT_EQ(identity.infra, shape.infra);
  }
}

TEST(IdentifyCgroup, IsBoundedOnHostilePaths) {
  std::string path;
  for (int i = 0; i < 100000; ++i) path += "/docker/" + kId;
  EXPECT_LE(IdentifyCgroup(path).depth, 100);
  EXPECT_EQ(IdentifyCgroup(std::string(1 << 20, '/')).depth, 0);
}

TEST(UnescapeUnit, KeepsBrokenSequences) {
  EXPECT_EQ(UnescapeUnit("a\\x2db"), "a-b");
  EXPECT_EQ(UnescapeUnit("a\\x2"), "a\\x2");
  EXPECT_EQ(UnescapeUnit("\\xzz"), "\\xzz");
}

}  // namespace
}  // namespace brink
