// Recordings of real programs, read by perf without a warning; statuses, limits and signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "support.h"
#include "support/features.h"

namespace brink::record_test {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;

const std::vector<std::string> kPython = {"/bin/sh", "-c", "exec /usr/bin/python3 -c 'sum(i*i for i in range(3000000))'"};

std::vector<std::string> With(std::vector<std::string> words, const std::vector<std::string>& command) {
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// perf's complaints, without the lines that only advise.
std::string Complaints(const testing_support::ProcessResult& perf) {
  return perf.status == 0 ? perf.err : perf.err + "\nstatus " + std::to_string(perf.status);
}

TEST(Record, PerfReadsTheFileWithoutAWarning) {
  SKIP_UNLESS("bpf.perf_event");
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  TempDir dir;
  auto recording = RecordInto(dir.path(), With({"--source", "replay", "-g", "-F", "1000", "-o", dir.File("x.data")}, kPython));
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  auto script = testing_support::Run({"perf", "script", "-i", dir.File("x.data"), "-F", "ip,brstack"});
  EXPECT_EQ(Complaints(script), "");
  EXPECT_THAT(script.out, HasSubstr("0x401"));
  auto header = testing_support::Run({"perf", "report", "--header-only", "-i", dir.File("x.data")});
  EXPECT_EQ(Complaints(header), "");
  EXPECT_THAT(header.out, HasSubstr("cpu-clock"));
  auto report = testing_support::Run({"perf", "report", "--stdio", "-i", dir.File("x.data"), "--sort", "symbol_from,symbol_to"});
  EXPECT_EQ(Complaints(report), "");
  FileFacts facts = ReadFacts(dir.File("x.data"));
  EXPECT_EQ(facts.samples, recording.json["samples_written"].get<uint64_t>());
  EXPECT_TRUE(facts.in_order && facts.complete);
  struct stat st;
  ASSERT_EQ(stat(dir.File("x.data").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

// Words of the file that lie in the kernel's text or modules; PERF_CONTEXT_* marks lie above.
size_t KernelAddresses(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  size_t found = 0;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    found += word >= 0xffffffff80000000 && word < 0xfffffffffffff000;
  }
  return found;
}

TEST(Record, TheKernelsAddressesCanBeKeptOut) {
  SKIP_UNLESS("bpf.perf_event");
  if (geteuid() != 0) GTEST_SKIP() << "kernel addresses are there for root";
  TempDir dir;
  const std::vector<std::string> busy_kernel = {"/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=1 count=400000 2> /dev/null"};
  std::vector<std::string> words = {"--source", "none", "-g", "-F", "2000", "-o", dir.File("x.data")};
  ASSERT_EQ(RecordInto(dir.path(), With(words, busy_kernel)).process.status, 0);
  EXPECT_GT(KernelAddresses(dir.File("x.data")), 100u) << "or the rest shows nothing";
  words.insert(words.begin(), "--strip-kernel");
  auto recording = RecordInto(dir.path(), With(words, busy_kernel));
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  EXPECT_EQ(KernelAddresses(dir.File("x.data")), 0u);
  EXPECT_GT(ReadFacts(dir.File("x.data")).samples, 20u);
}

// The kernel flags every thread as forked and not executed; only the process before its exec is to be left out.
TEST(Record, EveryThreadOfTheCommandIsSampled) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto recording = RecordInto(dir.path(), With({"--source", "none", "-F", "1000", "-o", dir.File("x.data")}, {RECORD_TARGET, "threads", "2", "200"}), {.stdin_text = "\n"});
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  size_t busy = 0;
  for (const auto& [tid, samples] : ReadFacts(dir.File("x.data")).samples_of_thread) busy += samples >= 50;
  EXPECT_EQ(busy, 2u);
}

// What existed before the recording, and what begins in it: perf names both.
TEST(Record, NamespacesAndCgroupsAreInTheFile) {
  SKIP_UNLESS("bpf.perf_event");
  if (!HasProgram("perf") || !HasProgram("unshare")) GTEST_SKIP() << "needs perf and unshare";
  TempDir dir;
  // A process that comes into a new namespace while it is recorded.
  auto recording = RecordInto(dir.path(), With({"--source", "none", "-F", "500", "-o", dir.File("x.data")}, {"unshare", "--uts", "sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"}));
  if (recording.process.err.find("unshare failed") != std::string::npos) GTEST_SKIP() << "needs the right to make a namespace";
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  auto spaces = testing_support::Run({"perf", "script", "-i", dir.File("x.data"), "--show-namespace-events"});
  EXPECT_EQ(spaces.err, "");
  EXPECT_THAT(spaces.out, HasSubstr("PERF_RECORD_NAMESPACES"));
  EXPECT_THAT(spaces.out, HasSubstr("uts: "));
  auto groups = testing_support::Run({"perf", "script", "-i", dir.File("x.data"), "--show-cgroup-events"});
  EXPECT_EQ(groups.err, "");
  if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0) {
    EXPECT_THAT(groups.out, HasSubstr("PERF_RECORD_CGROUP"));
  }
}

TEST(Record, PerfReadsTheStreamWithoutAWarning) {
  SKIP_UNLESS("bpf.perf_event");
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  std::string record = testing_support::BrinkBinary() + " record -q --source replay -F 1000 -o - -- /usr/bin/python3 -c 'print(sum(i*i for i in range(2000000)))' | ";
  auto script = testing_support::Run({"/bin/sh", "-c", record + "perf script -i - -F ip,brstack"});
  EXPECT_THAT(script.out, HasSubstr("0x401"));
  EXPECT_EQ(script.err, "2666664666667000000\n");  // the command's own output does not get into the stream
  auto report = testing_support::Run({"/bin/sh", "-c", record + "perf report --stdio -b -i - 2>&1 >/dev/null"});
  EXPECT_EQ(report.out, "");  // perf's complaints
  EXPECT_EQ(report.err, "2666664666667000000\n");
}

TEST(Record, TheCommandsStatusIsTheStatus) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto status = [&](const std::vector<std::string>& command) {
    return RecordInto(dir.path(), With({"--source", "none", "-q", "-o", dir.File("x")}, command)).process.status;
  };
  EXPECT_EQ(status({"true"}), 0);
  EXPECT_EQ(status({"sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(status({"sh", "-c", "kill -9 $$"}), 137);
  EXPECT_EQ(status({"/no/such/program"}), 127);
  EXPECT_EQ(status({"/etc/passwd"}), 126);
}

TEST(Record, AnInterruptEndsInOrder) {
  SKIP_UNLESS("bpf.perf_event");
  for (int signal : {SIGINT, SIGTERM}) {
    TempDir dir;
    Background brink({testing_support::BrinkBinary(), "record", "--source", "replay", "-F", "500", "-o", dir.File("x.data"), "--", RECORD_TARGET, "spin", "100000"});
    WaitForSamples(dir.File("x.data"), 20);
    brink.Signal(SIGUSR2);  // flush only
    usleep(50'000);
    brink.Signal(signal);
    EXPECT_EQ(brink.Wait(), 0);
    FileFacts facts = ReadFacts(dir.File("x.data"));
    EXPECT_GE(facts.samples, 20u);
    EXPECT_TRUE(facts.complete);
  }
}

TEST(Record, EndsAtItsDurationAndSize) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto timed = RecordInto(dir.path(), {"--source", "replay", "-F", "500", "-o", dir.File("x"), "--duration", "500ms", "--", RECORD_TARGET, "spin", "100000"});
  EXPECT_EQ(timed.process.status, 0);
  EXPECT_EQ(timed.json["end_reason"], "duration reached");
  EXPECT_GE(timed.json["elapsed_ns"], 500'000'000);
  auto sized = RecordInto(dir.path(), {"--source", "replay", "-F", "5000", "-o", dir.File("y"), "--max-size", "200K", "--", RECORD_TARGET, "spin", "100000"});
  EXPECT_EQ(sized.process.status, 0);
  EXPECT_EQ(sized.json["end_reason"], "size limit reached");
  EXPECT_GE(sized.json["file_bytes"], 200 * 1024);
  EXPECT_TRUE(ReadFacts(dir.File("y")).complete);
}

// A command that ignores SIGTERM is killed after a grace time; a second interrupt needs no patience.
TEST(Record, ACommandThatIgnoresTheEndIsKilledAndThatIsSaid) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  const std::vector<std::string> stubborn = {"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do :; done"};
  auto timed = RecordInto(dir.path(), With({"--source", "none", "-F", "100", "-o", dir.File("x"), "--duration", "300ms"}, stubborn));
  EXPECT_EQ(timed.process.status, 0) << timed.process.err;
  EXPECT_EQ(timed.json["end_reason"], "duration reached");
  EXPECT_EQ(timed.json["command_status"], 128 + SIGKILL);
  EXPECT_THAT(timed.process.err, HasSubstr("did not end at SIGTERM and was killed"));
  Background brink(With({testing_support::BrinkBinary(), "record", "--source", "none", "-F", "100", "-o", dir.File("y")}, stubborn));
  ASSERT_EQ(brink.ReadLine(), "ready");
  brink.Signal(SIGINT);
  brink.Signal(SIGTERM);  // pending together: one ends the recording, the other the patience
  EXPECT_EQ(brink.Wait(), 0);
  EXPECT_TRUE(ReadFacts(dir.File("y")).complete);
}

TEST(Record, EachRotatedFileStandsAlone) {
  SKIP_UNLESS("bpf.perf_event");
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  TempDir dir;
  auto recording = RecordInto(dir.path(), {"--source", "replay", "-F", "1000", "-o", dir.File("x"), "--rotate", "400ms", "--", RECORD_TARGET, "spin", "1500"});
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  ASSERT_GE(recording.json["files"], 3);
  uint64_t samples = 0;
  for (int i = 1; i <= recording.json["files"]; ++i) {
    char name[32];
    std::snprintf(name, sizeof(name), "x.%06d", i);
    samples += ReadFacts(dir.File(name)).samples;
    auto script = testing_support::Run({"perf", "script", "-i", dir.File(name), "-F", "comm,ip,dso"});
    EXPECT_EQ(Complaints(script), "");
    // But for modules and BPF programs: those of other tracers on this machine come and go.
    std::istringstream lines(script.out);
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(line.find("[unknown]") == std::string::npos || line.find(" ffffffffc") != std::string::npos) << name << ": " << line;
  }
  EXPECT_EQ(samples, recording.json["samples_written"].get<uint64_t>());
}

}  // namespace
}  // namespace brink::record_test
