// --trace-between: what a function does from its entry on, without branch hardware.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using testing::HasSubstr;

using Branches = std::vector<std::pair<std::string, std::string>>;

Branches BranchesOf(const nlohmann::json& trace) {
  Branches out;
  for (const auto& branch : trace["branches"]) out.emplace_back(branch["from"]["address"], branch["to"]["address"]);
  return out;
}

const std::string& Span() {
  static const std::string span = Self() + ":snap_decide";
  return span;
}

// What single steps say: the truth.
const std::vector<nlohmann::json>& Stepped() {
  static const std::vector<nlohmann::json> traces = Snap({"--trace-between", Span(), "--source", "step", "--count", "3"}, "decide").captures;
  return traces;
}

TEST(SnapTrace, StepFollowsEachCallToItsReturn) {
  SKIP_UNLESS("source.step");
  ASSERT_EQ(Stepped().size(), 3u);
  for (const auto& trace : Stepped()) {
    EXPECT_EQ(trace["schema"], "brink.snap.trace.v1");
    EXPECT_EQ(trace["direction"], "future");
    EXPECT_EQ(trace["source"], "step");
    EXPECT_EQ(trace["reached"], true) << trace.dump();
    EXPECT_EQ(trace["place"]["symbol"], "snap_decide");
    const auto& branches = trace["branches"];
    ASSERT_GT(branches.size(), 4u) << "a loop of five characters";
    EXPECT_EQ(branches.back()["kind"], "ret");
    EXPECT_EQ(branches.back()["from"]["symbol"], "snap_decide");
    // The same input decides the same.
    EXPECT_EQ(BranchesOf(trace), BranchesOf(Stepped()[0]));
  }
}

TEST(SnapTrace, WalkSaysTheSameAsStep) {
  SKIP_UNLESS("source.walk");
  SKIP_UNLESS("source.step");
  SKIP_UNLESS("perf.exec_breakpoint");
  Snapped walked = Snap({"--trace-between", Span(), "--source", "walk"}, "decide");
  size_t whole = 0;
  for (const auto& trace : walked.captures) {
    EXPECT_EQ(trace["source"], "walk");
    if (trace["reached"] != true) {
      EXPECT_TRUE(trace["stop"].is_string());
      continue;
    }
    ++whole;
    EXPECT_EQ(BranchesOf(trace), BranchesOf(Stepped()[0]));
  }
  // The first ones find code that has not been lifted.
  EXPECT_GE(whole, 100u) << walked.process.err;
  EXPECT_EQ(walked.captures.size(), 400u) << walked.process.err;
}

TEST(SnapTrace, OfARunningProcess) {
  SKIP_UNLESS("source.step");
  pid_t child = fork();
  if (child == 0) {
    execl(Self().c_str(), "runtime_snap", "--target", "decide-on", nullptr);
    _exit(127);
  }
  // The program is there once its name is: before, the child is a copy of this one.
  const std::string name = "/proc/" + std::to_string(child) + "/cmdline";
  for (std::string words; words.find("decide-on") == std::string::npos;) {
    std::ifstream in(name);
    words.assign(std::istreambuf_iterator<char>(in), {});
    ASSERT_TRUE(in.is_open());
  }
  auto result = testing_support::RunBrink({"snap", "--trace-between", Span(), "--source", "step", "--count", "2", "--json", "-p", std::to_string(child)});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"reached\":true"));
}

// In a pid namespace of its own: both numbers are shown.
TEST(SnapTrace, PidsAreThoseOfBothNamespaces) {
  SKIP_UNLESS("source.step");
  const pid_t outer = fork();
  if (outer == 0) {
    execlp("unshare", "unshare", "--pid", "--fork", "--kill-child", Self().c_str(), "--target", "decide-on", nullptr);
    _exit(127);
  }
  const std::string children = "/proc/" + std::to_string(outer) + "/task/" + std::to_string(outer) + "/children";
  pid_t inner = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (std::string words; words.find("decide-on") == std::string::npos && std::chrono::steady_clock::now() < until;) {
    std::ifstream(children) >> inner;
    std::ifstream in("/proc/" + std::to_string(inner) + "/cmdline");
    words.assign(std::istreambuf_iterator<char>(in), {});
    // Before its exec the child is a copy of unshare, whose words name the mode too.
    if (words.starts_with("unshare")) words.clear();
    int status;
    if (waitpid(outer, &status, WNOHANG) == outer) GTEST_SKIP() << "needs unshare and its rights";
  }
  ASSERT_GT(inner, 0);
  auto json = testing_support::RunBrink({"snap", "--trace-between", Span(), "--source", "step", "--count", "1", "--json", "-p", std::to_string(inner)});
  auto text = testing_support::RunBrink({"snap", "--trace-between", Span(), "--source", "step", "--count", "1", "-p", std::to_string(inner)});
  kill(outer, SIGKILL);
  waitpid(outer, nullptr, 0);
  EXPECT_THAT(json.out, HasSubstr("\"inner_pid\":1,\"inner_tid\":1")) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"pid\":" + std::to_string(inner)));
  EXPECT_THAT(text.out, HasSubstr("(inside: pid 1 tid 1)")) << text.err;
}

TEST(SnapTrace, TextShowsLinesInTheirOrder) {
  SKIP_UNLESS("source.step");
  auto result = testing_support::RunBrink({"snap", "--trace-between", Span(), "--source", "step", "--count", "1", "--", Self(), "--target", "decide"});
  EXPECT_THAT(result.out, HasSubstr("branches that followed, in their order (step)"));
  EXPECT_THAT(result.out, HasSubstr("target.cc:"));
  EXPECT_THAT(result.out, HasSubstr("reached its return after"));
}

TEST(SnapTrace, MistakesAreExplained) {
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"--trace-between", "main", "--", "true"}, "PATH:ENTRY..EXIT"},
      {{"--trace-between", Self() + ":snap_decde", "--", Self()}, "snap_decide"},
      {{"--trace-between", Span()}, "needs one process"},
      {{"--trace-between", "libc:strlen", "--", Self()}, "-p PID"},
      {{"--trace-between", Span(), "--on", "exec", "--", Self()}, "stands alone"},
      {{"--trace-between", Span(), "--source", "lbr", "--", Self()}, "walk, step or hop"}};
  for (const auto& [words, says] : mistakes) {
    std::vector<std::string> args = {"snap"};
    args.insert(args.end(), words.begin(), words.end());
    auto result = testing_support::RunBrink(args);
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.err, HasSubstr(says));
  }
}

}  // namespace
}  // namespace brink::snap_tests
