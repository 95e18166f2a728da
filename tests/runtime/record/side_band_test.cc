// What the kernel tells beside the samples: its own code as it comes and goes, and what to do when it told too much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>

#include "base/strings.h"
#include "support.h"
#include "support/features.h"

namespace brink::record_test {
namespace {

using testing_support::TempDir;

// A second brink loads its programs while the first records: each is there by name from its loading to its unloading.
TEST(SideBand, BpfProgramsComeAndGoInTheFile) {
  SKIP_UNLESS("bpf.perf_event");
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  TempDir dir;
  auto recording = RecordInto(dir.path(), {"--source", "none", "-F", "100", "-o", dir.File("x"), "--", testing_support::BrinkBinary(), "record", "-q",
                                           "--source", "replay", "-F", "100", "-o", dir.File("y"), "--", "true"});
  ASSERT_EQ(recording.process.status, 0) << recording.process.err;
  auto script = testing_support::Run({"perf", "script", "-i", dir.File("x"), "--show-bpf-events"});
  EXPECT_EQ(script.err, "");
  std::map<std::string, int> loads, unloads;
  for (std::string_view line : Split(script.out, '\n')) {
    size_t name = line.find("name bpf_prog_");
    if (line.find("PERF_RECORD_KSYMBOL") == line.npos || name == line.npos) continue;
    // "PERF_RECORD_KSYMBOL addr X len N type 1 flags 0x1 name bpf_prog_TAG_NAME"
    ++(line.find("flags 0x1") != line.npos ? unloads : loads)[std::string(line.substr(name + 5))];
  }
  EXPECT_FALSE(loads.empty()) << script.out;
  EXPECT_FALSE(unloads.empty());
  for (const auto& [name, times] : unloads) EXPECT_GE(loads[name], 1) << name;
}

// The collector stands still while the target makes more mappings than the ring holds, forks and loads a library. None of
// that reaches the file by the ring; /proc is read again instead, also when the kernel never gets to say what it dropped.
TEST(SideBand, AnOverflowIsCountedAndTheMappingsAreReadAgain) {
  SKIP_UNLESS("bpf.perf_event");
  if (!HasProgram("perf")) GTEST_SKIP() << "needs perf";
  TempDir dir;
  Background target({RECORD_TARGET, "flood", "1000"});
  ASSERT_EQ(target.ReadLine(), "ready");
  Background brink({testing_support::BrinkBinary(), "record", "--source", "none", "-F", "4000", "-o", dir.File("x"), "--json=" + dir.File("report.json"),
                    "--side-band-pages", "8", "-p", std::to_string(target.pid())});
  WaitForSamples(dir.File("x"), 1);
  brink.Signal(SIGSTOP);
  target.Write("go\n");
  ASSERT_EQ(target.ReadLine(), "flooded");
  brink.Signal(SIGCONT);
  // Each growth of the file is a round; the first may have begun before the stop, the next has read /proc.
  for (int round = 0; round < 4; ++round) WaitForSamples(dir.File("x"), CountSamples(dir.File("x")) + 1);
  target.Write("go\n");
  EXPECT_EQ(target.Wait(), 0);
  EXPECT_EQ(brink.Wait(), 0);
  auto json = nlohmann::json::parse(testing_support::Run({"cat", dir.File("report.json")}).out);
  // 2,000 mappings, and a ring of 32 KiB holds a few hundred.
  EXPECT_GT(json["side_band_lost"], 1000);
  EXPECT_LT(json["side_band_lost"], 10'000);
  auto script = testing_support::Run({"perf", "script", "-i", dir.File("x"), "-F", "pid,ip,dso"});
  EXPECT_EQ(script.status, 0);
  std::map<std::string, int> in_library;
  for (std::string_view line : Split(script.out, '\n')) {
    // A BPF program that somebody loaded and unloaded in the flood stays unknown; what exists is found again.
    if (line.find(" ffffffff") == line.npos) {
      EXPECT_EQ(line.find("[unknown]"), line.npos) << line;
    }
    if (line.find("libm.so") == line.npos) continue;
    size_t begin = line.find_first_not_of(' ');
    ++in_library[std::string(line.substr(begin, line.find(' ', begin) - begin))];
  }
  EXPECT_EQ(in_library.size(), 2u) << script.out.substr(0, 2000);  // the target and its child
  EXPECT_TRUE(in_library.contains(std::to_string(target.pid())));
}

}  // namespace
}  // namespace brink::record_test
