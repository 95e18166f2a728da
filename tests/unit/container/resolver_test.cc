#include "container/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/process.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;

const std::string kId = "3f8c1b0d9e7a6f5c4b3a29181706f5e4d3c2b1a0998877665544332211ffeedd";
const std::string kInner = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";
const std::string kUid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
const std::string kPodPath = "/kubepods/burstable/pod" + kUid + "/" + kId;

// A host's file tree below a temporary root, filled file by file.
class Root {
 public:
  Root& File(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_.path() + path).parent_path());
    std::ofstream(dir_.path() + path) << text;
    return *this;
  }
  Root& Folder(const std::string& path) {
    std::filesystem::create_directories(dir_.path() + path);
    return *this;
  }
  const std::string& path() const { return dir_.path(); }
  ContainerResolver Resolver(ContainerHierarchy hierarchy = {}) const {
    return ContainerResolver({.runtime_root = dir_.path(), .hierarchy = hierarchy});
  }

 private:
  testing_support::TempDir dir_;
};

TEST(ContainerResolver, ContainerdPodIsNamedFromItsBundlesAnnotations) {
  Root root;
  root.File("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + kId + "/config.json",
            R"({"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri.container-name":"nginx","io.kubernetes.cri.container-type":"container",
            "io.kubernetes.cri.image-name":"docker.io/library/nginx:1.27","io.kubernetes.cri.sandbox-name":"web-7d9f",
            "io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-uid":")" + kUid + R"("}})");
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath(kPodPath);
  EXPECT_EQ(info.Label(), "shop/web-7d9f/nginx");
  EXPECT_EQ(info.Pod(), "shop/web-7d9f");
  EXPECT_EQ(info.store.image, "docker.io/library/nginx:1.27");
  EXPECT_EQ(info.store.runtime, Runtime::kContainerd);
  EXPECT_EQ(info.store.source, NameSource::kOciBundle);
  EXPECT_EQ(info.store.pod_uid, kUid);
  EXPECT_EQ(info.miss, "");
}

TEST(ContainerResolver, K3sKeepsItsBundlesElsewhere) {
  Root root;
  root.File("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/" + kId + "/config.json",
            R"({"annotations":{"io.kubernetes.cri.container-name":"coredns","io.kubernetes.cri.sandbox-name":"coredns-1","io.kubernetes.cri.sandbox-namespace":"kube-system","io.kubernetes.cri.container-type":"container"}})");
  EXPECT_EQ(root.Resolver().ByPath(kPodPath).Label(), "kube-system/coredns-1/coredns");
}

TEST(ContainerResolver, SandboxOfAPodIsNotItsWorkload) {
  Root root;
  root.File("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + kId + "/config.json",
            R"({"annotations":{"io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.sandbox-namespace":"shop"}})");
  ContainerResolver resolver = root.Resolver();
  EXPECT_TRUE(resolver.ByPath(kPodPath).store.infra);
  EXPECT_EQ(resolver.ByPath(kPodPath).Label(), "shop/web/sandbox");
}

TEST(ContainerResolver, NerdctlNamesAreAnnotations) {
  Root root;
  root.File("/run/containerd/io.containerd.runtime.v2.task/default/" + kId + "/config.json",
            R"({"annotations":{"nerdctl/name":"cache","nerdctl/image-name":"redis:7"}})");
  ContainerResolver resolver = root.Resolver();
  EXPECT_EQ(resolver.ByPath("/system.slice/nerdctl-" + kId + ".scope").Label(), "cache");
}

TEST(ContainerResolver, CrioPod) {
  Root root;
  root.File("/run/containers/storage/overlay-containers/" + kId + "/userdata/config.json",
            R"({"annotations":{"io.kubernetes.container.name":"api","io.kubernetes.pod.name":"api-0","io.kubernetes.pod.namespace":"prod",
            "io.kubernetes.pod.uid":")" + kUid + R"(","io.kubernetes.cri-o.ImageName":"quay.io/x/api:3","io.kubernetes.cri-o.ContainerType":"container"}})");
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9.slice/crio-" + kId + ".scope");
  EXPECT_EQ(info.Label(), "prod/api-0/api");
  EXPECT_EQ(info.store.runtime, Runtime::kCrio);
}

TEST(ContainerResolver, DockerContainer) {
  Root root;
  root.File("/var/lib/docker/containers/" + kId + "/config.v2.json", R"({"ID":"x","Name":"/web","Config":{"Image":"nginx:1","Labels":{"a":"b"}}})");
  // Its containerd bundle is there too and knows no name.
  root.File("/run/containerd/io.containerd.runtime.v2.task/moby/" + kId + "/config.json", R"({"annotations":{}})");
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath("/system.slice/docker-" + kId + ".scope");
  EXPECT_EQ(info.Label(), "web");
  EXPECT_EQ(info.store.image, "nginx:1");
  EXPECT_EQ(info.store.source, NameSource::kDockerConfig);
  EXPECT_EQ(info.Pod(), "");
}

TEST(ContainerResolver, DockershimPod) {
  Root root;
  root.File("/var/lib/docker/containers/" + kId + "/config.v2.json",
            R"({"Name":"/k8s_app_web-1_shop_x_0","Config":{"Image":"i","Labels":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web-1","io.kubernetes.pod.namespace":"shop"}}})");
  EXPECT_EQ(root.Resolver().ByPath(kPodPath).Label(), "shop/web-1/app");
}

TEST(ContainerResolver, PodmanFromTheStorageIndex) {
  Root root;
  root.File("/var/lib/containers/storage/overlay-containers/containers.json",
            R"([{"id":"0000","names":["other"]},{"id":")" + kId + R"(","names":["db"],"metadata":"{\"image-name\":\"docker.io/library/postgres:16\",\"name\":\"db\"}"}])");
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath("/machine.slice/libpod-" + kId + ".scope/container");
  EXPECT_EQ(info.Label(), "db");
  EXPECT_EQ(info.store.image, "docker.io/library/postgres:16");
  EXPECT_EQ(info.store.runtime, Runtime::kPodman);
}

TEST(ContainerResolver, KubeletLogNamesServeWhenTheRuntimeLeftNothing) {
  Root root;
  root.File("/var/log/containers/web-1_shop_nginx-" + kId + ".log", "");
  EXPECT_EQ(root.Resolver().ByPath(kPodPath).Label(), "shop/web-1/nginx");
}

TEST(ContainerResolver, PodAloneFromPodLogs) {
  Root root;
  root.Folder("/var/log/pods/shop_web-1_" + kUid + "/nginx");
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath(kPodPath);
  EXPECT_EQ(info.Label(), "shop/web-1/" + kId.substr(0, 12));
  EXPECT_THAT(info.miss, HasSubstr("only its pod"));
  EXPECT_EQ(resolver.ByPath("/kubepods/burstable/pod" + kUid).Label(), "shop/web-1");
}

TEST(ContainerResolver, MissShowsTwelveDigitsAndTheReason) {
  Root root;
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath("/docker/" + kId);
  EXPECT_EQ(info.Label(), "3f8c1b0d9e7a");
  EXPECT_EQ(info.miss, "no runtime's files know 3f8c1b0d9e7a");
}

TEST(ContainerResolver, BrokenFilesAreAMissNotAnError) {
  Root root;
  root.File("/var/lib/docker/containers/" + kId + "/config.v2.json", "{\"Name\": 7, ");
  root.File("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + kId + "/config.json", R"(["annotations"])");
  root.File("/var/lib/containers/storage/overlay-containers/containers.json", R"([1, {"id": 3}, null])");
  EXPECT_EQ(root.Resolver().ByPath("/docker/" + kId).Label(), "3f8c1b0d9e7a");
}

TEST(ContainerResolver, RootWithWildcardsIsTakenLiterally) {
  Root root;
  root.File("/a[b]*/var/lib/docker/containers/" + kId + "/config.v2.json", R"({"Name":"/web"})");
  ContainerResolver resolver({.runtime_root = root.path() + "/a[b]*/", .hierarchy = {}});
  EXPECT_EQ(resolver.ByPath("/docker/" + kId).Label(), "web");
}

TEST(ContainerResolver, LxcAndNspawnAndUnitsCarryTheirNameInThePath) {
  ContainerResolver resolver = Root().Resolver();
  EXPECT_EQ(resolver.ByPath("/lxc.payload.box/system.slice/ssh.service").Label(), "box");
  EXPECT_EQ(resolver.ByPath("/machine.slice/machine-deb\\x2d1.scope").Label(), "deb-1");
  EXPECT_EQ(resolver.ByPath("/system.slice/ssh.service").Label(), "ssh.service");
  EXPECT_EQ(resolver.ByPath("/").Label(), "");
}

TEST(ContainerResolver, NestedContainersNameTheOnesAround) {
  ContainerResolver resolver = Root().Resolver();
  const ContainerInfo& info = resolver.ByPath("/docker/" + kId + "/kubepods/burstable/pod" + kUid + "/" + kInner);
  EXPECT_EQ(info.identity.container_id, kInner);
  EXPECT_THAT(info.outer, testing::ElementsAre(kId));
}

TEST(ContainerResolver, WordsThatMeanAContainer) {
  Root root;
  root.File("/var/lib/docker/containers/" + kId + "/config.v2.json", R"({"Name":"/web"})");
  ContainerResolver resolver = root.Resolver();
  const ContainerInfo& info = resolver.ByPath("/docker/" + kId);
  EXPECT_TRUE(info.Answers("web"));
  EXPECT_TRUE(info.Answers(kId));
  EXPECT_TRUE(info.Answers("3f8c1b0d9e7a"));
  EXPECT_TRUE(info.Answers("3f8c"));
  EXPECT_FALSE(info.Answers("3f8"));  // too short to mean one
  EXPECT_FALSE(info.Answers("we"));
  EXPECT_FALSE(info.Answers(""));
}

TEST(ContainerResolver, AnswersAreKeptWhenTheFilesAreGone) {
  Root root;
  root.File("/var/lib/docker/containers/" + kId + "/config.v2.json", R"({"Name":"/web"})");
  ContainerResolver resolver = root.Resolver();
  ASSERT_EQ(resolver.ByPath("/docker/" + kId).Label(), "web");
  std::filesystem::remove_all(root.path() + "/var");
  EXPECT_EQ(resolver.ByPath("/docker/" + kId).Label(), "web");
}

TEST(ContainerResolver, LearntNamesSurviveTheirCgroup) {
  Root root;
  ContainerResolver resolver = root.Resolver({.controller = "", .mount = root.path()});
  resolver.Learn(123456789, "/docker/" + kId);
  EXPECT_EQ(resolver.ById(123456789).Label(), "3f8c1b0d9e7a");
  EXPECT_EQ(resolver.ById(987654321).miss, "cgroup gone before it was seen");
}

TEST(ContainerResolver, MemoryIsBounded) {
  ContainerResolver resolver = Root().Resolver();
  for (size_t i = 0; i < ContainerResolver::kMaxCached + 10; ++i) resolver.Learn(i + 1, "/x");
  EXPECT_EQ(resolver.evicted(), 10u);
}

TEST(ContainerResolver, FindWalksTheTreeAndNamesTheNearest) {
  Root root;
  root.File("/var/lib/docker/containers/" + kId + "/config.v2.json", R"({"Name":"/frontend"})");
  root.Folder("/cg/docker/" + kId + "/inner").Folder("/cg/system.slice/ssh.service");
  ContainerResolver resolver = root.Resolver({.controller = "memory", .mount = root.path() + "/cg"});
  auto found = resolver.Find("frontend", /*pod=*/false);
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->size(), 2u);  // the group and the one below
  EXPECT_EQ((*found)[0].path, "/docker/" + kId);
  struct stat info;
  ASSERT_EQ(stat((root.path() + "/cg/docker/" + kId).c_str(), &info), 0);
  EXPECT_EQ((*found)[0].id, info.st_ino);
  auto missing = resolver.Find("frontent", false);
  EXPECT_THAT(Message(missing.status()), HasSubstr("nearest: frontend"));
}

TEST(ContainerHierarchy, V2WinsWhereItTellsProcessesApart) {
  CgroupHierarchies mounted = CgroupHierarchies::Parse("1 0 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n");
  ContainerHierarchy chosen = ChooseHierarchy(mounted, {"0::/a\n", "0::/b\n"});
  EXPECT_TRUE(chosen.v2());
  EXPECT_EQ(chosen.groups, 2u);
  EXPECT_EQ(chosen.mount, "/sys/fs/cgroup");
}

TEST(ContainerHierarchy, HybridHostTakesTheControllerInWhichProcessesDiffer) {
  CgroupHierarchies mounted = CgroupHierarchies::Parse(
      "1 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:3 / /cg/pids rw - cgroup cgroup rw,pids\n3 0 0:4 / /cg/unified rw - cgroup2 cgroup2 rw\n",
      "2:pids:/\n1:memory:/\n0::/\n");
  ContainerHierarchy chosen = ChooseHierarchy(mounted, {"2:pids:/\n1:memory:/a\n0::/\n", "2:pids:/\n1:memory:/b\n0::/\n"});
  EXPECT_EQ(chosen.controller, "memory");
  EXPECT_EQ(chosen.mount, "/cg/memory");
  EXPECT_EQ(PathInHierarchy("2:pids:/\n1:memory:/a:b\n0::/\n", chosen), "/a:b");
}

TEST(ContainerHierarchy, NamedHierarchiesAreNotReadableInBpf) {
  CgroupHierarchies mounted = CgroupHierarchies::Parse("1 0 0:2 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n3 0 0:4 / /cg/unified rw - cgroup2 cgroup2 rw\n",
                                                       "1:name=systemd:/\n0::/\n");
  EXPECT_TRUE(ChooseHierarchy(mounted, {"1:name=systemd:/a\n0::/\n", "1:name=systemd:/b\n0::/\n"}).v2());
}

TEST(ContainerHierarchy, RealGroupsOfThisHost) {
  ContainerHierarchy chosen = ChooseHierarchy();
  if (chosen.mount.empty()) GTEST_SKIP() << "no cgroup hierarchy is mounted";
  auto id = CgroupIdOf(chosen, "/");
  ASSERT_THAT(id, IsOk());
  auto path = CgroupPathOf(chosen, *id);
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(*path, "/");
}

}  // namespace
}  // namespace brink
