// A process that changes its name and its code while it is recorded.
#include <fstream>

#include <gmock/gmock.h>

#include "limits.h"
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
  auto run = Harmless({"record", "--source", "walk", "-F", "1000", "-o", dir.File("it.data"), "--", dir.File("restless")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_GT(std::stol(run.out), 100) << "it went on all the time";
  auto report = Harmless({"report", "-i", dir.File("it.data"), "-t", "functions,branches,stops"});
  EXPECT_EQ(report.status, 0) << report.err;
  Harmless({"script", "-i", dir.File("it.data")});
  Harmless({"report", "-i", dir.File("it.data"), "--html", dir.File("page.html")});
}

}  // namespace
}  // namespace brink::hostile
