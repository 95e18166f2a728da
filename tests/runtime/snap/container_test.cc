// Containers made of cgroups, namespaces and the files that a runtime would leave: who is captured, and by which name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "container/hierarchy.h"
#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::HasSubstr;

const std::string kWeb = "3f8c1b0d9e7a6f5c4b3a29181706f5e4d3c2b1a0998877665544332211ffeedd";
const std::string kDb = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";

// Two groups that differ in one hierarchy only, and docker's files about them.
class SnapContainers : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.uprobe");
    hierarchy_ = ChooseHierarchy();
    base_ = hierarchy_.mount + "/brink_snap_test_" + std::to_string(getpid());
    std::error_code error;
    for (const std::string& id : {kWeb, kDb}) {
      std::filesystem::create_directories(Group(id), error);
      if (error) GTEST_SKIP() << "cannot make cgroups in " << hierarchy_.mount << ": " << error.message();
      std::string folder = root_.path() + "/var/lib/docker/containers/" + id;
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/config.v2.json") << R"({"Name":"/)" << (id == kWeb ? "web" : "db") << R"(","Config":{"Image":"demo:1"}})";
    }
  }
  void TearDown() override {
    for (const std::string& path : {Group(kWeb), Group(kDb), base_ + "/docker", base_}) rmdir(path.c_str());
  }
  std::string Group(const std::string& id) const { return base_ + "/docker/" + id; }
  // A shell that runs the target in both groups, one after the other.
  std::vector<std::string> Both() const {
    std::string script;
    for (const std::string& id : {kWeb, kDb}) script += "sh -c 'echo $$ > " + Group(id) + "/cgroup.procs; exec " + Self() + " --target works'; ";
    return {"--json", "--", "sh", "-c", script};
  }
  std::vector<nlohmann::json> Run(std::vector<std::string> args) const {
    std::vector<std::string> words = {"snap", "--on", "uprobe:" + Self() + ":snap_work", "--runtime-root", root_.path()};
    words.insert(words.end(), args.begin(), args.end());
    // They live for some milliseconds and call at once.
    if (std::any_of(args.begin(), args.end(), [](const std::string& word) { return word == "--container" || word == "--pod" || word == "--cgroup"; })) words.push_back("--probe-all");
    for (const std::string& word : Both()) words.push_back(word);
    auto result = testing_support::RunBrink(words);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<nlohmann::json> captures;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) captures.push_back(nlohmann::json::parse(line));
    return captures;
  }
  size_t Count(const std::vector<nlohmann::json>& captures, const std::string& label) const {
    return static_cast<size_t>(std::count_if(captures.begin(), captures.end(), [&](const auto& c) { return c["container"]["label"] == label; }));
  }

  testing_support::TempDir root_;
  ContainerHierarchy hierarchy_;
  std::string base_;
};

TEST_F(SnapContainers, AreNamed) {
  auto captures = Run({});
  ASSERT_EQ(captures.size(), 16u);
  EXPECT_EQ(Count(captures, "web"), 8u);
  EXPECT_EQ(Count(captures, "db"), 8u);
  EXPECT_EQ(captures[0]["container"]["id"], kWeb);
  EXPECT_EQ(captures[0]["container"]["runtime"], "docker");
  EXPECT_EQ(captures[0]["container"]["image"], "demo:1");
}

TEST_F(SnapContainers, DoctorSaysByWhatTheyAreToldApart) {
  const auto result = testing_support::RunBrink({"doctor", "--json"});
  std::vector<std::string> details;
  const auto report = nlohmann::json::parse(result.out);
  for (const auto& feature : report["features"]) if (feature["detail"].is_string()) details.push_back(feature["detail"]);
  EXPECT_THAT(details, testing::Contains(HasSubstr("containers are told apart by " + hierarchy_.Name())));
}

TEST_F(SnapContainers, OneIsFilteredByNameIdAndPath) {
  for (const std::vector<std::string>& filter : std::vector<std::vector<std::string>>{{"--container", "web"}, {"--container", kWeb.substr(0, 12)}, {"--cgroup", Group(kWeb)}}) {
    auto captures = Run(filter);
    EXPECT_EQ(captures.size(), 8u) << filter[1];
    EXPECT_EQ(Count(captures, "web"), 8u) << filter[1];
  }
}

TEST_F(SnapContainers, OneIsExcludedWithWhatIsBelowIt) {
  auto captures = Run({"--exclude-container", "web"});
  EXPECT_EQ(captures.size(), 8u);
  EXPECT_EQ(Count(captures, "db"), 8u);
  // The nearest group that a filter names decides.
  EXPECT_EQ(Count(Run({"--cgroup", base_, "--exclude-cgroup", Group(kDb)}), "web"), 8u);
}

// On hosts of cgroup v1 too, where the kernel's records name other groups.
TEST_F(SnapContainers, AFileTellsThemApart) {
  const std::string file = root_.path() + "/data";
  Run({"-o", file});
  auto report = testing_support::RunBrink({"report", "-i", file, "--sort", "container"});
  if (report.err.find("without branch stacks") != std::string::npos) GTEST_SKIP() << "report needs branches: neither branch hardware nor task work (Linux 6.18) here";
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr(kWeb.substr(0, 12)));
  EXPECT_THAT(report.out, HasSubstr(kDb.substr(0, 12)));
}

// Asked for by name before it exists: brink is armed, then the command makes it and goes on inside.
TEST_F(SnapContainers, OneThatComesLaterIsWaitedFor) {
  rmdir(Group(kWeb).c_str());
  const std::string script = "mkdir " + Group(kWeb) + "; echo $$ > " + Group(kWeb) + "/cgroup.procs; i=0; while [ $i -lt 600 ]; do /bin/true; sleep 0.05; i=$((i+1)); done";
  auto result = testing_support::RunBrink({"snap", "--on", "exec", "--container", "web", "--runtime-root", root_.path(), "--count", "1", "--json", "--", "sh", "-c", script});
  EXPECT_THAT(result.err, HasSubstr("no container 'web'"));
  EXPECT_THAT(result.err, HasSubstr("waiting for it"));
  ASSERT_FALSE(result.out.empty()) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out.substr(0, result.out.find('\n')))["container"]["label"], "web");
}

TEST_F(SnapContainers, PidsAreThoseOfBothNamespaces) {
  auto result = testing_support::RunBrink({"snap", "--on", "uprobe:" + Self() + ":snap_work", "--count", "1", "--json", "--", "unshare", "--pid", "--fork", Self(), "--target", "works"});
  if (result.out.empty()) GTEST_SKIP() << "needs unshare: " << result.err;
  auto capture = nlohmann::json::parse(result.out.substr(0, result.out.find('\n')));
  EXPECT_EQ(capture["inner_pid"], 1);
  EXPECT_GT(capture["pid"], 1);
}

// The program lies on a file system that exists in the container's mount namespace only; its user and pid namespaces are its own too.
TEST_F(SnapContainers, SymbolsComeFromTheContainersOwnRoot) {
  std::string script = "mount -t tmpfs none /mnt && cp " + Self() + " /mnt/private && /mnt/private --target linger";
  auto result = testing_support::RunBrink({"snap", "--on", "signal:USR1:all", "--json", "--", "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script});
  if (result.out.empty()) GTEST_SKIP() << "needs unshare and tmpfs: " << result.err;
  auto capture = nlohmann::json::parse(result.out.substr(0, result.out.find('\n')));
  EXPECT_FALSE(std::filesystem::exists("/mnt/private"));
  EXPECT_LT(capture["inner_pid"], 10);
  EXPECT_GT(capture["pid"], capture["inner_pid"]);
  EXPECT_THAT(ChainOf(capture, "user_chain"), testing::Contains("main")) << capture.dump();
}

// A path is one of the container's root, where the host has another file or none; so is where a link leads to.
TEST_F(SnapContainers, ItsOwnProgramIsProbedByItsPathInside) {
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string script = "echo $$ > " + Group(kWeb) + "/cgroup.procs; exec unshare --mount sh -c 'mount -t tmpfs none /mnt && cp " + Self() + " /mnt/private && ln -s /mnt/private /mnt/linked && exec /mnt/private --target works-on'";
    execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    _exit(127);
  }
  const std::string exe = "/proc/" + std::to_string(pid) + "/exe";
  std::error_code error;
  for (int i = 0; i < 500 && std::filesystem::read_symlink(exe, error) != "/mnt/private"; ++i) usleep(10'000);
  const bool runs = std::filesystem::read_symlink(exe, error) == "/mnt/private";
  testing_support::ProcessResult result;
  if (runs) result = testing_support::RunBrink({"snap", "--on", "uprobe:/mnt/linked:snap_work", "--container", "web", "--runtime-root", root_.path(), "--count", "1", "--json"});
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  if (!runs) GTEST_SKIP() << "needs unshare and tmpfs";
  EXPECT_FALSE(std::filesystem::exists("/mnt/private"));
  EXPECT_THAT(result.err, HasSubstr("/mnt/private in its root"));
  ASSERT_FALSE(result.out.empty()) << result.err;
  const auto capture = nlohmann::json::parse(result.out.substr(0, result.out.find('\n')));
  EXPECT_EQ(capture["container"]["label"], "web");
  EXPECT_EQ(capture["pid"], pid);
  EXPECT_EQ(capture["place"]["symbol"], "snap_work");
}

}  // namespace
}  // namespace brink::snap_tests
