// Rights that are refused, by the kernel, a sandbox or a CPU group: what is measured all the same, and what is said.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "runtime/latency/group.h"
#include "runtime/latency/options.h"

namespace brink::latency {
namespace {

using testing::HasSubstr;

// A kernel (a sandbox, here) that refuses to let it sleep: the error is named, not "Success".
TEST(Bug, ASleepThatFailsNamesItsError) {
  TempDir dir;
  pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(dir.File("err").c_str(), O_WRONLY | O_CREAT, 0600), 2);
    sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 0, 2),
                            // Of the absolute sleeps of measuring threads only.
                            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIMER_ABSTIME, 1, 0),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)};
    sock_fprog program = {std::size(filter), filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(77);
    ::execl(BrinkBinary().c_str(), "brink", "latency", "-q", "-l", "3", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs seccomp filters";
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(*ReadFile(dir.File("err")), HasSubstr("the sleep failed: Operation not permitted"));
}

class Unprivileged : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || ::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "needs root and setpriv, to become nobody";
    ::chmod(dir_.path().c_str(), 0777);
    std::filesystem::copy_file(BrinkBinary(), dir_.File("brink"));
    ::chmod(dir_.File("brink").c_str(), 0755);
  }
  ProcessResult AsNobody(std::vector<std::string> args) {
    std::vector<std::string> words = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "prlimit", "--memlock=65536", "--rtprio=0", dir_.File("brink"), "latency"};
    words.insert(words.end(), args.begin(), args.end());
    return testing_support::Run(words);
  }
  TempDir dir_;
};

TEST_F(Unprivileged, MeasuresWhatItCanAndSaysWhatItCouldNot) {
  ProcessResult run = AsNobody({"-q", "-l", "10", "-p", "80", "-m", "--blame", "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  EXPECT_EQ(json["total"]["count"], 10);
  EXPECT_EQ(json["threads"][0]["policy"], "other");
  std::string notices = json["notices"].dump();
  for (const char* part : {"SCHED_FIFO priority 80 was refused: no CAP_SYS_NICE and RLIMIT_RTPRIO is 0", "mlockall", "cpu_dma_latency", "without reasons"}) {
    EXPECT_THAT(notices, HasSubstr(part));
    EXPECT_THAT(run.err, HasSubstr(part));
  }
}

TEST_F(Unprivileged, CyclictestsFormatEndsAsCyclictestDoesWithTheReason) {
  ProcessResult run = AsNobody({"-q", "-l", "10", "-p", "80", "--format", "cyclictest"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, testing::AllOf(HasSubstr("Unable to change scheduling policy!"), HasSubstr("no CAP_SYS_NICE")));
}

TEST(Rights, ACpuGroupWithoutRealTimeIsNamed) {
  Group group("cpu");
  if (!group.ok() || group.v2() || ::access((group.path() + "/cpu.rt_runtime_us").c_str(), F_OK) != 0) GTEST_SKIP() << "needs cpu.rt_runtime_us (the cpu controller on v1)";
  ASSERT_TRUE(group.Set("cpu.rt_runtime_us", "0"));
  ProcessResult run = testing_support::Run({"/bin/sh", "-c", "echo $$ > " + group.path() + "/cgroup.procs; exec " + BrinkBinary() + " latency -q -l 5 -p 80 --format json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("has cpu.rt_runtime_us 0"));
  EXPECT_THAT(nlohmann::json::parse(run.out, nullptr, false)["notices"].dump(), HasSubstr("cpu.rt_runtime_us 0"));
}

}  // namespace
}  // namespace brink::latency
