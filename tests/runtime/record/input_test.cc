// Bad input: one clear line each, and the status that the documentation promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "support.h"
#include "support/features.h"

namespace brink::record_test {
namespace {

using testing::HasSubstr;
using testing_support::RunBrink;

struct Case {
  const char* name;
  std::vector<std::string> words;
  int status;
  const char* says;
};

class BadInput : public testing::TestWithParam<Case> {};

TEST_P(BadInput, IsOneClearLine) {
  const Case& c = GetParam();
  std::vector<std::string> words = {"record"};
  if (std::find(c.words.begin(), c.words.end(), "-o") == c.words.end()) words.insert(words.end(), {"-o", "/dev/null"});
  words.insert(words.end(), c.words.begin(), c.words.end());
  auto result = RunBrink(words);
  EXPECT_EQ(result.status, c.status) << result.err;
  EXPECT_THAT(result.err, HasSubstr(c.says));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Record, BadInput,
    testing::Values(
        Case{"UnknownEvent", {"-e", "cycels", "-a"}, 2, "cycels"},
        Case{"DeadProcess", {"-p", "4194303"}, 1, "process 4194303: no such process"},
        Case{"DeadThread", {"-t", "4194303"}, 1, "no such thread"},
        Case{"NoNumber", {"-p", "12x"}, 2, "'12x' is no id"},
        Case{"NoTarget", {}, 2, "nothing to record"},
        Case{"TwoTargets", {"-a", "-p", "1"}, 2, "choose one of"},
        Case{"TwoSources", {"--source", "lbr", "--source", "walk", "-a"}, 2, "a recording has one source"},
        Case{"UnknownSource", {"--source", "lrb", "-a"}, 2, "lrb"},
        Case{"TooFast", {"-F", "1000000", "-a"}, 2, "100"},
        Case{"TwoRates", {"-F", "100", "-c", "100", "-a"}, 2, "choose one of -F and -c"},
        Case{"OfflineCpu", {"--source", "none", "-C", "999"}, 1, "CPU 999 is not online"},
        Case{"NoCgroup", {"--source", "none", "-G", "no/such/group"}, 1, "no/such/group"},
        Case{"ReadOnlyFolder", {"--source", "none", "-o", "/sys/x.data", "-a"}, 1, "/sys/x.data"},
        Case{"NoFolder", {"--source", "none", "-o", "/no/such/folder/x.data", "-a"}, 1, "/no/such/folder/x.data"},
        Case{"OddRing", {"--ring-size", "3M", "-a"}, 2, "power of two"},
        Case{"SmallBuffer", {"--buffer-size", "1K", "-a"}, 2, "--buffer-size"},
        Case{"RotateWithoutUnit", {"--rotate", "10", "-a"}, 2, "--rotate"},
        Case{"DwarfChains", {"--call-graph", "dwarf", "-a"}, 2, "only fp"},
        Case{"PerfsMmapPages", {"-m", "128", "-a"}, 2, "--ring-size"},
        Case{"WriterCpu", {"--source", "none", "--writer-cpu", "999", "-a"}, 2, "--writer-cpu 999"},
        Case{"FilterWithoutSource", {"--source", "none", "-b", "-a"}, 2, "-b and -j"},
        Case{"CommandNotStarted", {"--source", "none", "-o", "/sys/x.data", "--", "true"}, 125, "/sys/x.data"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BadInputOfTheMachine, AKernelWithoutBtf) {
  auto result = RunBrink({"record", "--source", "none", "-o", "/dev/null", "-a"}, {.env = {"BRINK_FAKE=kernel.btf=off"}});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("kernel.btf"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(BadInputOfTheMachine, NoRights) {
  if (geteuid() != 0 || !HasProgram("setpriv")) GTEST_SKIP() << "needs root and setpriv";
  testing_support::TempDir dir;
  // The build may lie where nobody else may look: a copy.
  std::string binary = dir.File("brink");
  ASSERT_EQ(testing_support::Run({"/bin/sh", "-c", "chmod 755 " + dir.path() + " && cp " + testing_support::BrinkBinary() + " " + binary}).status, 0);
  auto result = testing_support::Run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary, "record", "--source", "none", "-o", "/dev/null", "-a"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("setcap cap_bpf,cap_perfmon"));
  EXPECT_THAT(result.err, HasSubstr(binary));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(Rights, TwoCapabilitiesAreEnough) {
  SKIP_UNLESS("bpf.perf_event");
  if (geteuid() != 0 || !HasProgram("setpriv")) GTEST_SKIP() << "needs root and setpriv";
  testing_support::TempDir dir;
  ASSERT_EQ(testing_support::Run({"/bin/sh", "-c", "chmod 777 " + dir.path() + " && cp " + testing_support::BrinkBinary() + " " + dir.File("brink")}).status, 0);
  auto result = testing_support::Run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon",
                                      dir.File("brink"), "record", "--source", "none", "-F", "1000", "-o", dir.File("x.data"), "--", "/bin/sh", "-c",
                                      "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(ReadFacts(dir.File("x.data")).samples, 50u) << result.err;
}

}  // namespace
}  // namespace brink::record_test
