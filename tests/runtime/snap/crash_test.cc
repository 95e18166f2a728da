// The crash flight recorder: what is known of a process that is about to die, however it dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::Contains;

struct Crash {
  const char* mode;
  const char* signal;
  const char* code;
  const char* chain;   // function that must be on the chain
  bool leader = true;  // the thread that dies is the leader
  int status = 139;
};
void PrintTo(const Crash& crash, std::ostream* out) { *out << crash.mode; }

class Crashes : public testing::TestWithParam<Crash> {};

TEST_P(Crashes, AreCapturedOnceWithTheirCause) {
  SKIP_UNLESS("bpf.raw_tp");
  const Crash& crash = GetParam();
  const size_t rounds = std::getenv("BRINK_LONG") ? 100 : 5;
  // One session sees them all, one after the other.
  const std::string loop = "i=0; while [ $i -lt " + std::to_string(rounds) + " ]; do " + Self() + " --target " + crash.mode + "; s=$?; i=$((i+1)); done; exit $s";
  auto result = testing_support::RunBrink({"snap", "--on", "signal:SEGV,ABRT", "--json", "--", "sh", "-c", loop}, {.timeout = std::chrono::seconds(300)});
  EXPECT_EQ(result.status, crash.status) << result.err;
  std::vector<nlohmann::json> captures;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) captures.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(captures.size(), rounds) << result.err;
  for (const nlohmann::json& capture : captures) {
    EXPECT_EQ(capture["signal"]["name"], crash.signal);
    EXPECT_EQ(capture["signal"]["code"], crash.code);
    EXPECT_EQ(capture["pid"] == capture["tid"], crash.leader);
    EXPECT_TRUE(capture.contains("registers"));
    EXPECT_THAT(ChainOf(capture, "user_chain"), Contains(crash.chain)) << capture.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Crashes,
                         testing::Values(Crash{"segv", "SIGSEGV", "SEGV_MAPERR", "snap_fault"},
                                         Crash{"abort", "SIGABRT", "SI_TKILL", "snap_abort", true, 134},
                                         Crash{"overflow", "SIGSEGV", "SEGV_MAPERR", "snap_overflow"},
                                         Crash{"thread-overflow", "SIGSEGV", "SEGV_ACCERR", "snap_overflow", false},
                                         Crash{"altstack-overflow", "SIGSEGV", "SEGV_ACCERR", "snap_overflow"},
                                         Crash{"jump-to-0", "SIGSEGV", "SEGV_MAPERR", "snap_jump"},
                                         Crash{"blocked", "SIGSEGV", "SEGV_MAPERR", "snap_fault"},
                                         Crash{"ignored", "SIGSEGV", "SEGV_MAPERR", "snap_fault"},
                                         Crash{"nested", "SIGSEGV", "SEGV_MAPERR", "snap_fault"},
                                         Crash{"sent", "SIGSEGV", "SI_USER", "main", true, 0},
                                         Crash{"thread", "SIGSEGV", "SEGV_MAPERR", "snap_fault", false}));

TEST(CrashDetails, FaultAddressAndRegistersAreTheKernels) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "signal:SEGV"}, "segv");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_EQ(snapped.captures[0]["signal"]["address"], "0x8");
  EXPECT_EQ(snapped.captures[0]["place"]["symbol"], "snap_fault");
#if defined(__x86_64__)
  EXPECT_EQ(snapped.captures[0]["registers"]["di"], "0x8");
  EXPECT_EQ(snapped.captures[0]["registers"]["ip"], snapped.captures[0]["place"]["address"]);
#endif
}

TEST(CrashDetails, SenderIsNamed) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "signal:SEGV"}, "sent");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  EXPECT_NE(snapped.captures[0]["signal"]["sender_pid"], snapped.captures[0]["pid"]);
  EXPECT_TRUE(snapped.captures[0]["signal"]["address"].is_null());
}

TEST(CrashDetails, CallerOfNowhereIsMarkedAsGuessed) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "signal:SEGV"}, "jump-to-0");
  ASSERT_EQ(snapped.captures.size(), 1u) << snapped.process.err;
  bool guessed = false;
  for (const auto& at : snapped.captures[0]["user_chain"]) guessed = guessed || (at.contains("guessed") && at["symbol"] == "snap_jump");
  EXPECT_TRUE(guessed) << snapped.captures[0].dump();
}

TEST(CrashDetails, HandledFaultsAreNoCrashes) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapped snapped = Snap({"--on", "signal:SEGV"}, "handled-faults");
  EXPECT_EQ(snapped.process.status, 0);
  EXPECT_EQ(snapped.captures.size(), 0u) << snapped.process.err;
}

}  // namespace
}  // namespace brink::snap_tests
