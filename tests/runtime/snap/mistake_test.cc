// A new user's mistakes: what is wrong, what is near, what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::HasSubstr;

struct Mistake {
  std::vector<std::string> args;
  int status;
  std::vector<std::string> says;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << (mistake.args.empty() ? "nothing" : mistake.args.back()); }

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreExplained) {
  std::vector<std::string> args = GetParam().args;
  for (std::string& arg : args) {
    if (size_t at = arg.find("SELF"); at != std::string::npos) arg.replace(at, 4, Self());
  }
  args.insert(args.begin(), "snap");
  testing_support::ProcessResult result = testing_support::RunBrink(args);
  EXPECT_EQ(result.status, GetParam().status) << result.err;
  for (const std::string& text : GetParam().says) EXPECT_THAT(result.err, HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(
    All, Mistakes,
    testing::Values(Mistake{{"--on", "syscal:openat"}, 2, {"unknown kind of trigger 'syscal'", "nearest: syscall", "^"}},
                    Mistake{{"--on", "syscall:opena"}, 2, {"no system call 'opena'", "open"}},
                    Mistake{{"--on", "uprobe:SELF:snap_wrok"}, 1, {"no function 'snap_wrok'", "snap_work"}},
                    Mistake{{"--on", "uprobe:/no/such/file:main"}, 1, {"no file /no/such/file", "-p PID"}},
                    Mistake{{"--on", "uprobe:SELF:nosuch.cc:10"}, 1, {"nosuch.cc:10"}},
                    Mistake{{"--on", "tracepoint:sched:sched_swich"}, 1, {"no tracepoint 'sched_swich'", "sched:sched_switch"}},
                    Mistake{{"--on", "rt:sched_swich"}, 1, {"no raw tracepoint 'sched_swich'", "sched_switch"}},
                    Mistake{{"--on", "signal:SEGW"}, 2, {"unknown signal 'SEGW'", "SIGSEGV"}},
                    Mistake{{"--on", "watch:0x1000:8:r"}, 2, {"the CPU has no breakpoint of mode 'r'"}},
                    Mistake{{"--on", "watch:0x1000"}, 2, {"missing the length"}},
                    Mistake{{"--on", "syscall:lseek", "--if", "args.ofset == 1"}, 2, {"no argument 'ofset'", "nearest: offset", "^"}},
                    Mistake{{"--on", "syscall:lseek:enter", "--if", "ret < 0"}, 2, {"'ret' is known at a return only"}},
                    Mistake{{"--on", "syscall:lseek", "--if", "ret == 1 and ret == 2"}, 2, {"can never be true"}},
                    Mistake{{"--on", "exec", "--slower-than", "5ms"}, 2, {"--slower-than needs a return"}},
                    Mistake{{"--on", "exec", "--once-per", "moon"}, 2, {"--once-per 'moon' is none of"}},
                    Mistake{{"--on", "sys_enter_openat"}, 2, {"unknown kind", "there are tracepoint", "tracepoint:CATEGORY:NAME"}},
                    Mistake{{"--on", "tracepoint:sched:*"}, 2, {"globs go with kprobe and uprobe"}},
                    Mistake{{"--on", "signal:SEGFAULT"}, 2, {"did you mean SIGSEGV?"}},
                    Mistake{{"--on", "signal:99"}, 2, {"they are 1 to 64"}},
                    Mistake{{"--on", "uprobe:SELF:snap_work+0x4000"}, 1, {"bytes: there is no snap_work+0x4000"}},
                    Mistake{{"--on", "uprobe:SELF:0x1"}, 1, {"is data: nothing is executed there"}},
                    Mistake{{"--on", "exec", "--if", " "}, 2, {"--if is empty"}},
                    Mistake{{"--on", "exec", "--container", ""}, 2, {"need a name"}},
                    Mistake{{"--on", "exec", "--runtime-root", "/no/such/root"}, 1, {"no folder /no/such/root"}},
                    Mistake{{"--errno-path", "opennat"}, 2, {"--errno-path: no system call 'opennat'", "nearest: openat"}},
                    Mistake{{"--errno-path", "openat", "--on", "exit"}, 2, {"does not go with --on"}},
                    Mistake{{"--on", "exec", "--source", "step"}, 2, {"goes with --trace-between"}},
                    Mistake{{"--on", "exec", "--depth", "10"}, 2, {"--depth goes with --source walk"}},
                    Mistake{{"--on", "openat"}, 2, {"did you mean syscall:openat?"}},
                    Mistake{{"--on", "syscall:lseek", "--once-per", "args.moon"}, 2, {"no argument 'moon'; there are fd"}},
                    Mistake{{}, 2, {"--on TRIGGER"}}));

// The rest needs surroundings that make the mistake.

#if defined(__x86_64__)
// The kernel would emulate the wrong instruction, and the program go on with wrong registers.
TEST(SnapMistakes, APlaceWhereAProbeWouldBreakTheProgram) {
  testing_support::ProcessResult refused = testing_support::RunBrink({"snap", "--on", "uprobe:" + Self() + ":snap_vector"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("begins with a vector instruction"));
  EXPECT_THAT(refused.err, HasSubstr("snap_vector+0x4")) << "where it can be set instead";
  SKIP_UNLESS("bpf.uprobe");
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "no AVX here";
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_vector+0x4"}, "vector");
  EXPECT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.process.status, 0) << "the program went on with wrong registers";
  // A glob takes what can be probed.
  Snapped glob = Snap({"--on", "uprobe:" + Self() + ":snap_[vw]*"}, "vector");
  EXPECT_THAT(glob.process.err, HasSubstr("1 more are left out"));
  EXPECT_EQ(glob.process.status, 0);
}
#endif

#if defined(__x86_64__)
// A breakpoint among an instruction's bytes is a new constant, and the program none the wiser.
TEST(SnapMistakes, APlaceInsideOfAnInstruction) {
  for (const char* offset : {"+0x1", "+0x3"}) {
    testing_support::ProcessResult refused = testing_support::RunBrink({"snap", "--on", "uprobe:" + Self() + ":snap_five_bytes" + offset});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("lies inside of an instruction"));
    EXPECT_THAT(refused.err, HasSubstr("Whole ones begin at +0x0 and +0x5"));
  }
  SKIP_UNLESS("bpf.uprobe");
  EXPECT_EQ(Snap({"--on", "uprobe:" + Self() + ":snap_five_bytes+0x5"}, "five-bytes").captures.size(), 1u);
}
#endif

// A program's functions are often its library's.
TEST(SnapMistakes, AFunctionOfAnotherFileOfTheProcess) {
  const auto result = testing_support::RunBrink({"snap", "--on", "uprobe:" + Self() + ":qsort_r", "-p", std::to_string(getpid())});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("libc.so.6 of process " + std::to_string(getpid()) + " has it: write libc.so.6:qsort_r"));
}

TEST(SnapMistakes, AScriptInPlaceOfAProgram) {
  testing_support::TempDir dir;
  const std::string script = dir.path() + "/snap_wrapper", path = getenv("PATH");
  std::ofstream(script) << "#!/bin/sh\nexec true\n";
  setenv("PATH", dir.path().c_str(), 1);
  const auto result = testing_support::RunBrink({"snap", "--on", "uprobe:snap_wrapper:main"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr(script + " is a script: probe its interpreter"));
}

TEST(SnapMistakes, AFunctionThatIsInlinedEverywhere) {
  testing_support::ProcessResult result = testing_support::RunBrink({"snap", "--on", "uprobe:" + Self() + ":snap_inlined"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("inlined"));
  EXPECT_THAT(result.err, HasSubstr("FILE:LINE")) << "what can be done";
}

TEST(SnapMistakes, ASymbolOfAStrippedBinary) {
  testing_support::TempDir dir;
  const std::string copy = dir.File("stripped");
  if (testing_support::Run({"strip", "-o", copy, Self()}).status != 0) GTEST_SKIP() << "needs strip";
  testing_support::ProcessResult result = testing_support::RunBrink({"snap", "--on", "uprobe:" + copy + ":snap_work"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("stripped"));
  EXPECT_THAT(result.err, HasSubstr("0xADDRESS")) << "what can be done";
}

TEST(SnapMistakes, AKernelWithoutTypes) {
  SKIP_UNLESS("bpf.raw_tp");
  // Hidden from this mount namespace only.
  const std::string script = "mount -t tmpfs none /sys/kernel/btf && exec " + testing_support::BrinkBinary() + " snap --on rt:sched_switch";
  testing_support::ProcessResult result = testing_support::Run({"unshare", "--mount", "sh", "-c", script});
  if (result.err.find("brink") == std::string::npos) GTEST_SKIP() << "needs unshare and mount: " << result.err;
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("BTF"));
  EXPECT_THAT(result.err, HasSubstr("CONFIG_DEBUG_INFO_BTF")) << "what can be done";
}

TEST(SnapMistakes, AUserWithoutRights) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to become nobody";
  testing_support::ProcessResult result = testing_support::Run({"setpriv", "--reuid=12345", "--clear-groups", "--inh-caps=-all", testing_support::BrinkBinary(), "snap", "--on", "exec"});
  if (result.status == 126 || result.status == 127 || result.err.find("brink") == std::string::npos) GTEST_SKIP() << "needs setpriv and a build that others can run: " << result.err;
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("setcap"));
  EXPECT_THAT(result.err, HasSubstr("cap_bpf"));
}

TEST(SnapMistakes, ANameThatNoContainerHasIsWaitedFor) {
  testing_support::ProcessResult result = testing_support::RunBrink({"snap", "--on", "exec", "--container", "no-such-container", "--duration", "1s"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no container 'no-such-container'"));
  EXPECT_THAT(result.err, HasSubstr("waiting for it"));
}

}  // namespace
}  // namespace brink::snap_tests
