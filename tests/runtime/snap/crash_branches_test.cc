// With branch hardware: the last user branches of a process before it dies, however it dies. In guests with the plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "snap_support.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

struct Death {
  const char* mode;
  const char* newest_to;    // symbol that the newest branch leads to; nullptr: any
  const char* newest_from;  // symbol that it comes from; nullptr: any
  const char* within;       // symbol that one of the branches leads to; nullptr: none is asked for
};

// The compiler's and the C library's ways differ; what is named here is decided by the source.
constexpr Death kDeaths[] = {{"segv", "snap_fault", nullptr, nullptr},
                             {"abort", nullptr, nullptr, "raise"},
                             {"overflow", "snap_overflow", "snap_overflow", nullptr},
                             {"thread-overflow", "snap_overflow", "snap_overflow", nullptr},
                             {"altstack-overflow", "snap_overflow", "snap_overflow", nullptr},
                             {"jump-to-0", nullptr, "snap_jump", nullptr},
                             {"blocked", "snap_fault", nullptr, nullptr},
                             {"ignored", "snap_fault", nullptr, nullptr},
                             {"nested", "snap_fault", nullptr, nullptr},
                             {"sent", nullptr, nullptr, nullptr},
                             {"thread", "snap_fault", nullptr, nullptr}};

std::string SymbolOf(const nlohmann::json& address) { return address["symbol"].is_string() ? address["symbol"].get<std::string>() : ""; }

bool InKernel(const nlohmann::json& address) { return address["address"].get<std::string>().starts_with("0xffff"); }

// Branches of the process's own user code, newest first. The hardware records as well how the kernel went back to it (a system call's end, a page
// brought in): such a record leads to user code, and is none of its own branches. False: another record of the kernel is there.
bool UserBranches(const nlohmann::json& capture, std::vector<nlohmann::json>* own) {
  for (const auto& branch : capture["branches"]) {
    if (InKernel(branch["to"])) return false;
    if (branch.contains("foreign")) continue;
    if (!InKernel(branch["from"])) own->push_back(branch);
    else if (branch["kind"] != "sysret" && branch["kind"] != "eret") return false;
  }
  return true;
}

bool Tells(const Death& death, const nlohmann::json& capture) {
  std::vector<nlohmann::json> branches;
  if (capture["direction"] != "past" || !UserBranches(capture, &branches) || branches.empty()) return false;
  if (death.newest_to && SymbolOf(branches[0]["to"]) != death.newest_to) return false;
  if (death.newest_from && SymbolOf(branches[0]["from"]) != death.newest_from) return false;
  if (std::string(death.mode) == "jump-to-0" && branches[0]["to"]["address"] != "0x0") return false;
  // The hardware is the CPU's and remembers so many: where others have run meanwhile less of the process's own is left.
  const auto& all = capture["branches"];
  const bool shared = std::any_of(all.begin(), all.end(), [](const auto& branch) { return branch.contains("foreign"); });
  if (!shared && branches.size() < 8) return false;
  return !death.within || shared || std::any_of(branches.begin(), branches.end(), [&](const auto& branch) { return SymbolOf(branch["to"]) == death.within; });
}

TEST(SnapCrashBranches, TheLastUserBranchesOfEachDeath) {
  SKIP_UNLESS("branch.snapshot");
  SKIP_UNLESS("bpf.raw_tp");
  const size_t rounds = std::getenv("SNAP_DEATHS") ? std::stoul(std::getenv("SNAP_DEATHS")) : 10;
  std::string modes;
  for (const Death& death : kDeaths) modes += std::string(" ") + death.mode;
  // One session sees them all: loading it is what takes time in a guest. Who was who stands in a file.
  testing_support::TempDir dir;
  const std::string who = dir.path() + "/who";
  const std::string loop = "for mode in" + modes + "; do i=0; while [ $i -lt " + std::to_string(rounds) + " ]; do " + Self() + " --target $mode & echo $! $mode >> " + who + "; wait $!; i=$((i+1)); done; done; exit 0";
  auto result = testing_support::RunBrink({"snap", "--on", "signal:SEGV,ABRT", "--json", "--", "sh", "-c", loop}, {.timeout = std::chrono::seconds(900)});
  EXPECT_EQ(result.status, 0) << result.err;
  // By the process, or its parent's: one death is a child's.
  std::map<int, std::string> modes_by_pid;
  std::ifstream names(who);
  int pid = 0;
  for (std::string mode; names >> pid >> mode;) modes_by_pid[pid] = mode;
  std::map<std::string, size_t> seen, told;
  std::map<std::string, std::string> missed;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json capture = nlohmann::json::parse(line);
    auto it = modes_by_pid.find(capture["pid"]);
    const std::string mode = it == modes_by_pid.end() ? "sent" : it->second;
    const auto* death = std::find_if(std::begin(kDeaths), std::end(kDeaths), [&](const Death& known) { return mode == known.mode; });
    ASSERT_NE(death, std::end(kDeaths)) << mode;
    ++seen[mode];
    if (Tells(*death, capture)) ++told[mode];
    else missed[mode] = line;
  }
  for (const Death& death : kDeaths) {
    std::printf("| %-18s %zu of %zu\n", death.mode, told[death.mode], rounds);
    EXPECT_EQ(seen[death.mode], rounds) << death.mode << result.err;
    EXPECT_EQ(told[death.mode], rounds) << death.mode << ": " << missed[death.mode];
  }
}

}  // namespace
}  // namespace brink::snap_tests
