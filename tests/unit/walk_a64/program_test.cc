// Walks from random stops of real programs against their execution, instruction by instruction, in user emulation.
//
// BRINK_A64_PROGRAMS names programs, commands separated by ';', with BRINK_A64_SYSROOT for their libraries,
// BRINK_A64_WINDOWS how many stops of each are taken, BRINK_A64_GAP the most instructions between two.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "base/stop.h"
#include "gdb_remote.h"

namespace brink::walk_test {
namespace {

struct Taken {
  uint64_t from, to;
  bool operator==(const Taken&) const = default;
};

struct Totals {
  uint64_t windows = 0, full = 0, half = 0, branches = 0, steps = 0, wrong = 0;
  std::map<std::string, uint64_t> stops;
};

constexpr uint32_t kDepth = 32;

// A branch back because the exclusive store before it has failed: at every step the emulator opens the monitor, as a
// machine does at every exception.
bool Retries(GdbRemote& program, uint64_t from, uint64_t to) {
  constexpr uint32_t kMask = 0x3fc00000, kStoreExclusive = 0x08000000;
  uint32_t word = 0;
  return to < from && from - to <= 64 && program.ReadMemory(from - 4, &word, sizeof word) && (word & (kMask & ~0x00200000u)) == kStoreExclusive;
}

// Executes as many instructions; every branch that was taken, and where the program stands then. An exclusive store that
// failed for being stepped is done at full speed, and is one that succeeded. False: the program has ended.
bool Execute(GdbRemote& program, uint64_t steps, std::vector<Taken>* out, uint64_t* end) {
  uint64_t before = 0, now = 0;
  for (uint64_t i = 0; i < steps;) {
    if (!program.Step(&now)) return false;
    if (i > 0 && now != before + 4) {
      if (Retries(program, before, now)) {
        if (!program.RunTo(before + 4)) return false;
        continue;
      }
      out->push_back({before, now});
    }
    before = now;
    ++i;
  }
  *end = program.pc();
  if (steps == 0 || *end == before + 4) return true;
  if (Retries(program, before, *end)) {
    *end = before + 4;
    return program.RunTo(*end);
  }
  out->push_back({before, *end});
  return true;
}

// One stop: the walk, and then what really happens.
bool Window(GdbRemote& program, walk::HostWalker& walker, bool vectors, Totals* totals) {
  walk::A64Registers registers;
  if (!program.ReadRegisters(&registers, vectors)) return false;
  walk::WalkOptions options;
  options.depth = kDepth;
  options.max_steps = 4000;
  const auto read = [&](uint64_t address, void* to, size_t size) { return program.ReadMemory(address, to, size); };
  const walk::WalkResult walk = walker.Walk(registers, read, options);
  std::vector<Taken> said, done;
  for (const BranchEntry& branch : walk.branches) {
    if (branch.to != branch.from + 4) said.push_back({branch.from, branch.to});
  }
  uint64_t end = 0;
  if (!Execute(program, walk.steps, &done, &end)) return false;
  ++totals->windows;
  totals->branches += said.size();
  totals->steps += walk.steps;
  totals->full += walk.branches.size() >= kDepth;
  totals->half += walk.branches.size() >= kDepth / 2;
  ++totals->stops[std::string(StopReasonName(walk.stop))];
  const bool end_differs = walk.steps > 0 && end != walk.end_ip;
  if (said == done && !end_differs) return true;
  ++totals->wrong;
  std::ostringstream text;
  const size_t at = static_cast<size_t>(std::mismatch(said.begin(), said.begin() + std::min(said.size(), done.size()), done.begin()).first - said.begin());
  text << std::hex << "from " << registers.ip << ", branch " << std::dec << at << " of " << said.size() << "/" << done.size() << std::hex;
  if (at < said.size()) text << " walk " << said[at].from << " -> " << said[at].to;
  if (at < done.size()) text << " cpu " << done[at].from << " -> " << done[at].to;
  text << " end " << walk.end_ip;
  ADD_FAILURE() << text.str();
  return true;
}

// Where the emulator puts the program's first instruction, behind what the dynamic loader does; 0: not known.
uint64_t EntryOf(const std::string& path) {
  constexpr uint64_t kPositionIndependent = 0x5500000000;
  std::ifstream file(path, std::ios::binary);
  char header[64];
  uint16_t type = 0;
  uint64_t entry = 0;
  if (!file.read(header, sizeof header)) return 0;
  std::memcpy(&type, header + 16, sizeof type);
  std::memcpy(&entry, header + 24, sizeof entry);
  return type == 3 ? kPositionIndependent + entry : entry;
}

// Some windows one after the other, then on at full speed until a place of the last one was passed a few times more.
// False: the program has ended.
bool Series(GdbRemote& program, walk::HostWalker& walker, std::mt19937_64& random, uint64_t windows, uint64_t gap, Totals* totals) {
  std::vector<Taken> between;
  uint64_t end = 0;
  for (int i = 0; i < 6 && totals->windows < windows && totals->wrong < 3; ++i) {
    if (!Execute(program, 1 + random() % gap, &between, &end) || !Window(program, walker, random() % 2 == 0, totals)) return false;
  }
  const uint64_t place = between.empty() ? end : between[random() % between.size()].to;
  for (uint64_t i = random() % 60; i > 0; --i) {
    if (!program.RunTo(place)) return false;
    between.clear();
    if (!Execute(program, 1, &between, &end)) return false;
  }
  return true;
}

void RunProgram(const std::vector<std::string>& command, uint64_t windows, uint64_t gap, Totals* totals) {
  const char* sysroot = std::getenv("BRINK_A64_SYSROOT");
  walk::HostWalker walker(walk::LiftOptions::A64());
  std::mt19937_64 random(windows);
  for (int starts = 0; totals->windows < windows && totals->wrong < 3 && starts < 50; ++starts) {
    auto program = GdbRemote::Start(command, sysroot ? sysroot : "");
    ASSERT_NE(program, nullptr) << command[0] << " did not start";
    const uint64_t entry = EntryOf(command[0]);
    if (entry != 0 && !program->RunTo(entry)) continue;
    while (totals->windows < windows && totals->wrong < 3 && Series(*program, walker, random, windows, gap, totals)) {
    }
  }
}

void Report(const std::string& name, const Totals& totals) {
  const double n = static_cast<double>(std::max<uint64_t>(totals.windows, 1));
  std::cout << name << ": " << totals.windows << " windows, " << totals.wrong << " wrong, full " << 100 * totals.full / n << " %, half "
            << 100 * totals.half / n << " %, " << totals.branches << " branches, " << totals.steps << " steps; ends:";
  for (const auto& [stop, count] : totals.stops) std::cout << " " << stop << " " << count;
  std::cout << "\n";
}

TEST(A64Programs, WalksGoWhereTheProgramGoes) {
  std::vector<std::string> commands;
  if (const char* list = std::getenv("BRINK_A64_PROGRAMS")) {
    std::istringstream lines(list);
    for (std::string line; std::getline(lines, line, ';');) commands.push_back(line);
  } else if (::access("/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", X_OK) == 0 || ::access("/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", X_OK) == 0) {
    // A library is a program as well: it loads, relocates and prints what it is.
    commands.push_back("/lib/ld-linux-aarch64.so.1 /usr/lib/aarch64-linux-gnu/libc.so.6");
  }
  if (commands.empty()) GTEST_SKIP() << "needs a program of arm64 (package libc6:arm64)";
  if (::access("/usr/bin/qemu-aarch64-static", X_OK) != 0 && ::access("/usr/bin/qemu-aarch64", X_OK) != 0) {
    GTEST_SKIP() << "needs qemu-aarch64 (package qemu-user-static)";
  }
  const char* wanted = std::getenv("BRINK_A64_WINDOWS");
  const char* gap = std::getenv("BRINK_A64_GAP");
  const uint64_t windows = wanted ? std::strtoull(wanted, nullptr, 10) : 40;
  for (const std::string& line : commands) {
    std::istringstream words(line);
    std::vector<std::string> command;
    for (std::string word; words >> word;) command.push_back(word);
    Totals totals;
    RunProgram(command, windows, gap ? std::strtoull(gap, nullptr, 10) : 200, &totals);
    Report(line.substr(0, 60), totals);
    EXPECT_EQ(totals.wrong, 0u) << line;
    EXPECT_GT(totals.windows, 0u) << line;
  }
}

}  // namespace
}  // namespace brink::walk_test
