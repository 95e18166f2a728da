// The real brink doctor, with several rights.
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::BrinkBinary;
using testing_support::ProcessResult;
using testing_support::RunBrink;
using testing_support::TempDir;

json Parse(const std::string& text) { return json::parse(text, nullptr, false); }

json FeatureOf(const json& doctor, const std::string& name) {
  for (const auto& feature : doctor["features"]) {
    if (feature["name"] == name) return feature;
  }
  return {};
}

// As user nobody with just these capabilities ("+bpf,+perfmon"). The binary is copied to where nobody may run it.
ProcessResult RunAsNobody(const std::string& caps, std::vector<std::string> args) {
  static TempDir dir;
  static const std::string copy = [] {
    ::chmod(dir.path().c_str(), 0755);
    std::filesystem::copy_file(BrinkBinary(), dir.File("brink"));
    ::chmod(dir.File("brink").c_str(), 0755);
    return dir.File("brink");
  }();
  std::string set = caps.empty() ? "-all" : "-all," + caps;
  std::vector<std::string> argv = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=" + set, "--ambient-caps=" + set, copy};
  argv.insert(argv.end(), args.begin(), args.end());
  return testing_support::Run(argv);
}

bool Root() { return ::geteuid() == 0 && std::filesystem::exists("/usr/bin/setpriv"); }

TEST(Doctor, TextAndJsonAgree) {
  ProcessResult text = RunBrink({"doctor"});
  ProcessResult machine = RunBrink({"doctor", "--json"});
  ASSERT_EQ(text.status, 0) << text.err;
  ASSERT_EQ(machine.status, 0) << machine.err;
  json doctor = Parse(machine.out);
  ASSERT_FALSE(doctor.is_discarded());
  std::string name = doctor["auto_source"]["name"].is_null() ? "nothing" : doctor["auto_source"]["name"];
  EXPECT_THAT(text.out, HasSubstr("--source auto takes " + name));
  for (const auto& feature : doctor["features"]) {
    if (feature["on"]) continue;
    EXPECT_FALSE(feature["reason"].get<std::string>().empty()) << feature["name"];
  }
}

// By its CPU time, which the load of the machine does not change: it works 0.15 s here.
TEST(Doctor, IsQuick) {
  auto used = [] {
    rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  };
  double before = used();
  json doctor = Parse(RunBrink({"doctor", "--json"}).out);
  EXPECT_GT(doctor["took_ns"].get<uint64_t>(), 0u);
  EXPECT_LT(used() - before, 3.0);
}

TEST(Doctor, JsonFollowsItsSchema) {
  if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
  TempDir dir;
  ASSERT_EQ(RunBrink({"doctor", "--json=" + dir.File("doctor.json")}).status, 0);
  ProcessResult check = testing_support::Run({"/usr/bin/python3", "-c",
                             "import json,sys,jsonschema\n"
                             "jsonschema.Draft202012Validator(json.load(open(sys.argv[1]))).validate(json.load(open(sys.argv[2])))",
                             testing_support::SourceDir() + "/docs/schema/doctor.json", dir.File("doctor.json")});
  EXPECT_EQ(check.status, 0) << check.err;
}

TEST(Doctor, ReportFilesArePrivate) {
  TempDir dir;
  ASSERT_EQ(RunBrink({"doctor", "--json=" + dir.File("doctor.json")}).status, 0);
  struct stat st;
  ASSERT_EQ(::stat(dir.File("doctor.json").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST(Doctor, FakesReachWhatBuildsOnThem) {
  json doctor = Parse(RunBrink({"doctor", "--json", "--fake", "bpf.perf_event=off", "--fake", "perf.exec_breakpoint=off"}).out);
  EXPECT_TRUE(FeatureOf(doctor, "bpf.perf_event")["fake"]);
  EXPECT_FALSE(FeatureOf(doctor, "source.walk")["on"]);
  EXPECT_FALSE(FeatureOf(doctor, "source.hop")["on"]);
  json by_env = Parse(RunBrink({"doctor", "--json"}, {.env = {"BRINK_FAKE=source.lbr=on"}}).out);
  EXPECT_EQ(by_env["auto_source"]["name"], "lbr");
}

TEST(Doctor, BadUseIsOneLineAndStatusTwo) {
  for (std::vector<std::string> args : {std::vector<std::string>{"doctor", "--fake", "nonsense=off"}, {"doctor", "--need", "nonsense"}, {"doctor", "word"}}) {
    ProcessResult result = RunBrink(args);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_THAT(RunBrink({"doctor", "--fake", "bpf.lop=off"}).err, HasSubstr("did you mean 'bpf.loop'"));
}

TEST(Doctor, NeedFailsWithTheReason) {
  ProcessResult result = RunBrink({"doctor", "--need", "bpf.loop", "--fake", "bpf.loop=off"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("bpf.loop does not work here"));
  EXPECT_EQ(RunBrink({"doctor", "--need", "bpf.loop", "--fake", "bpf.loop=on"}).status, 0);
}

TEST(Doctor, CalibrationSaysWhyThereIsNone) {
  ProcessResult result = RunBrink({"doctor", "--calibrate", "--fake", "branch.snapshot=off"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("snapshots: not measured: branch.snapshot does not work here"));
}

TEST(Doctor, TwoCapabilitiesAreEnough) {
  if (!Root()) GTEST_SKIP() << "needs root and setpriv to drop rights";
  SKIP_UNLESS("bpf.perf_event");
  json doctor = Parse(RunAsNobody("+bpf,+perfmon", {"doctor", "--json"}).out);
  ASSERT_FALSE(doctor.is_discarded());
  // Debian's kernels have a third level, at which perf events are root's.
  bool perf_is_roots = std::stoi(ReadFile("/proc/sys/kernel/perf_event_paranoid").value_or("2")) > 2;
  for (const char* name : {"bpf.perf_event", "bpf.raw_tp", "bpf.ringbuf", "bpf.loop", "perf.cpu_clock"}) {
    json feature = FeatureOf(doctor, name);
    if (perf_is_roots && std::string(name).find("perf") != std::string::npos) {
      EXPECT_EQ(feature["remedy"], "run as root, or sysctl kernel.perf_event_paranoid=2") << feature;
    } else {
      EXPECT_TRUE(feature["on"]) << feature;
    }
  }
}

TEST(Doctor, WithoutRightsItNamesTheSetcapLine) {
  if (!Root()) GTEST_SKIP() << "needs root and setpriv to drop rights";
  ProcessResult result = RunAsNobody("", {"doctor", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  json doctor = Parse(result.out);
  json perf_event = FeatureOf(doctor, "bpf.raw_tp");
  EXPECT_FALSE(perf_event["on"]);
  EXPECT_THAT(perf_event["remedy"].get<std::string>(), testing::MatchesRegex("setcap cap_bpf,cap_perfmon\\+ep /.*/brink"));
  EXPECT_EQ(perf_event["remedy"], doctor["setcap"]);
}

}  // namespace
}  // namespace brink
