// Processes that mean harm while they are recorded: by their names, their code, their groups and their mappings.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "limits.h"
#include "support/cgroup.h"
#include "support/features.h"

namespace brink::hostile {
namespace {

constexpr const char* kRestless = R"(
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static const char *names[] = {"\033[31mred\033[0m", "one\ntwo", "=1+1", "\xc2\x9b" "31m", "", "\xff\xfe"};
int main(int argc, char **argv) {
  struct timespec now, end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += 3;
  long n = 0;
  do {
    prctl(PR_SET_NAME, names[n % 6]);
    unsigned char *code = mmap((void *)(0x200000000000 + n % 64 * 0x10000), 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    /* mov ecx, 2000; loop: dec ecx; jnz loop; ret, at a place that changes */
    static const unsigned char loop[] = {0xb9, 0xd0, 0x07, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    unsigned char *at = code + n * 37 % 0x3000;
    memcpy(at, loop, sizeof loop);
    mprotect(code, 0x4000, PROT_READ | PROT_EXEC);
    ((void (*)(void))at)();
    if (n % 3 == 0) munmap(code, 0x4000);
    ++n;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
  printf("%ld\n", n);
  return 0;
}
)";

TEST(Restless, IsRecordedWithinLimitsAndWithoutItsEscapes) {
  SKIP_UNLESS("source.walk");
  testing_support::TempDir dir;
  std::ofstream(dir.File("restless.c")) << kRestless;
  auto built = testing_support::Run({"gcc", "-O1", "-o", dir.File("restless"), dir.File("restless.c")});
  if (built.status != 0) GTEST_SKIP() << "needs gcc";
  auto run = Harmless({"record", "--source", "walk", "-F", "1000", "--walk-share", "2", "-o", dir.File("it.data"), "--", dir.File("restless")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_GT(std::stol(run.out), 100) << "it went on all the time";
  auto report = Harmless({"report", "-i", dir.File("it.data"), "-t", "functions,branches,stops"});
  EXPECT_EQ(report.status, 0) << report.err;
  Harmless({"script", "-i", dir.File("it.data")});
  Harmless({"report", "-i", dir.File("it.data"), "--html", dir.File("page.html")});
}

// A group of cgroup v2 that is removed again.
class Group {
 public:
  explicit Group(const std::string& name) : path_(testing_support::CgroupV2Mount() + "/" + name) { error_ = mkdir(path_.c_str(), 0755) == 0 ? 0 : errno; }
  ~Group() {
    for (int i = 0; error_ == 0 && i < 100 && rmdir(path_.c_str()) != 0; ++i) usleep(20'000);
  }
  int error() const { return error_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int error_;
};

TEST(Groups, NamesOfRealOnesReachNoTerminal) {
  SKIP_UNLESS("source.walk");
  if (access((testing_support::CgroupV2Mount() + "/cgroup.procs").c_str(), W_OK) != 0) GTEST_SKIP() << "needs a cgroup v2 hierarchy that may be written";
  const std::string own = "brink-" + std::to_string(getpid());
  // The kernel itself refuses the line end (5.1 and later); where it does not, it is one more name.
  for (const char* bad : {"\nbrink: all is well\n", "\033[31mred\033]0;title\a\r", "=1+1,\"<b>", "\xc2\x9b" "31m\xe2\x80\xae", "\xff\xfe\\012"}) {
    Group group(own + bad);
    if (group.error()) {
      EXPECT_EQ(group.error(), EINVAL) << strerror(group.error());
      EXPECT_NE(strchr(bad, '\n'), nullptr) << "only a line end is refused";
      continue;
    }
    testing_support::TempDir dir;
    const std::string data = dir.File("it.data");
    std::ofstream(dir.File("in.sh")) << "echo $$ > \"$1/cgroup.procs\"; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; true";
    // Whole CPUs for a moment, so that the name comes from the kernel's own records and from the list at the start.
    for (const std::vector<std::string>& whose : {std::vector<std::string>{"-a"}, {}}) {
      std::vector<std::string> words = {"record", "--source", "none", "--all-cgroups", "-F", "999", "-o", data};
      words.insert(words.end(), whose.begin(), whose.end());
      for (const std::string& word : {std::string("--"), std::string("/bin/sh"), dir.File("in.sh"), group.path()}) words.push_back(word);
      EXPECT_EQ(Harmless(words).status, 0);
      // Of the group alone: symbols of whatever else runs may be of any size.
      Harmless({"script", "-i", data, "--format", "json", "--where", "cgroup ~ 'brink'"});
      Harmless({"report", "-i", data, "-t", "functions", "--json"});
      Harmless({"report", "-i", data, "--where", "cgroup ~ 'brink'"});
      Harmless({"report", "-i", data, "--html", dir.File("page.html")});
    }
    // Named on the command line it is escaped in what brink says.
    Harmless({"record", "--source", "none", "-G", own + bad, "--duration", "50ms", "-o", data});
    Harmless({"record", "--source", "none", "-G", std::string("no") + bad, "--duration", "50ms", "-o", data});
  }
}

constexpr const char* kMapper = R"(
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  int fd = open(argv[0], O_RDONLY);
  for (long i = atol(argv[1]); i > 0; --i)
    if (mmap((void *)(0x200000000000 + i % 512 * 0x2000), 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) return 1;
  return 0;
}
)";

// A million with BRINK_LONG=1: as many records, or losses that are counted.
TEST(Flood, OfMappingsIsRecordedWithinLimits) {
  SKIP_UNLESS("source.walk");
  const long count = std::getenv("BRINK_LONG") ? 1'000'000 : 20'000;
  testing_support::TempDir dir;
  std::ofstream(dir.File("mapper.c")) << kMapper;
  auto built = testing_support::Run({"gcc", "-O1", "-o", dir.File("mapper"), dir.File("mapper.c")});
  if (built.status != 0) GTEST_SKIP() << "needs gcc";
  for (const char* source : {"none", "walk"}) {
    auto run = Harmless({"record", "--source", source, "-F", "199", "-o", dir.File("it.data"), "--json=" + dir.File("it.json"), "--", dir.File("mapper"), std::to_string(count)});
    EXPECT_EQ(run.status, 0) << run.err;
    nlohmann::json report = nlohmann::json::parse(std::ifstream(dir.File("it.json")), nullptr, false);
    const uint64_t told = report["side_band_records"].get<uint64_t>() + report["side_band_lost"].get<uint64_t>();
    EXPECT_GE(told, static_cast<uint64_t>(count)) << report.dump();
    EXPECT_EQ(report["samples_sent"].get<uint64_t>(), report["samples_written"].get<uint64_t>() + report["samples_lost"].get<uint64_t>());
    Harmless({"report", "-i", dir.File("it.data"), "-t", "functions"});
  }
}

}  // namespace
}  // namespace brink::hostile
