#include "base/output_file.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/regular_file.h"
#include "support/process.h"

namespace brink {
namespace {

constexpr uid_t kStranger = 65534;
constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;

class Outputs : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "giving files away takes root";
    unsetenv("SUDO_UID");
    ASSERT_EQ(mkdir(At("real").c_str(), 0755), 0);
    ASSERT_EQ(mkdir(At("open").c_str(), 0777), 0);
    ASSERT_EQ(chmod(At("open").c_str(), 01777), 0);
  }
  std::string At(const std::string& name) const { return dir_.File(name); }
  void Link(const std::string& target, const std::string& name, uid_t owner) {
    ASSERT_EQ(symlink(target.c_str(), At(name).c_str()), 0);
    ASSERT_EQ(lchown(At(name).c_str(), owner, owner), 0);
  }
  void Make(const std::string& name, uid_t owner) {
    ASSERT_TRUE(ReplaceFile(At(name), "old", 0666).ok());
    ASSERT_EQ(chown(At(name).c_str(), owner, owner), 0);
  }
  // The errno of opening it for writing, 0 where that works.
  int Open(const std::string& name) {
    auto fd = OpenFile(At(name), kFlags);
    return fd.ok() ? 0 : ErrnoOf(fd.status());
  }
  testing_support::TempDir dir_;
};

TEST_F(Outputs, LinksOfStrangersAreFollowedNowhereInThePath) {
  Link("real", "mine", 0);
  Link("real", "theirs", kStranger);
  Link(At("real"), "whole", kStranger);
  Link("theirs", "twice", 0);
  EXPECT_EQ(Open("real/x"), 0);
  EXPECT_EQ(Open("mine/x"), 0);
  EXPECT_EQ(Open("mine/../mine//x"), 0);
  for (const char* name : {"theirs/x", "whole/x", "twice/x", "theirs/../y", "mine/../theirs/x"}) EXPECT_EQ(Open(name), EACCES) << name;
  EXPECT_EQ(access(At("y").c_str(), F_OK), -1);
  // What lies behind such a link is not touched either.
  Make("real/x.part", 0);
  EXPECT_FALSE(ReplaceFile(At("theirs/x"), "new").ok());
  EXPECT_EQ(*ReadFile(At("real/x.part")), "old");
  // Who calls sudo may as well have the file made.
  setenv("SUDO_UID", std::to_string(kStranger).c_str(), 1);
  EXPECT_EQ(Open("theirs/x"), 0);
  unsetenv("SUDO_UID");
}

TEST_F(Outputs, LinksThatLeadInCirclesEnd) {
  Link("b", "a", 0);
  Link("a", "b", 0);
  EXPECT_EQ(Open("a"), ELOOP);
  EXPECT_EQ(Open("a/x"), ELOOP);
}

TEST_F(Outputs, FilesThatAStrangerPutReadyAreNotWrittenTo) {
  Make("open/theirs", kStranger);
  Make("open/mine", 0);
  Make("real/theirs", kStranger);
  Make("real/precious", 0);
  EXPECT_EQ(Open("open/theirs"), EACCES);
  EXPECT_EQ(*ReadFile(At("open/theirs")), "old");
  EXPECT_EQ(Open("open/mine"), 0);
  EXPECT_EQ(*ReadFile(At("open/mine")), "");
  EXPECT_EQ(Open("real/theirs"), 0) << "nobody but root can have put it there";
  // Opening the pipe would wait for a reader.
  ASSERT_EQ(mkfifo(At("open/pipe").c_str(), 0666), 0);
  ASSERT_EQ(chown(At("open/pipe").c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(Open("open/pipe"), EACCES);
  // A folder of the stranger's own, and a second name for a file of ours.
  ASSERT_EQ(mkdir(At("house").c_str(), 0755), 0);
  Make("house/theirs", kStranger);
  ASSERT_EQ(chown(At("house").c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(Open("house/theirs"), EACCES);
  ASSERT_EQ(link(At("real/precious").c_str(), At("open/second").c_str()), 0);
  EXPECT_EQ(Open("open/second"), EACCES);
  EXPECT_EQ(*ReadFile(At("real/precious")), "old");
}

TEST_F(Outputs, WhatTheKernelMustFollowIsFollowed) {
  EXPECT_TRUE(OpenFile("/dev/stdout", O_WRONLY | O_CREAT).ok());
  EXPECT_TRUE(OpenFile("/proc/self/fd/1", O_WRONLY | O_CREAT).ok());
  EXPECT_TRUE(OpenFile("/dev/null", kFlags).ok());
  EXPECT_TRUE(OpenFile("/proc/self/root/dev/null", kFlags).ok());
  EXPECT_EQ(Open("real/"), EISDIR);
  EXPECT_EQ(Open("real"), EISDIR);
  EXPECT_EQ(Open("none/x"), ENOENT);
  EXPECT_EQ(Open(""), EISDIR);
  ASSERT_EQ(chdir(dir_.path().c_str()), 0);
  EXPECT_TRUE(OpenFile("real/relative", kFlags).ok());
  EXPECT_TRUE(OpenFile("./real/../plain", kFlags).ok());
  EXPECT_EQ(access(At("plain").c_str(), F_OK), 0);
  EXPECT_FALSE(OpenFile("", kFlags).ok());
}

TEST_F(Outputs, AReplacedFileIsWholeAndIsOurs) {
  // Somebody guessed the name that it is written under first.
  Make("open/x.part", kStranger);
  ASSERT_TRUE(ReplaceFile(At("open/x"), "new").ok());
  struct stat info;
  ASSERT_EQ(stat(At("open/x").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(*ReadFile(At("open/x")), "new");
  EXPECT_EQ(access(At("open/x.part").c_str(), F_OK), -1);
  Link("../real/target", "open/y.part", kStranger);
  ASSERT_TRUE(ReplaceFile(At("open/y"), "new").ok());
  EXPECT_EQ(access(At("real/target").c_str(), F_OK), -1);
  // A link of ours is followed, and stays.
  Make("real/linked", 0);
  Link("real/linked", "to", 0);
  ASSERT_TRUE(ReplaceFile(At("to"), "new").ok());
  EXPECT_EQ(*ReadFile(At("real/linked")), "new");
  ASSERT_EQ(lstat(At("to").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_FALSE(ReplaceFile(At("none/x"), "new").ok());
}

TEST_F(Outputs, DevicesAndPipesAreWrittenToAndNeverReplaced) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  UniqueFd reader(open(At("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(ReplaceFile(At("pipe"), "through").ok());
  char text[8] = {};
  EXPECT_EQ(read(reader.get(), text, sizeof(text)), 7);
  EXPECT_STREQ(text, "through");
  struct stat info;
  ASSERT_EQ(lstat(At("pipe").c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
  if (mknod(At("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) return;
  EXPECT_TRUE(ReplaceFile(At("null"), "nothing").ok() || access(At("null").c_str(), W_OK) != 0) << "a device, on a disk that has devices";
  ASSERT_EQ(lstat(At("null").c_str(), &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  ASSERT_TRUE(ReplaceFile("/dev/stdout", "").ok());
  ASSERT_EQ(lstat("/dev/stdout", &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

// Where it may not be opened as what it was seen to be, its name is not asked again.
TEST(RegularFiles, ThatMayNotBeReadAreRefused) {
  testing_support::TempDir dir;
  ASSERT_TRUE(ReplaceFile(dir.File("x"), "text").ok());
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(dir.File("x").c_str(), 0), 0);
  if (geteuid() != 0) GTEST_SKIP() << "becoming somebody else takes root";
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(kStranger, kStranger, kStranger) != 0) _exit(2);
    _exit(ErrnoOf(OpenRegular(dir.File("x")).status()) == EACCES ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(RegularFiles, ArePartlyRead) {
  testing_support::TempDir dir;
  ASSERT_TRUE(ReplaceFile(dir.File("x"), "0123456789").ok());
  auto fd = OpenRegular(dir.File("x"));
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*ReadFrom(fd->get(), 2, 3, "x"), "234");
  EXPECT_EQ(*ReadFrom(fd->get(), 8, 100, "x"), "89");
  EXPECT_EQ(*ReadFrom(fd->get(), 20, 100, "x"), "");
}

TEST(RegularFiles, AloneAreOpened) {
  testing_support::TempDir dir;
  ASSERT_TRUE(ReplaceFile(dir.File("x"), "text").ok());
  ASSERT_EQ(symlink("x", dir.File("link").c_str()), 0);
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(OpenRegular(dir.File("x")).ok());
  EXPECT_TRUE(OpenRegular(dir.File("link")).ok());
  EXPECT_FALSE(OpenRegular(dir.File("link"), O_NOFOLLOW).ok());
  for (const std::string& name : {dir.File("pipe"), dir.path(), std::string("/dev/null"), dir.File("none")}) EXPECT_FALSE(OpenRegular(name).ok()) << name;
}

TEST(Messages, AreHarmlessWhateverNamesAreInThem) {
  EXPECT_EQ(Message(ErrnoError(ENOENT, "a\x1b[31m\nb")), "a\\x1b[31m\\x0ab: No such file or directory");
  EXPECT_EQ(Message(InvalidArgument("one \xc2\x9b\n  two\r")), "one \\xc2\\x9b\\x0a  two\\x0d");
  EXPECT_EQ(Message(OkStatus()), "");
}

}  // namespace
}  // namespace brink
