// Walks against the CPU in programs of an unusual kind, by the host build and by the BPF program in each of its modes.
// The other threads of a program stand while a walk and its truth are taken: 0 wrong. BRINK_LONG=1 judges 400 stops each.
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "kernel_walker.h"
#include "programs.h"
#include "specials.h"
#include "support/features.h"
#include "support/process.h"
#include "walk_predictor.h"

namespace brink::fidelity {
namespace {

constexpr uint32_t kDepth = 32;

Options Limits() {
  bool thorough = std::getenv("BRINK_LONG") != nullptr;
  return {.depth = kDepth, .windows = thorough ? 400u : 12u, .seconds = thorough ? 120.0 : 3.0, .alone = true};
}

class Special : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS("source.walk"); }

  void Report(const char* how, const Program& program, const Tally& tally) {
    for (const Wrong& wrong : tally.wrongs) std::printf("WRONG %s %s: %s\n", how, program.name.c_str(), wrong.text.c_str());
    double judged = std::max(1u, tally.exact_full + tally.shortened);
    std::printf("%-5s %-14s %4u windows, %u wrong, %u explained, %u disturbed, full %.0f%%, depth %.1f\n", how, program.name.c_str(),
                tally.windows, tally.wrong, tally.explained, tally.disturbed, 100 * tally.exact_full / judged,
                static_cast<double>(tally.branches) / judged);
    std::fflush(stdout);
    EXPECT_EQ(tally.wrong, 0u) << how << " " << program.name;
    EXPECT_GT(tally.windows, 0u) << how << " " << program.name;
  }

  void JudgeByAll(const Program& program) {
    Report("host", program, Judge(program, WalkPredictor(kDepth), Limits()));
    JudgeByKernel(program);
  }

  void JudgeByKernel(const Program& program) {
    for (WalkMode mode : {WalkMode::kInterrupt, WalkMode::kTask, WalkMode::kPreferTask}) {
      if (mode != WalkMode::kInterrupt && !testing_support::HasFeature("source.walk_task")) continue;
      auto walker = KernelWalker::Create(mode, kDepth);
      ASSERT_TRUE(walker.ok()) << walker.status();
      Options options = Limits();
      options.on_tick = [&](int fd) { (*walker)->Attach(fd); };
      Tally tally = Judge(program, (*walker)->predictor(), options);
      Report(mode == WalkMode::kInterrupt ? "irq" : mode == WalkMode::kTask ? "task" : "auto", program, tally);
      const KernelWalker::Counts& counts = (*walker)->counts();
      EXPECT_GT(counts.answered, 0u) << program.name;
      branches_ += tally.branches;
    }
  }

  testing_support::TempDir folder_;
  uint64_t branches_ = 0;  // that the kernel's walks recorded
};

// Alone, even where threads share what they branch on: what other threads change is no fault of a walk.
TEST_F(Special, ProgramsOfAnUnusualKind) {
  Specials specials(folder_.path());
  for (const std::string& what : specials.missing()) std::printf("not here: %s\n", what.c_str());
  EXPECT_GE(specials.programs().size(), 9u);
  for (const Program& program : specials.programs()) JudgeByAll(program);
}

// Task mode has the thread switched out and goes by the registers that the kernel saved.
TEST_F(Special, VectorRegistersThatNobodyLoads) {
  for (const char* what : {"vectors", "masks"}) JudgeByKernel({.name = what, .argv = {BRINK_SPECIAL, what}});
  if (testing_support::HasFeature("source.walk_task")) {
    EXPECT_GT(branches_, 0u);
  }
}

TEST_F(Special, ForeignProgramsByTheKernelItself) {
  std::vector<std::string> missing;
  std::vector<Program> programs = MakePrograms(folder_.path(), BRINK_THROWING, &missing);
  for (const Program& program : programs) {
    for (const char* wanted : {"python3", "perl", "sort", "exceptions", "node", "cc1", "xz-threads", "python3-threads"}) {
      if (program.name == wanted && program.stdin_path.empty()) JudgeByKernel(program);
    }
  }
  EXPECT_GT(branches_, 0u);
}

}  // namespace
}  // namespace brink::fidelity
