// One picture of a failed open, from captures made by hand.
#include "snap/errno_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snap/print.h"

namespace brink::snap {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kDenied = -13;

const ShownTrigger& Shown() {
  static const ShownTrigger shown = [] {
    ShownTrigger made;
    made.trigger.text = "x";
    return made;
  }();
  return shown;
}

NamedAddress At(const std::string& symbol, uint64_t offset) { return {.address = 0xffffffff81000000 + offset, .symbol = symbol, .offset = offset, .object = "[kernel]", .line = "", .inlined = {}, .kernel = true}; }

// `function` returned `ret` at `time`, called from `callers` (innermost first).
Capture Returned(const std::string& function, int64_t ret, uint64_t time, const std::vector<std::string>& callers) {
  Capture capture;
  capture.trigger = &Shown();
  capture.head.tid = capture.head.tgid = 7;
  capture.head.time_ns = time;
  capture.context.flags = BRINK_SNAP_HAS_RET;
  capture.context.ret = ret;
  capture.comm = "ls";
  capture.place = At(function, 0);
  for (const std::string& caller : callers) capture.kernel_chain.push_back(At(caller, 16));
  return capture;
}

Capture Openat(int64_t ret, uint64_t time, uint64_t duration) {
  Capture capture = Returned("", ret, time, {});
  capture.context.flags |= BRINK_SNAP_HAS_SYSCALL | BRINK_SNAP_HAS_DURATION;
  capture.context.syscall = 257;
  capture.context.duration_ns = duration;
  capture.user_chain.push_back({.address = 0x401000, .symbol = "main", .offset = 4, .object = "ls", .line = "", .inlined = {}});
  return capture;
}

NamedBranch Branch(const std::string& from, uint64_t at, const std::string& to, uint64_t target, Kind kind) { return {.from = At(from, at), .to = At(to, target), .kind = kind}; }

std::vector<Capture> Denied() {
  ErrnoPaths paths;
  Capture inner = Returned("generic_permission", kDenied, 100, {"inode_permission", "link_path_walk", "path_openat", "do_sys_openat2"});
  inner.branches = {Branch("bpf_trampoline_1", 4, "__x", 0, Kind::kCall), Branch("generic_permission", 0x90, "bpf_trampoline_1", 9, Kind::kRet), Branch("generic_permission", 0x42, "generic_permission", 0x80, Kind::kCond),
                    Branch("inode_permission", 0x33, "generic_permission", 0, Kind::kCall), Branch("link_path_walk", 5, "inode_permission", 0, Kind::kCall)};
  EXPECT_FALSE(paths.Add(inner));
  EXPECT_FALSE(paths.Add(Returned("inode_permission", kDenied, 110, {"link_path_walk", "path_openat", "do_sys_openat2"})));
  auto path = paths.Add(Openat(kDenied, 150, 100));
  EXPECT_TRUE(path);
  EXPECT_EQ(paths.overruled(), 0u);
  return path.value_or(std::vector<Capture>{});
}

TEST(ErrnoPath, IsATreeFromTheCallToTheFunctionThatSaidNo) {
  const std::string text = ErrnoPathText(Denied(), {});
  // Outermost first, each further in than the one before.
  size_t last = 0, indent = 0;
  for (const char* function : {"do_sys_openat2", "path_openat", "link_path_walk", "inode_permission", "generic_permission"}) {
    const size_t at = text.find(function, last);
    ASSERT_NE(at, std::string::npos) << text;
    const size_t column = at - text.rfind('\n', at);
    EXPECT_GT(column, indent) << function;
    indent = column;
    last = at;
  }
#if defined(__x86_64__)
  EXPECT_THAT(text, HasSubstr("openat() = -EACCES (-13)"));
#endif
  EXPECT_THAT(text, HasSubstr("inode_permission = -EACCES (-13)\n"));
  EXPECT_THAT(text, HasSubstr("generic_permission = -EACCES (-13)   <- said no first\n"));
  EXPECT_THAT(text, Not(HasSubstr("link_path_walk =")));
  EXPECT_THAT(text, HasSubstr("u  main+0x4"));
}

TEST(ErrnoPath, ShowsTheDecidersOwnBranchesOnly) {
  const std::string text = ErrnoPathText(Denied(), {});
  EXPECT_THAT(text, HasSubstr("#0   generic_permission+0x90 ret -> bpf_trampoline_1+0x9\n"));
  EXPECT_THAT(text, HasSubstr("#1   generic_permission+0x42 cond -> +0x80\n"));
  EXPECT_THAT(text, HasSubstr("#2   inode_permission+0x33 call -> generic_permission\n"));
  EXPECT_THAT(text, Not(HasSubstr("#3"))) << "what went before it was entered";
  EXPECT_THAT(text, Not(HasSubstr("bpf_trampoline_1+0x4"))) << "the way to our own program";
}

TEST(ErrnoPath, TrampolinesOfOurOwnAreNoFrames) {
  std::vector<Capture> path = Denied();
  path[0].kernel_chain = {At("inode_permission", 8), At("bpf_trampoline_7", 3), At("inode_permission", 5), At("do_sys_openat2", 16)};
  path[0].branches = {Branch("generic_permission", 0x90, "bpf_trampoline_1", 9, Kind::kRet), Branch("bpf_trampoline_1", 0x47, "generic_permission", 9, Kind::kCall), Branch("inode_permission", 1, "x", 0, Kind::kCall)};
  const std::string text = ErrnoPathText(path, {});
  EXPECT_THAT(text, Not(HasSubstr("bpf_trampoline_7")));
  EXPECT_EQ(text.find("inode_permission = "), text.rfind("inode_permission = "));
  EXPECT_THAT(text, HasSubstr("#1   bpf_trampoline_1+0x47 call -> generic_permission+0x9\n"));
  EXPECT_THAT(text, Not(HasSubstr("#2")));
}

TEST(ErrnoPath, NotInReachIsAnAnswer) {
  std::vector<Capture> path = Denied();
  path[0].branches = {Branch("a", 1, "b", 0, Kind::kCall)};
  EXPECT_THAT(ErrnoPathText(path, {}), HasSubstr("not in reach"));
  path[0].branches.clear();
  path[0].no_branches = "no branch hardware";
  EXPECT_THAT(ErrnoPathText(path, {}), HasSubstr("no branches: no branch hardware"));
}

TEST(ErrnoPath, AnErrorThatWasOverruledBelongsToNoLaterCall) {
  ErrnoPaths paths;
  // Denied by mode bits, let in by a capability: that call succeeds and is not captured.
  paths.Add(Returned("generic_permission", kDenied, 100, {}));
  auto later = paths.Add(Openat(kDenied, 500, 50));
  ASSERT_TRUE(later);
  EXPECT_EQ(later->size(), 1u);
  EXPECT_EQ(paths.overruled(), 1u);
  EXPECT_THAT(ErrnoPathText(*later, {}), HasSubstr("none of the armed functions returned this error"));
}

TEST(ErrnoPath, AnotherErrorOnTheWayIsNotTheCalls) {
  ErrnoPaths paths;
  paths.Add(Returned("may_open", -40, 100, {}));
  auto path = paths.Add(Openat(kDenied, 150, 100));
  EXPECT_EQ(path->size(), 1u);
  EXPECT_EQ(paths.overruled(), 1u);
}

TEST(ErrnoPath, ThreadsDoNotMix) {
  ErrnoPaths paths;
  Capture other = Returned("generic_permission", kDenied, 100, {});
  other.head.tid = 8;
  paths.Add(other);
  EXPECT_EQ(paths.Add(Openat(kDenied, 150, 100))->size(), 1u);
}

TEST(ErrnoPath, OpenCapturesAreBounded) {
  ErrnoPaths paths;
  for (uint32_t i = 0; i < 10 * ErrnoPaths::kMostThreads; ++i) {
    Capture capture = Returned("f", kDenied, i, {});
    capture.head.tid = i;
    paths.Add(capture);
  }
  EXPECT_EQ(paths.overruled(), 9 * ErrnoPaths::kMostThreads);
  ErrnoPaths one;
  for (uint64_t i = 0; i < 1000; ++i) one.Add(Returned("f", kDenied, i, {}));
  EXPECT_EQ(one.Add(Openat(kDenied, 2000, 2000))->size(), ErrnoPaths::kMostOpen + 1);
}

}  // namespace
}  // namespace brink::snap
