// Who is recorded: short-lived processes, threads, process trees, in each way of choosing a target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "base/strings.h"
#include "session/run_cgroup.h"
#include "support.h"
#include "support/features.h"

namespace brink::record_test {
namespace {

using testing_support::TempDir;

// Processes of about a millisecond: inherited events would see nearly nothing of them.
TEST(Target, ShortLivesAreSampledByTheirCpuTime) {
  SKIP_UNLESS("bpf.perf_event");
  for (const char* group : {"auto", "off"}) {
    TempDir dir;
    auto recording = RecordInto(dir.path(), {"--source", "none", "-F", "1000", "--run-cgroup", group, "-o", dir.File("x"), "--", "sh", "-c",
                                             "i=0; while [ $i -lt 1600 ]; do /bin/true; i=$((i+1)); done"});
    ASSERT_EQ(recording.process.status, 0) << recording.process.err;
    double expected = recording.json["samples_expected"], sent = recording.json["samples_sent"];
    EXPECT_GT(expected, 200) << group;
    EXPECT_GE(sent, 0.95 * expected) << group;
    EXPECT_LE(sent, 1.10 * expected) << group;
  }
}

TEST(Target, EqualThreadsGetEqualCounts) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  Background target({RECORD_TARGET, "threads", "4", "1200"});
  ASSERT_EQ(target.ReadLine(), "ready");
  Background brink({testing_support::BrinkBinary(), "record", "--source", "none", "-F", "4000", "-o", dir.File("x"), "-p", std::to_string(target.pid())});
  // Begin only when the recording has: the main thread works until then, and its samples are there.
  WaitForSamples(dir.File("x"), 1);
  target.Write("go");
  EXPECT_EQ(target.Wait(), 0);
  EXPECT_EQ(brink.Wait(), 0);
  FileFacts facts = ReadFacts(dir.File("x"));
  std::vector<uint64_t> counts;
  for (auto [tid, samples] : facts.samples_of_thread) {
    if (tid != static_cast<uint32_t>(target.pid())) counts.push_back(samples);
  }
  ASSERT_EQ(counts.size(), 4u);
  auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_LE(static_cast<double>(*most), 1.05 * static_cast<double>(*least));
  // The clock of the events also runs while a hypervisor or an interrupt has the CPU.
  EXPECT_GE(*least, 4600u);
}

// Every sampled user address lies in a mapping that perf knows at that time, through fork, exec, dlopen and threads.
void CheckChurn(std::vector<std::string> options) {
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  TempDir dir;
  std::vector<std::string> words = {"--source", "none", "-F", "4000", "-o", dir.File("x")};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", RECORD_TARGET, "churn", "100"});
  auto recording = RecordInto(dir.path(), words);
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  auto script = testing_support::Run({"perf", "script", "-i", dir.File("x"), "-F", "pid,time,ip,dso"});
  EXPECT_EQ(script.status, 0);
  EXPECT_EQ(script.err, "");
  int samples = 0, unknown = 0;
  double last = 0;
  for (std::string_view line : Split(script.out, '\n')) {
    std::vector<std::string_view> words;
    for (std::string_view word : Split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() < 4) continue;
    ++samples;
    double time = std::stod(std::string(words[1]));
    EXPECT_GE(time, last);
    last = time;
    bool user = words[2].size() < 16 || words[2][0] < '8';
    if (user && words[3] == "([unknown])") {
      ++unknown;
      if (unknown < 5) ADD_FAILURE() << line;
    }
  }
  EXPECT_GT(samples, 1000);
  EXPECT_EQ(unknown, 0) << "of " << samples;
  EXPECT_TRUE(ReadFacts(dir.File("x")).in_order);
}

TEST(Target, AddressesOfABusyProcessTreeResolve) {
  SKIP_UNLESS("bpf.perf_event");
  CheckChurn({});
}

TEST(Target, AddressesResolveWithTheTaskSetToo) {
  SKIP_UNLESS("bpf.perf_event");
  CheckChurn({"--run-cgroup", "off"});
}

// A process of the group is recorded, from wherever it was started, and nobody else.
TEST(Target, AGroupIsRecordedByItsName) {
  SKIP_UNLESS("bpf.perf_event");
  SessionMounts mounts = ReadCgroupMounts();
  const std::string mount = mounts.perf_event.empty() ? mounts.v2 : mounts.perf_event;
  const std::string name = "brink-test-" + std::to_string(getpid()), folder = mount + "/" + name;
  if (mount.empty() || mkdir(folder.c_str(), 0755) != 0) GTEST_SKIP() << "needs a cgroup hierarchy with perf_event that can be written to";
  TempDir dir;
  {
    Background inside({RECORD_TARGET, "spin", "100000"}), outside({RECORD_TARGET, "spin", "100000"});
    std::ofstream(folder + "/cgroup.procs") << inside.pid();
    auto recording = RecordInto(dir.path(), {"--source", "none", "-F", "1000", "-o", dir.File("x"), "-G", name, "--duration", "500ms"});
    EXPECT_EQ(recording.process.status, 0) << recording.process.err;
    FileFacts facts = ReadFacts(dir.File("x"));
    EXPECT_EQ(facts.samples_of_thread.size(), 1u);
    EXPECT_TRUE(facts.samples_of_thread.contains(static_cast<uint32_t>(inside.pid()))) << recording.process.err;
  }
  for (int i = 0; i < 100 && rmdir(folder.c_str()) != 0 && errno == EBUSY; ++i) usleep(20'000);
}

TEST(Target, NoInheritLeavesChildrenOut) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto recording = RecordInto(dir.path(), {"-i", "--source", "none", "-F", "1000", "-o", dir.File("x"), "--", "sh", "-c", std::string(RECORD_TARGET) + " spin 300; true"});
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  EXPECT_LT(recording.json["samples_written"], 100);
}

TEST(Target, InheritedEventsAreTheFallBack) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto recording = RecordInto(dir.path(), {"--inherited-events", "--source", "none", "-F", "1000", "-o", dir.File("x"), "--", RECORD_TARGET, "spin", "300"});
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  EXPECT_GT(recording.json["samples_written"], 200);
}

TEST(Target, TracepointsAreSampledByCount) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("bpf.tracepoint");
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  TempDir dir;
  // Six processes: the shell's five children and the shell itself.
  std::vector<std::string> command = {"sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done; exit 0"};
  auto record = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--source", "none", "-e", "sched:sched_process_exit", "-o", dir.File("x"), "--"});
    words.insert(words.end(), command.begin(), command.end());
    return RecordInto(dir.path(), words);
  };
  auto each = record({});
  ASSERT_EQ(each.process.status, 0) << each.process.err;
  EXPECT_EQ(each.json["samples_written"], 6);
  auto script = testing_support::Run({"perf", "script", "-i", dir.File("x"), "-F", "comm,event,ip,sym"});
  EXPECT_EQ(script.err, "");
  EXPECT_NE(script.out.find("sched:sched_process_exit"), std::string::npos) << script.out;
  EXPECT_NE(script.out.find("do_exit"), std::string::npos) << script.out;
  EXPECT_EQ(record({"-F", "100"}).process.status, 2);
}

TEST(Target, AThreadIsRecordedAlone) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  Background target({RECORD_TARGET, "spin", "100000"});
  auto recording = RecordInto(dir.path(), {"--source", "none", "-F", "1000", "-o", dir.File("x"), "--duration", "400ms", "-t", std::to_string(target.pid())});
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  FileFacts facts = ReadFacts(dir.File("x"));
  ASSERT_EQ(facts.samples_of_thread.size(), 1u);
  EXPECT_EQ(facts.samples_of_thread.begin()->first, static_cast<uint32_t>(target.pid()));
}

}  // namespace
}  // namespace brink::record_test
