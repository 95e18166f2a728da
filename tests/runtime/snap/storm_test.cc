// Storms: everything is bounded, nothing is lost silently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "container/hierarchy.h"
#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

// The number after `text` in what was said at the end ("lost 12: ring full").
uint64_t Said(const std::string& err, const std::string& text) {
  uint64_t sum = 0;
  for (size_t at = err.find(text); at != std::string::npos; at = err.find(text, at + 1)) sum += std::strtoull(err.c_str() + at + text.size(), nullptr, 10);
  return sum;
}

int Rounds(int short_run, int long_run) { return std::getenv("BRINK_LONG") ? long_run : short_run; }

TEST(SnapStorm, EveryForkAndExecIsCapturedOrCounted) {
  SKIP_UNLESS("bpf.raw_tp");
  const int forks = Rounds(800, 6000);
  Snapped snapped = Snap({"--on", "exit", "--on", "exec", "--no-chain"}, "forks=" + std::to_string(forks));
  size_t exits = 0, execs = 0;
  for (const auto& capture : snapped.captures) (capture["kind"] == "exit" ? exits : execs) += 1;
  const uint64_t lost = Said(snapped.process.err, "lost ");
  EXPECT_EQ(exits + execs + lost, static_cast<size_t>(forks) + 1 + 1 + static_cast<size_t>((forks + 7) / 8)) << snapped.process.err;
  EXPECT_EQ(lost, 0u) << snapped.process.err;
}

TEST(SnapStorm, EntriesOfTenThousandThreadsFindTheirReturns) {
  SKIP_UNLESS("bpf.uretprobe");
  const int threads = Rounds(2000, 10000);
  Snapped snapped = Snap({"--on", "ur:" + Self() + ":snap_sleep", "--slower-than", "1ns", "--no-chain", "--source", "none"}, "threads=" + std::to_string(threads));
  EXPECT_EQ(snapped.process.status, 0) << snapped.process.err;
  EXPECT_EQ(snapped.captures.size() + Said(snapped.process.err, "lost "), static_cast<size_t>(threads)) << snapped.process.err;
  std::set<uint64_t> hits;
  for (const auto& capture : snapped.captures) {
    EXPECT_GE(capture["duration_ns"], 1'000'000);
    hits.insert(capture["hit"].get<uint64_t>());
  }
  EXPECT_EQ(hits.size(), snapped.captures.size());
}

TEST(SnapStorm, AThousandGroupsAreNamedAlthoughTheyVanish) {
  SKIP_UNLESS("bpf.uprobe");
  const ContainerHierarchy hierarchy = ChooseHierarchy();
  const std::string base = hierarchy.mount + "/brink_storm_" + std::to_string(getpid());
  if (mkdir(base.c_str(), 0755) != 0) GTEST_SKIP() << "cannot make cgroups in " << hierarchy.mount;
  const int groups = Rounds(300, 1000);
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_work", "--no-chain", "--source", "none"}, "groups=" + base + ":" + std::to_string(groups));
  for (int i = 0; i < groups; ++i) rmdir((base + "/" + std::to_string(i)).c_str());
  for (int i = 0; i < 100 && rmdir(base.c_str()) != 0; ++i) usleep(20'000);
  if (snapped.process.status == 2) GTEST_SKIP() << "cannot move between cgroups in " << base;
  ASSERT_EQ(snapped.captures.size(), static_cast<size_t>(groups)) << snapped.process.err;
  std::set<std::string> ids;
  size_t named = 0;
  for (const auto& capture : snapped.captures) {
    ids.insert(capture["container"]["cgroup_id"].get<std::string>());
    named += capture["container"]["path"].is_string() && capture["container"]["path"].get<std::string>().find("brink_storm_") != std::string::npos;
  }
  EXPECT_EQ(ids.size(), static_cast<size_t>(groups)) << "ids tell them apart";
  EXPECT_EQ(named, static_cast<size_t>(groups)) << "each lived a millisecond";
}

}  // namespace
}  // namespace brink::snap_tests
