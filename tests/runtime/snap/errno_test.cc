// Which branch denied it: an openat that fails, in a guest with the plugin LBR. The answer changes with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

// Captures of opening `path` as uid 1000: first of all the kernel function that said no. The loader looks for libraries
// before, where none are: its ENOENT is not meant.
std::vector<nlohmann::json> Deny(const std::string& path, const std::string& how) {
  auto result = testing_support::RunBrink({"snap", "--errno-path", "openat", "--if", "ret == -EACCES", "--json", "--", Self(), "--target", "open" + how + "=" + path}, {.timeout = std::chrono::seconds(240)});
  std::vector<nlohmann::json> captures;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) captures.push_back(nlohmann::json::parse(line));
  EXPECT_FALSE(captures.empty()) << result.err;
  return captures;
}

std::vector<std::string> Triggers(const std::vector<nlohmann::json>& captures) {
  std::vector<std::string> names;
  for (const auto& capture : captures) names.push_back(capture["trigger"]);
  return names;
}

// The function in which the newest branch begins that is in one of the functions that decide.
bool RunsThrough(const nlohmann::json& capture, const std::string& function) {
  for (const auto& branch : capture["branches"]) {
    if (branch["from"]["symbol"] == function || branch["to"]["symbol"] == function) return true;
  }
  return false;
}

// The conditional branches that the deciding function took: from and to, within it.
std::set<std::pair<int, int>> Decisions(const nlohmann::json& capture, const std::string& function) {
  std::set<std::pair<int, int>> taken;
  for (const auto& branch : capture["branches"]) {
    if (branch["kind"] == "cond" && branch["from"]["symbol"] == function && branch["to"]["symbol"] == function) taken.emplace(branch["from"]["offset"], branch["to"]["offset"]);
  }
  return taken;
}

class SnapErrno : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.fexit");
    SKIP_UNLESS("branch.snapshot");
    chmod(dir_.path().c_str(), 0755);
  }
  std::string Make(mode_t mode, uid_t owner) {
    std::string path = dir_.File("file");
    close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(chown(path.c_str(), owner, owner), 0);
    chmod(path.c_str(), mode);
    return path;
  }
  testing_support::TempDir dir_;
};

TEST_F(SnapErrno, ModeBitsDeny) {
  auto captures = Deny(Make(0600, 0), "");
  ASSERT_GE(captures.size(), 2u);
  EXPECT_EQ(Triggers(captures)[0], "fexit:generic_permission");
  EXPECT_EQ(captures[0]["errno"], "EACCES");
  EXPECT_TRUE(RunsThrough(captures[0], "generic_permission")) << captures[0]["branches"].dump();
  EXPECT_EQ(captures.back()["syscall"], "openat");
  EXPECT_EQ(captures.back()["errno"], "EACCES");
}

// The same file, the same mode, its owner: what denied before lets him pass, and nothing is captured.
TEST_F(SnapErrno, TheOwnerIsLetIn) {
  auto result = testing_support::RunBrink({"snap", "--errno-path", "openat", "--json", "--if", "ret == -EACCES", "--", Self(), "--target", "open=" + Make(0600, 1000)}, {.timeout = std::chrono::seconds(240)});
  EXPECT_EQ(result.out, "") << result.out.substr(0, 500);
}

// Everybody may read and write this file but its owner: that he owns it is what denies, by another branch of the same
// function. To another user's it opens.
TEST_F(SnapErrno, TheOwnerIsWhatDenies) {
  const auto mode = Deny(Make(0600, 0), "");
  const auto owner = Deny(Make(0066, 1000), "");
  ASSERT_GE(mode.size(), 2u);
  ASSERT_GE(owner.size(), 2u);
  EXPECT_EQ(Triggers(owner)[0], "fexit:generic_permission");
  const auto by_mode = Decisions(mode[0], "generic_permission"), by_owner = Decisions(owner[0], "generic_permission");
  EXPECT_FALSE(by_owner.empty()) << owner[0]["branches"].dump();
  EXPECT_NE(by_mode, by_owner) << "the same branches, another reason";
  auto opened = testing_support::RunBrink({"snap", "--errno-path", "openat", "--json", "--if", "ret == -EACCES", "--", Self(), "--target", "open=" + Make(0066, 1001)}, {.timeout = std::chrono::seconds(240)});
  EXPECT_EQ(opened.out, "") << opened.out.substr(0, 500);
}

// Everybody may read and write this device, and the mount says that there are none: another function, the same error.
TEST_F(SnapErrno, AMountFlagDeniesElsewhere) {
  const std::string path = dir_.path();
  if (mount("none", path.c_str(), "tmpfs", MS_NODEV, "mode=755") != 0) GTEST_SKIP() << "cannot mount";
  const std::string device = path + "/null";
  ASSERT_EQ(mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
  chmod(device.c_str(), 0666);
  auto captures = Deny(device, "");
  umount(path.c_str());
  ASSERT_GE(captures.size(), 2u);
  EXPECT_EQ(Triggers(captures)[0], "fexit:may_open");
  EXPECT_EQ(captures[0]["errno"], "EACCES");
  EXPECT_TRUE(RunsThrough(captures[0], "may_open")) << captures[0]["branches"].dump();
}

// One command, inside a container (its own mount, pid and user namespaces and cgroup), as the documentation shows it.
TEST_F(SnapErrno, OnePictureTellsWhichBranchSaidNo) {
  const std::string file = Make(0600, 0);
  auto result = testing_support::RunBrink({"snap", "--errno-path", "openat", "--", "unshare", "--mount", "--pid", "--fork", Self(), "--target", "open=" + file}, {.timeout = std::chrono::seconds(240)});
  EXPECT_THAT(result.out, testing::HasSubstr("openat(")) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("= -EACCES (-13)"));
  EXPECT_THAT(result.out, testing::HasSubstr("inode_permission = -EACCES (-13)"));
  EXPECT_THAT(result.out, testing::HasSubstr("generic_permission = -EACCES (-13)   <- said no first"));
  EXPECT_THAT(result.out, testing::ContainsRegex("#[0-9]+ +generic_permission\\+0x[0-9a-f]+ cond"));
  EXPECT_THAT(result.out, testing::HasSubstr("(inside: pid 1"));
  std::printf("%s\n", result.out.c_str());
}

}  // namespace
}  // namespace brink::snap_tests
