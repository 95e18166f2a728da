// Triggers at kernel functions: machines (and guests) that have kprobes or trampolines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(SnapKernel, KprobeReadsArgumentsAndTheirMembers) {
  SKIP_UNLESS("bpf.kprobe");
  // vfs_llseek(struct file *file, loff_t offset, int whence)
  Snapped snapped = Snap({"--on", "kprobe:vfs_llseek", "--if", "args.offset == 2 and args.file->f_inode->i_mode & 0x8000"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["args"]["offset"], 2);
  EXPECT_EQ(snapped.captures[0]["place"]["symbol"], "vfs_llseek");
  EXPECT_THAT(ChainOf(snapped.captures[0], "user_chain"), testing::Not(testing::IsEmpty()));
}

TEST(SnapKernel, KretprobeSeesResultAndDuration) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped snapped = Snap({"--on", "kretprobe:vfs_llseek", "--if", "ret == 3 and ctx.duration < 10s"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["ret"], 3);
}

TEST(SnapKernel, GlobsOfKernelFunctions) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped snapped = Snap({"--on", "k:vfs_llsee*"}, "seeks");
  EXPECT_GE(snapped.captures.size(), 5u) << snapped.process.err;
  // Thousands of functions need the multi form.
  Snapped many = Snap({"--on", "k:vfs_*", "--count", "1"}, "seeks");
  if (testing_support::HasFeature("bpf.kprobe_multi")) {
    EXPECT_THAT(many.process.err, HasSubstr("kprobe.multi on"));
  } else {
    EXPECT_THAT(many.process.err, HasSubstr("single kprobes"));
  }
}

TEST(SnapKernel, FentryAndFexit) {
  SKIP_UNLESS("bpf.fentry");
  Snapped entry = Snap({"--on", "fentry:vfs_llseek", "--if", "args.offset == 4"}, "seeks");
  ASSERT_EQ(entry.captures.size(), 1u) << entry.process.err;
  EXPECT_EQ(entry.captures[0]["place"]["symbol"], "vfs_llseek");
  Snapped leave = Snap({"--on", "fexit:vfs_llseek", "--if", "ret == -EINVAL and args.whence == 0"}, "seeks");
  ASSERT_EQ(leave.captures.size(), 3u) << leave.process.err;
  EXPECT_EQ(leave.captures[0]["errno"], "EINVAL");
}

TEST(SnapKernel, FentryFallsBackToKprobeAndSaysSo) {
  SKIP_UNLESS("bpf.kprobe");
  if (testing_support::HasFeature("bpf.fentry")) GTEST_SKIP() << "fentry works here";
  Snapped snapped = Snap({"--on", "fentry:vfs_llseek", "--if", "args.offset == 4"}, "seeks");
  EXPECT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_THAT(snapped.process.err, HasSubstr("kprobe taken instead"));
}

TEST(SnapKernel, UnknownAndWrongNames) {
  SKIP_UNLESS("bpf.kprobe");
  Snapped unknown = Snap({"--on", "kprobe:vfs_lseek_"}, "seeks");
  EXPECT_THAT(unknown.process.err, HasSubstr("vfs_llseek"));
  Snapped member = Snap({"--on", "kprobe:vfs_llseek", "--if", "args.file->f_inod->i_mode == 1"}, "seeks");
  EXPECT_EQ(member.process.status, 2);
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
  Snapped snapped = Snap({"--on", "fexit:vfs_llseek", "--count", "1"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  bool inside = false;
  for (const auto& branch : snapped.captures[0]["branches"]) inside = inside || branch["from"]["symbol"] == "vfs_llseek" || branch["to"]["symbol"] == "vfs_llseek";
  EXPECT_TRUE(inside) << snapped.captures[0]["branches"].dump();
}

}  // namespace
}  // namespace brink::snap_tests
