// Each kind of trigger that needs no kernel probes, on a real program: hits, arguments, results, places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SnapTrigger, UprobeSeesNamedArgumentsAndStrings) {
  SKIP_UNLESS("bpf.uprobe");
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_work"}, "works");
  ASSERT_EQ(snapped.captures.size(), 8u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[5]["place"]["symbol"], "snap_work");
  EXPECT_EQ(snapped.captures[5]["args"]["number"], 5);
  EXPECT_EQ(snapped.captures[5]["args"]["text"], "odd");
  EXPECT_EQ(snapped.captures[4]["args"]["text"], "even");
  const auto chain = ChainOf(snapped.captures[0], "user_chain");
  EXPECT_THAT(chain, Contains("main"));
  // Who called it: at its entry the frame pointer is still the caller's, and would skip it.
  ASSERT_GE(chain.size(), 2u);
  EXPECT_EQ(chain[0], "snap_work");
  EXPECT_THAT(chain[1], HasSubstr("Works"));
  EXPECT_EQ(snapped.process.status, 0);
}

TEST(SnapTrigger, UprobeBehindAnOffsetAndAtAnAliasAndALine) {
  SKIP_UNLESS("bpf.uprobe");
  EXPECT_EQ(Snap({"--on", "u:" + Self() + ":snap_wrk"}, "alias").captures.size(), 1u);
  // DWARF knows the function by its other name.
  EXPECT_EQ(Snap({"--on", "u:" + Self() + ":snap_wrk", "--if", "args.number == 3"}, "alias").captures.size(), 1u);
  EXPECT_EQ(Snap({"--on", "u:" + Self() + ":snap_wrk"}, "works").captures.size(), 8u);  // one function, two names
  // `push %rbp` or a landing pad is where frame pointers begin: any whole instruction behind the entry will do.
  Snapped line = Snap({"--on", "uprobe:" + Self() + ":target.cc:24"}, "works");
  ASSERT_EQ(line.captures.size(), 8u) << line.process.err;
  EXPECT_EQ(line.captures[0]["place"]["symbol"], "snap_work");
}

TEST(SnapTrigger, UretprobeSeesTheResult) {
  SKIP_UNLESS("bpf.uretprobe");
  Snapped snapped = Snap({"--on", "uretprobe:" + Self() + ":snap_work"}, "works");
  ASSERT_EQ(snapped.captures.size(), 8u) << snapped.process.err;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(snapped.captures[static_cast<size_t>(i)]["ret"], i - 3);
}

// Not where it returned to, and not the kernel function that the tracepoint stands in.
TEST(SnapTrigger, TheTextNamesWhatReturnedAndWhatWasPassed) {
  const auto text = testing_support::RunBrink({"snap", "--on", "uretprobe:" + Self() + ":snap_work", "--on", "tracepoint:sched:sched_process_exit", "--source", "none", "--", Self(), "--target", "works"});
  EXPECT_THAT(text.out, HasSubstr("\n  snap_work() = -"));
  EXPECT_THAT(text.out, HasSubstr("\n  sched_process_exit("));
  // A place that was given by its address has no name: then where it returns to.
  const auto names = testing_support::Run({"nm", Self()});
  const size_t at = names.out.find(" T snap_work\n");
  if (at == std::string::npos) return;
  const auto bare = testing_support::RunBrink({"snap", "--on", "uretprobe:" + Self() + ":0x" + names.out.substr(at - 16, 16), "--source", "none", "--", Self(), "--target", "works"});
  EXPECT_THAT(bare.out, HasSubstr("\n  return to ")) << bare.err;
}

TEST(SnapTrigger, UretprobeKeepsTheArgumentsThatAConditionAsksFor) {
  SKIP_UNLESS("bpf.uretprobe");
  Snapped snapped = Snap({"--on", "ur:" + Self() + ":snap_work", "--if", "args.number == 6"}, "works");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["ret"], 3);
  EXPECT_EQ(snapped.captures[0]["args"]["number"], 6);
  EXPECT_GT(snapped.captures[0]["duration_ns"], 0);
}

TEST(SnapTrigger, GlobsTakeEveryFunctionOnce) {
  SKIP_UNLESS("bpf.uprobe");
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_multi_*"}, "globs");
  std::vector<std::string> names;
  for (const auto& capture : snapped.captures) names.push_back(capture["place"]["symbol"]);
  EXPECT_THAT(names, ElementsAre("snap_multi_a", "snap_multi_b", "snap_multi_c", "snap_multi_a")) << snapped.process.err;
}

TEST(SnapTrigger, FunctionsOfTheCLibraryByName) {
  SKIP_UNLESS("bpf.uprobe");
  // An IFUNC and a versioned symbol: libbpf's own resolver fails on both.
  Snapped strlen_hits = Snap({"--on", "uprobe:libc:strlen", "--once-per", "pid"}, "library");
  ASSERT_EQ(strlen_hits.captures.size(), 1u) << strlen_hits.process.err;
  EXPECT_THAT(strlen_hits.captures[0]["place"]["symbol"].get<std::string>(), HasSubstr("strlen"));
  EXPECT_EQ(Snap({"--on", "uprobe:libc:memcpy", "--once-per", "pid"}, "library").process.status, 0);
  Snapped join = Snap({"--on", "uprobe:libc:pthread_cond_wait"}, "works");
  EXPECT_EQ(join.process.status, 0) << join.process.err;
}

TEST(SnapTrigger, SyscallAtBothEnds) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped enter = Snap({"--on", "syscall:lseek:enter"}, "seeks");
  ASSERT_EQ(enter.captures.size(), 8u) << enter.process.err;
  EXPECT_EQ(enter.captures[0]["syscall"], "lseek");
  EXPECT_TRUE(enter.captures[0]["ret"].is_null());
  Snapped leave = Snap({"--on", "syscall:lseek"}, "seeks");
  ASSERT_EQ(leave.captures.size(), 8u) << leave.process.err;
  EXPECT_EQ(leave.captures[0]["ret"], -22);
  EXPECT_EQ(leave.captures[0]["errno"], "EINVAL");
  EXPECT_EQ(leave.captures[7]["ret"], 4);
  EXPECT_TRUE(leave.captures[7]["errno"].is_null());
}

TEST(SnapTrigger, SyscallShowsTheFileName) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "syscall:access", "--if", "ret == -ENOENT"}, "denied");
  if (snapped.captures.empty()) snapped = Snap({"--on", "syscall:faccessat", "--if", "ret == -ENOENT"}, "denied");
  ASSERT_FALSE(snapped.captures.empty()) << snapped.process.err;
  EXPECT_EQ(snapped.captures.back()["args"]["filename"], "/proc/1/no/such/file");
}

TEST(SnapTrigger, TracepointAndRawTracepoint) {
  SKIP_UNLESS("bpf.tracepoint");
  Snapped tracepoint = Snap({"--on", "tracepoint:sched:sched_process_fork"}, "forks");
  ASSERT_EQ(tracepoint.captures.size(), 3u) << tracepoint.process.err;
  EXPECT_TRUE(tracepoint.captures[0]["args"].contains("child_pid"));
  EXPECT_EQ(Snap({"--on", "rt:sched_process_fork"}, "forks").captures.size(), 3u);
}

TEST(SnapTrigger, ExecAndExitFollowChildren) {
  SKIP_UNLESS("bpf.raw_tp");
  EXPECT_EQ(Snap({"--on", "exec"}, "forks").captures.size(), 2u);  // the target and /bin/true
  EXPECT_EQ(Snap({"--on", "exit"}, "forks").captures.size(), 4u);
}

TEST(SnapTrigger, SignalsHandledAndSent) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped all = Snap({"--on", "signal:USR1:all"}, "handled");
  ASSERT_EQ(all.captures.size(), 3u) << all.process.err;
  EXPECT_EQ(all.captures[0]["signal"]["name"], "SIGUSR1");
  EXPECT_EQ(all.captures[0]["signal"]["code"], "SI_TKILL");
  EXPECT_EQ(Snap({"--on", "signal:USR1:fatal"}, "handled").captures.size(), 0u);
  EXPECT_EQ(Snap({"--on", "signal:USR1:sent"}, "handled").captures.size(), 3u);
}

TEST(SnapTrigger, WatchpointFiresAtEachWrite) {
  SKIP_UNLESS("perf.breakpoint");
  testing_support::ProcessResult nm = testing_support::Run({"nm", Self()});
  // The target is position independent: started without address randomisation it lies where it always does.
  std::string address;
  size_t at = nm.out.find(" snap_watched");
  if (nm.status != 0 || at == std::string::npos) GTEST_SKIP() << "needs nm and symbols";
  uint64_t offset = std::stoull(nm.out.substr(at - 18, 16), nullptr, 16);
  char text[32];
  snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(0x555555554000 + offset));
  testing_support::ProcessResult result = testing_support::RunBrink({"snap", "--on", "watch:" + std::string(text) + ":8:w", "--json", "--", "setarch", "-R", Self(), "--target", "watch"});
  if (result.status == 127) GTEST_SKIP() << "needs setarch";
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5) << result.err;
}

TEST(SnapTrigger, SamplesAndEvents) {
  SKIP_UNLESS("perf.cpu_clock");
  Snapped samples = Snap({"--on", "profile:hz:500"}, "spin");
  EXPECT_GE(samples.captures.size(), 5u) << samples.process.err;
  Snapped faults = Snap({"--on", "perf:page-faults:1", "--count", "10"}, "spin");
  EXPECT_EQ(faults.captures.size(), 10u) << faults.process.err;
}

TEST(SnapTrigger, UsdtRaisesItsSemaphoreAndReadsItsArguments) {
  SKIP_UNLESS("bpf.uprobe");
#if !defined(__x86_64__)
  GTEST_SKIP() << "the target has a static probe on x86-64 only";
#endif
  EXPECT_EQ(testing_support::Run({Self(), "--target", "hello"}).status, 0) << "nobody listens: the semaphore is down";
  for (const char* name : {":snaptest:hello", ":hello"}) {
    Snapped snapped = Snap({"--on", "usdt:" + Self() + name}, "hello");
    ASSERT_EQ(snapped.captures.size(), 5u) << snapped.process.err;
    EXPECT_NE(snapped.process.status, 0) << "the semaphore was not up to the end";
    EXPECT_EQ(snapped.captures[3]["place"]["symbol"], "snap_hello");
    EXPECT_EQ(snapped.captures[3]["kind"], "usdt");
  }
  Snapped one = Snap({"--on", "usdt:" + Self() + ":hello", "--if", "args.0 == 4"}, "hello");
  EXPECT_EQ(one.captures.size(), 1u) << one.process.err;
  EXPECT_EQ(testing_support::Run({Self(), "--target", "hello"}).status, 0) << "the semaphore is down again";
}

TEST(SnapTrigger, ManualCapturesEveryCpuAtTheSignal) {
  SKIP_UNLESS("bpf.raw_tp");
  // The command's parent is brink.
  auto result = testing_support::RunBrink({"snap", "--on", "manual", "--json", "--", "sh", "-c", "kill -USR1 $PPID; sleep 0.5"});
  ASSERT_EQ(result.status, 0) << result.err;
  std::set<int> cpus;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    auto capture = nlohmann::json::parse(line);
    EXPECT_EQ(capture["kind"], "manual");
    EXPECT_TRUE(cpus.insert(capture["cpu"].get<int>()).second) << "a CPU twice";
  }
  EXPECT_EQ(cpus.size(), static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)));
}

// The terminal that brink was started from has a key for it.
TEST(SnapTrigger, ManualCapturesAtTheEnterKey) {
  SKIP_UNLESS("bpf.raw_tp");
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(60);  // a key that is lost ends it too
    execl(testing_support::BrinkBinary().c_str(), "brink", "snap", "--on", "manual", "--count", "1", "--json", static_cast<char*>(nullptr));
    _exit(127);
  }
  std::string text;
  bool pressed = false;
  for (char c; read(terminal, &c, 1) == 1;) {
    text += c;
    if (pressed || text.find("armed, Ctrl-C") == std::string::npos) continue;
    pressed = true;
    EXPECT_EQ(write(terminal, "\n", 1), 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  close(terminal);
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("\"kind\":\"manual\""));
}

// A group of its own with little memory: the kernel chooses the only process in it.
TEST(SnapTrigger, OomNamesTheVictim) {
  SKIP_UNLESS("bpf.raw_tp");
  const std::string name = "/brink_oom_" + std::to_string(getpid());
  std::string group, limit;
  for (const auto& [mount, file] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, std::pair{"/sys/fs/cgroup", "memory.max"}}) {
    const std::string path = mount + name;
    if (mkdir(path.c_str(), 0755) != 0) continue;
    if (access((path + "/" + file).c_str(), W_OK) == 0) {
      group = path;
      limit = file;
      break;
    }
    rmdir(path.c_str());
  }
  if (group.empty()) GTEST_SKIP() << "needs the memory controller (v1 or v2)";
  std::ofstream(group + "/" + limit) << (24 << 20);
  const std::string script = "echo $$ > " + group + "/cgroup.procs; exec " + Self() + " --target eat";
  auto result = testing_support::RunBrink({"snap", "--on", "oom", "--json", "--", "sh", "-c", script});
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; ++i) usleep(20'000);
  if (result.status == 3) GTEST_SKIP() << "the limit is not kept here (swap?)";
  EXPECT_EQ(result.status, 128 + SIGKILL) << result.err;
  ASSERT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out << result.err;
  auto capture = nlohmann::json::parse(result.out);
  EXPECT_EQ(capture["kind"], "oom");
  EXPECT_EQ(capture["comm"], "runtime_snap");
  EXPECT_THAT(capture["container"]["path"].get<std::string>(), HasSubstr(name));
  EXPECT_THAT(ChainOf(capture, "user_chain"), Contains("main"));
}

TEST(SnapTrigger, SeveralAtOnceKeepTheirNames) {
  SKIP_UNLESS("bpf.uprobe");
  Snapped snapped = Snap({"--on", "exec", "--on", "uprobe:" + Self() + ":snap_work", "--on", "exit"}, "works");
  std::vector<std::string> kinds;
  for (const auto& capture : snapped.captures) kinds.push_back(capture["kind"]);
  ASSERT_EQ(kinds.size(), 10u) << snapped.process.err;
  EXPECT_EQ(kinds.front(), "exec");
  EXPECT_EQ(kinds[1], "uprobe");
  EXPECT_EQ(kinds.back(), "exit");
}

TEST(SnapTrigger, HistoryHoldsTheThreadsLastCalls) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "signal:SEGV", "--history"}, "sent");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  bool paused = false;
  for (const auto& event : snapped.captures[0]["thread_history"]) paused = paused || (event["type"] == "sys_enter" && event["tid"] == snapped.captures[0]["tid"]);
  EXPECT_TRUE(paused) << snapped.captures[0].dump();
}

TEST(SnapTrigger, LinesFollowTheirSchema) {
  SKIP_UNLESS("bpf.uprobe");
  if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
  testing_support::TempDir dir;
  const std::vector<std::vector<std::string>> runs = {{"--on", "signal:SEGV", "--history"}, {"--on", "syscall:*", "--limit", "50/s"}, {"--on", "uprobe:" + Self() + ":snap_fault", "--registers"}};
  for (const auto& run : runs) {
    Snapped snapped = Snap(run, "segv");
    ASSERT_FALSE(snapped.captures.empty()) << snapped.process.err;
    std::ofstream(dir.File("lines")) << snapped.process.out;
    auto checked = testing_support::Run({"/usr/bin/python3", "-c",
                                         "import json,sys,jsonschema\nv=jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))\nfor l in open(sys.argv[2]): v.validate(json.loads(l))",
                                         testing_support::SourceDir() + "/docs/schema/snap.json", dir.File("lines")});
    EXPECT_EQ(checked.status, 0) << checked.err;
  }
}

TEST(SnapTrigger, PerfDataIsReadByPerf) {
  SKIP_UNLESS("bpf.uprobe");
  testing_support::TempDir dir;
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_work", "-o", dir.File("snap.data")}, "works");
  ASSERT_EQ(snapped.captures.size(), 8u) << snapped.process.err;
  auto script = testing_support::RunBrink({"script", "-i", dir.File("snap.data"), "-F", "ip,sym"});
  EXPECT_EQ(script.status, 0) << script.err;
  size_t hits = 0;
  for (size_t at = script.out.find("snap_work"); at != std::string::npos; at = script.out.find("snap_work", at + 1)) ++hits;
  EXPECT_GE(hits, 8u) << script.out;
}

}  // namespace
}  // namespace brink::snap_tests
