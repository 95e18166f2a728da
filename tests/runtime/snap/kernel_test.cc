// Triggers at kernel functions: machines (and guests) that have kprobes or trampolines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Entry of a system call, which is never inlined; its only argument points to the registers.
const std::string kSeek = "__x64_sys_lseek";

TEST(SnapKernel, KprobeReadsArgumentsAndTheirMembers) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped snapped = Snap({"--on", "kprobe:" + kSeek, "--if", "args.regs->si == 2"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["place"]["symbol"], kSeek);
  EXPECT_THAT(ChainOf(snapped.captures[0], "user_chain"), testing::Not(testing::IsEmpty()));
  // Behind three pointers: vfs_open(const struct path *path, struct file *file) of regular files.
  Snapped opened = Snap({"--on", "kprobe:vfs_open", "--if", "args.path->dentry->d_inode->i_mode & 0x8000", "--once-per", "pid"}, "seeks");
  EXPECT_EQ(opened.captures.size(), 1u) << opened.process.err;
  Snapped none = Snap({"--on", "kprobe:vfs_open", "--if", "args.path->dentry->d_inode->i_ino == 0"}, "seeks");
  EXPECT_EQ(none.captures.size(), 0u) << none.process.err;
}

TEST(SnapKernel, KretprobeSeesResultAndDuration) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped snapped = Snap({"--on", "kretprobe:" + kSeek, "--if", "ret == 3 and ctx.duration < 10s"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["ret"], 3);
}

TEST(SnapKernel, GlobsOfKernelFunctions) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped snapped = Snap({"--on", "k:__x64_sys_lsee?"}, "seeks");
  EXPECT_EQ(snapped.captures.size(), 8u) << snapped.process.err;
  // Many functions need the multi form.
  Snapped many = Snap({"--on", "k:vfs_*", "--count", "1"}, "seeks");
  EXPECT_THAT(many.process.err, HasSubstr(testing_support::HasFeature("bpf.kprobe_multi") ? "kprobe.multi on" : "single kprobes"));
}

TEST(SnapKernel, FentryAndFexit) {
  SKIP_UNLESS("bpf.fentry");
  Snapped entry = Snap({"--on", "fentry:" + kSeek, "--if", "args.regs->si == 4"}, "seeks");
  ASSERT_EQ(entry.captures.size(), 1u) << entry.process.err;
  EXPECT_EQ(entry.captures[0]["place"]["symbol"], kSeek);
  Snapped leave = Snap({"--on", "fexit:" + kSeek, "--if", "ret == -EINVAL and args.regs->dx == 0"}, "seeks");
  ASSERT_EQ(leave.captures.size(), 3u) << leave.process.err;
  EXPECT_EQ(leave.captures[0]["errno"], "EINVAL");
}

TEST(SnapKernel, FentryFallsBackToKprobeAndSaysSo) {
  SKIP_UNLESS("bpf.kprobe");
  if (testing_support::HasFeature("bpf.fentry")) GTEST_SKIP() << "fentry works here";
  Snapped snapped = Snap({"--on", "fentry:" + kSeek, "--if", "args.regs->si == 4"}, "seeks");
  EXPECT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_THAT(snapped.process.err, HasSubstr("kprobe taken instead"));
}

TEST(SnapKernel, UnknownAndWrongNames) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped unknown = Snap({"--on", "kprobe:vfs_opem"}, "seeks");
  EXPECT_THAT(unknown.process.err, HasSubstr("vfs_open"));
  Snapped member = Snap({"--on", "kprobe:vfs_open", "--if", "args.file->f_inod->i_mode == 1"}, "seeks");
  EXPECT_THAT(member.process.err, HasSubstr("struct file has no member 'f_inod'"));
  EXPECT_THAT(member.process.err, HasSubstr("f_inode"));
}

TEST(SnapKernel, TrueUserBranchesBeforeACrash) {
  SKIP_UNLESS("branch.snapshot");
  Snapped snapped = Snap({"--on", "signal:SEGV"}, "segv");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  const auto& branches = snapped.captures[0]["branches"];
  ASSERT_GT(branches.size(), 8u);
  // The last user branch is the call of the function that faults.
  EXPECT_EQ(branches[0]["to"]["symbol"], "snap_fault");
  EXPECT_EQ(branches[0]["kind"].is_string(), true);
}

TEST(SnapKernel, ReturnsOfAFunctionEndInItsOwnBranches) {
  SKIP_UNLESS("branch.snapshot");
  SKIP_UNLESS("bpf.fexit");
  // Several: an interrupt right before the snapshot leaves no room for the function's.
  Snapped snapped = Snap({"--on", "fexit:" + kSeek, "--count", "5"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 5u) << snapped.process.err;
  bool inside = false;
  for (const auto& capture : snapped.captures) {
    for (const auto& branch : capture["branches"]) inside = inside || branch["from"]["symbol"] == kSeek || branch["to"]["symbol"] == kSeek;
  }
  EXPECT_TRUE(inside) << snapped.captures[0]["branches"].dump();
}

}  // namespace
}  // namespace brink::snap_tests
