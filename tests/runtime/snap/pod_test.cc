// Pods as a kubelet lays them out: groups of the pod and of each container below it, and the bundles that containerd writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "container/hierarchy.h"
#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string Id(char digit) { return std::string(64, digit); }

struct Container {
  const char* pod;
  const char* name;
  std::string id;
};

const std::string kCartUid = "0a1b2c3d-1111-2222-3333-444455556666", kWebUid = "0a1b2c3d-7777-8888-9999-aaaabbbbcccc";
// Docker inside of a container of the pod.
const std::string kInner = Id('d');

class SnapPods : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.uprobe");
    const ContainerHierarchy hierarchy = ChooseHierarchy();
    base_ = hierarchy.mount + "/brink_pods_" + std::to_string(getpid());
    for (const auto& [pod, name, id] : containers_) {
      Make(GroupOf(id));
      const std::string folder = root_.path() + "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id;
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/config.json") << R"({"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":")" << name
                                             << R"(","io.kubernetes.cri.image-name":"demo:1","io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-name":")" << pod << R"("}})";
    }
    Make(GroupOf(Id('a')) + "/docker/" + kInner);
    const std::string docker = root_.path() + "/var/lib/docker/containers/" + kInner;
    std::filesystem::create_directories(docker);
    std::ofstream(docker + "/config.v2.json") << R"({"Name":"/inner","Config":{"Image":"demo:2"}})";
  }
  void TearDown() override {
    std::reverse(made_.begin(), made_.end());
    for (const std::string& path : made_) rmdir(path.c_str());
  }

  std::string GroupOf(const std::string& id) const { return base_ + "/kubepods/burstable/pod" + (id == Id('c') ? kWebUid : kCartUid) + "/" + id; }

  // Each of the groups above it too.
  void Make(const std::string& path) {
    for (size_t slash = path.find('/', base_.size() - 1); ; slash = path.find('/', slash + 1)) {
      const std::string above = path.substr(0, slash);
      if (above.size() >= base_.size() && mkdir(above.c_str(), 0755) == 0) made_.push_back(above);
      if (slash == path.npos) return;
    }
  }

  // How many captures each label has when the target runs once in every container: eight calls each.
  std::map<std::string, size_t> Run(const std::vector<std::string>& filter, std::vector<nlohmann::json>* captures = nullptr) const {
    std::string script;
    for (const std::string& group : {GroupOf(Id('a')), GroupOf(Id('b')), GroupOf(Id('c')), GroupOf(Id('a')) + "/docker/" + kInner}) {
      script += "sh -c 'echo $$ > " + group + "/cgroup.procs; exec unshare --mount --pid --fork " + Self() + " --target works'; ";
    }
    std::vector<std::string> words = {"snap", "--on", "uprobe:" + Self() + ":snap_work", "--json", "--runtime-root", root_.path()};
    words.insert(words.end(), filter.begin(), filter.end());
    // They live for some milliseconds and call at once.
    if (std::any_of(filter.begin(), filter.end(), [](const std::string& word) { return word == "--container" || word == "--pod" || word == "--cgroup"; })) words.push_back("--probe-all");
    for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), script}) words.push_back(word);
    const auto result = testing_support::RunBrink(words);
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, size_t> counts;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto capture = nlohmann::json::parse(line);
      ++counts[capture["container"]["label"].is_string() ? capture["container"]["label"].get<std::string>() : "?"];
      if (captures) captures->push_back(capture);
    }
    return counts;
  }

  testing_support::TempDir root_;
  const std::vector<Container> containers_ = {{"cart", "app", Id('a')}, {"cart", "sidecar", Id('b')}, {"web", "nginx", Id('c')}};
  std::string base_;
  std::vector<std::string> made_;
};

TEST_F(SnapPods, AreNamedWithNamespacePodContainerAndImageAndBothPids) {
  std::vector<nlohmann::json> captures;
  EXPECT_THAT(Run({}, &captures), ElementsAre(Pair("inner", 8u), Pair("shop/cart/app", 8u), Pair("shop/cart/sidecar", 8u), Pair("shop/web/nginx", 8u)));
  const auto& first = captures.at(0);
  EXPECT_EQ(first["container"]["pod"], "shop/cart");
  EXPECT_EQ(first["container"]["name"], "app");
  EXPECT_EQ(first["container"]["image"], "demo:1");
  EXPECT_EQ(first["container"]["runtime"], "containerd");
  EXPECT_EQ(first["container"]["id"], Id('a'));
  EXPECT_EQ(first["inner_pid"], 1);
  EXPECT_GT(first["pid"], 1);
}

// With what runs in containers of its containers.
TEST_F(SnapPods, OneIsChosenByItsName) {
  EXPECT_THAT(Run({"--pod", "shop/cart"}), ElementsAre(Pair("inner", 8u), Pair("shop/cart/app", 8u), Pair("shop/cart/sidecar", 8u)));
  EXPECT_THAT(Run({"--pod", "web"}), ElementsAre(Pair("shop/web/nginx", 8u)));
}

TEST_F(SnapPods, AContainerOfOneIsChosen) {
  EXPECT_THAT(Run({"--container", "shop/cart/sidecar"}), ElementsAre(Pair("shop/cart/sidecar", 8u)));
  EXPECT_THAT(Run({"--container", "inner"}), ElementsAre(Pair("inner", 8u)));
}

TEST_F(SnapPods, TheNearestGroupThatAFilterNamesDecides) {
  EXPECT_THAT(Run({"--exclude-pod", "shop/cart"}), ElementsAre(Pair("shop/web/nginx", 8u)));
  EXPECT_THAT(Run({"--pod", "shop/cart", "--exclude-container", "shop/cart/app"}), ElementsAre(Pair("shop/cart/sidecar", 8u)));
  EXPECT_THAT(Run({"--pod", "shop/cart", "--exclude-container", "inner"}), ElementsAre(Pair("shop/cart/app", 8u), Pair("shop/cart/sidecar", 8u)));
}

TEST_F(SnapPods, AWrongNameIsAnsweredWithTheNearest) {
  const auto result = testing_support::RunBrink({"snap", "--on", "exec", "--pod", "shop/carts", "--runtime-root", root_.path(), "--", "true"});
  EXPECT_THAT(result.err, testing::HasSubstr("no pod 'shop/carts'"));
  EXPECT_THAT(result.err, testing::HasSubstr("nearest: shop/cart"));
}

}  // namespace
}  // namespace brink::snap_tests
