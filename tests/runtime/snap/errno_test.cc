// Which branch denied it: an openat that fails, in a guest with the plugin LBR. The answer changes with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

// Captures of opening `path` as uid 1000: first of all the kernel function that said no.
std::vector<nlohmann::json> Deny(const std::string& path, const std::string& how) {
  auto result = testing_support::RunBrink({"snap", "--errno-path", "openat", "--json", "--", Self(), "--target", "open" + how + "=" + path}, {.timeout = std::chrono::seconds(240)});
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
  EXPECT_EQ(Triggers(captures)[0], "fexit:generic_permission");
  EXPECT_EQ(captures[0]["errno"], "EACCES");
  EXPECT_TRUE(RunsThrough(captures[0], "generic_permission")) << captures[0]["branches"].dump();
  EXPECT_EQ(captures.back()["syscall"], "openat");
  EXPECT_EQ(captures.back()["errno"], "EACCES");
}

TEST_F(SnapErrno, AReadOnlyMountDeniesElsewhere) {
  std::string path = dir_.path();
  if (mount("none", path.c_str(), "tmpfs", 0, nullptr) != 0) GTEST_SKIP() << "cannot mount";
  std::string file = Make(0666, 1000);
  mount("none", path.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr);
  auto captures = Deny(file, "-write");
  umount(path.c_str());
  std::vector<std::string> names = Triggers(captures);
  EXPECT_NE(names[0], "fexit:generic_permission");
  EXPECT_EQ(captures[0]["errno"], "EROFS");
}

TEST_F(SnapErrno, TheOwnerIsLetIn) {
  // The same mode: what denied before lets the owner pass, so nothing is captured.
  auto result = testing_support::RunBrink({"snap", "--errno-path", "openat", "--json", "--if", "ret == -EACCES", "--", Self(), "--target", "open=" + Make(0600, 1000)}, {.timeout = std::chrono::seconds(240)});
  EXPECT_EQ(result.out, "") << result.out.substr(0, 500);
}

}  // namespace
}  // namespace brink::snap_tests
