// Conditions as decided in the kernel, against their truth worked out here: lseek(fd, i) for i in -3..4.
#include <gtest/gtest.h>

#include <functional>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

struct Row {
  const char* expression;
  std::function<bool(int64_t offset, int64_t ret)> truth;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.expression; }

class Conditions : public testing::TestWithParam<Row> {};

TEST_P(Conditions, KeepWhatIsTrue) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "syscall:lseek", "--if", GetParam().expression}, "seeks");
  std::vector<int64_t> expected, seen;
  for (int64_t i = -3; i <= 4; ++i) {
    int64_t ret = i < 0 ? -22 : i;
    if (GetParam().truth(i, ret)) expected.push_back(ret);
  }
  for (const auto& capture : snapped.captures) seen.push_back(capture["ret"]);
  EXPECT_EQ(seen, expected) << snapped.process.err;
}

INSTANTIATE_TEST_SUITE_P(
    TruthTable, Conditions,
    testing::Values(Row{"ret < 0", [](int64_t, int64_t ret) { return ret < 0; }},
                    Row{"ret >= 0", [](int64_t, int64_t ret) { return ret >= 0; }},
                    Row{"ret == -EINVAL", [](int64_t, int64_t ret) { return ret == -22; }},
                    Row{"ret in {-EINVAL, 3}", [](int64_t, int64_t ret) { return ret == -22 || ret == 3; }},
                    Row{"ret in {-EACCES, -ENOENT}", [](int64_t, int64_t) { return false; }},
                    Row{"args.1 == 2", [](int64_t offset, int64_t) { return offset == 2; }},
                    Row{"args.offset & 1", [](int64_t offset, int64_t) { return offset & 1; }},
                    Row{"not args.offset & 1", [](int64_t offset, int64_t) { return !(offset & 1); }},
                    Row{"ret > 0 and args.offset & 2", [](int64_t offset, int64_t ret) { return ret > 0 && (offset & 2); }},
                    Row{"ret == 0 or ret == 4", [](int64_t, int64_t ret) { return ret == 0 || ret == 4; }},
                    Row{"ret == 1 and comm == 'nobody'", [](int64_t, int64_t) { return false; }},
                    Row{"ret == 1 and comm == runtime_snap and uid == 0", [](int64_t, int64_t ret) { return ret == 1; }},
                    Row{"ret is unknown", [](int64_t, int64_t) { return false; }},
                    Row{"ctx.duration > 10s", [](int64_t, int64_t) { return false; }},
                    Row{"ctx.duration < 10s and ret == 4", [](int64_t, int64_t ret) { return ret == 4; }}));

TEST(SnapRates, NthTakesEachNth) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "syscall:lseek", "--nth", "3"}, "seeks");
  ASSERT_EQ(snapped.captures.size(), 2u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["hit"], 3);
  EXPECT_EQ(snapped.captures[1]["hit"], 6);
}

TEST(SnapRates, CountEndsTheRun) {
  SKIP_UNLESS("bpf.raw_tp");
  EXPECT_EQ(Snap({"--on", "syscall:lseek", "--count", "2"}, "seeks").captures.size(), 2u);
}

TEST(SnapRates, OncePerKey) {
  SKIP_UNLESS("bpf.raw_tp");
  EXPECT_EQ(Snap({"--on", "syscall:lseek", "--once-per", "pid"}, "seeks").captures.size(), 1u);
  EXPECT_EQ(Snap({"--on", "syscall:lseek", "--once-per", "ret"}, "seeks").captures.size(), 6u);  // -22, 0, 1, 2, 3, 4
  EXPECT_EQ(Snap({"--on", "syscall:lseek", "--once-per", "args.offset"}, "seeks").captures.size(), 8u);
}

TEST(SnapRates, LimitIsASecondly) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "syscall:lseek", "--limit", "3/s"}, "seeks");
  // Eight calls in far less than a second, which may fall into two.
  EXPECT_GE(snapped.captures.size(), 3u);
  EXPECT_LE(snapped.captures.size(), 6u);
}

TEST(SnapRates, SlowerThanMeasuresTheCall) {
  SKIP_UNLESS("bpf.uretprobe");
  Snapped snapped = Snap({"--on", "ur:" + Self() + ":snap_sleep", "--slower-than", "25ms"}, "sleeps");
  ASSERT_FALSE(snapped.captures.empty()) << snapped.process.err;
  bool long_one = false;
  for (const auto& capture : snapped.captures) {
    EXPECT_GE(capture["duration_ns"], 25'000'000);
    long_one = long_one || capture["duration_ns"] >= 30'000'000;
  }
  EXPECT_TRUE(long_one);
}

}  // namespace
}  // namespace brink::snap_tests
