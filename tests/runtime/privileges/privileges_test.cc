// brink record with few rights, and what it keeps of many.
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing_support::ProcessResult;
using testing_support::RunBrink;
using testing_support::TempDir;

constexpr char kBusy[] = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

class Privileges : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !std::filesystem::exists("/usr/bin/setpriv")) GTEST_SKIP() << "needs root and setpriv to drop rights";
    SKIP_UNLESS("bpf.perf_event");
    SKIP_UNLESS("perf.cpu_clock");
    ::chmod(dir_.path().c_str(), 0777);
    std::filesystem::copy_file(testing_support::BrinkBinary(), dir_.File("brink"));
    ::chmod(dir_.File("brink").c_str(), 0755);
  }

  ProcessResult RecordAsNobody(const std::string& caps) {
    std::string set = caps.empty() ? "-all" : "-all," + caps;
    return testing_support::Run({"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=" + set, "--ambient-caps=" + set,
                                 dir_.File("brink"), "record", "--source", "none", "-F", "1000", "-o", dir_.File("out.data"), "--json=" + dir_.File("report.json"),
                                 "--", "sh", "-c", kBusy},
                                {.cwd = dir_.path()});
  }

  TempDir dir_;
};

TEST_F(Privileges, TwoCapabilitiesRecordAndTheFileIsPrivate) {
  ProcessResult result = RecordAsNobody("+bpf,+perfmon");
  ASSERT_EQ(result.status, 0) << result.err;
  struct stat st;
  ASSERT_EQ(::stat(dir_.File("out.data").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(st.st_uid, 65534u);
  EXPECT_THAT(result.err, ContainsRegex("[1-9][0-9]* samples"));
}

TEST_F(Privileges, WithoutRightsOneLineWithTheSetcapCommandAndNoFile) {
  ProcessResult result = RecordAsNobody("");
  EXPECT_EQ(result.status, 125);
  EXPECT_THAT(result.err, HasSubstr("setcap cap_bpf,cap_perfmon+ep " + dir_.File("brink")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(std::filesystem::exists(dir_.File("out.data")));
}

// CAP_SYS_ADMIN is bit 21; the command keeps what the user had, brink does not.
TEST_F(Privileges, RootsRightsAreGivenUpAfterLoadAndTheCommandKeepsItsOwn) {
  ProcessResult result = RunBrink({"record", "--source", "none", "-q", "-o", dir_.File("root.data"), "--", "sh", "-c",
                                   "grep -E 'CapEff|NoNewPrivs' /proc/$PPID/status; echo own; grep -E 'CapEff|NoNewPrivs' /proc/self/status"});
  ASSERT_EQ(result.status, 0) << result.err;
  size_t own = result.out.find("own\n");
  ASSERT_NE(own, std::string::npos) << result.out;
  auto effective = [](const std::string& text) { return std::stoull(text.substr(text.find("CapEff:") + 8), nullptr, 16); };
  constexpr uint64_t kSysAdmin = 1ull << 21;
  EXPECT_EQ(effective(result.out.substr(0, own)) & kSysAdmin, 0u) << result.out;
  EXPECT_THAT(result.out.substr(0, own), HasSubstr("NoNewPrivs:\t1"));
  EXPECT_NE(effective(result.out.substr(own)) & kSysAdmin, 0u) << result.out;
  EXPECT_THAT(result.out.substr(own), HasSubstr("NoNewPrivs:\t0"));
}

}  // namespace
}  // namespace brink
