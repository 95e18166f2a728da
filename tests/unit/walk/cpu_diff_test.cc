// Lifter and core against the real CPU. BRINK_LONG=1 makes it a million cases and more.
#include <gtest/gtest.h>

#include <Zydis/Zydis.h>

#include <cstdlib>
#include <iostream>

#include "cpu_diff.h"
#include "native.h"

namespace brink::walk_test {
namespace {

uint64_t Cases(uint64_t usual) { return std::getenv("BRINK_LONG") ? 2'000'000 : usual; }
uint64_t Seed() { return std::getenv("BRINK_SEED") ? std::strtoull(std::getenv("BRINK_SEED"), nullptr, 0) : 20240229; }

void Report(const DiffResult& result) {
  std::cout << result.cases << " cases of " << result.instructions << " instructions, " << result.stopped << " stopped, " << result.faulted
            << " faulted alike, " << result.shortened << " ended at what a mask leaves out, " << result.known << " wholly known\n";
  if (!std::getenv("BRINK_VERBOSE")) return;
  for (int i = 0; i < 2048; ++i) {
    if (result.by_mnemonic[i]) {
      std::cout << "  " << ZydisMnemonicGetString(static_cast<ZydisMnemonic>(i)) << " " << result.by_mnemonic[i] << " vague " << result.vague[i] << "\n";
    }
  }
}

TEST(CpuDiff, IntegerInstructionsAgreeWithTheCpu) {
  const DiffResult result = RunDiff({.seed = Seed(), .cases = Cases(120'000), .family = DiffOptions::Family::kInteger});
  Report(result);
  EXPECT_EQ(result.wrong, 0u) << result.first_wrong;
  EXPECT_GE(result.cases, Cases(120'000));
  // Most cases with known inputs have known results, else the walker would be of little use.
  EXPECT_GT(result.known, result.cases / 4);
}

TEST(CpuDiff, VectorInstructionsAgreeWithTheCpu) {
  if (!HasAvx512()) GTEST_SKIP() << "needs a CPU with AVX-512 (F, BW, VL, DQ)";
  const DiffResult result = RunDiff({.seed = Seed(), .cases = Cases(60'000), .family = DiffOptions::Family::kVector});
  Report(result);
  EXPECT_EQ(result.wrong, 0u) << result.first_wrong;
  EXPECT_GE(result.cases, Cases(60'000));
  EXPECT_LE(result.shortened, result.cases / 10'000);
}

TEST(CpuDiff, StringComparisonsAgreeWithTheCpu) {
  if (!HasAvx512()) GTEST_SKIP() << "needs a CPU with AVX-512 (F, BW, VL, DQ)";
  const DiffResult result = RunDiff({.seed = Seed(), .cases = Cases(12'000), .family = DiffOptions::Family::kString});
  Report(result);
  EXPECT_EQ(result.wrong, 0u) << result.first_wrong;
  EXPECT_GE(result.cases, Cases(12'000));
  EXPECT_GT(result.known, result.cases / 4);
}

}  // namespace
}  // namespace brink::walk_test
