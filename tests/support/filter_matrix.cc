#include "support/filter_matrix.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "support/process.h"

namespace brink::testing_support {
namespace {

// "0xFROM/0xTO/P/-/-/CYCLES/...": one entry of perf script's brstack.
bool ParseEntry(const char* word, BranchEntry* entry) {
  char flag = 0, tx = 0, abort = 0;
  unsigned long from = 0, to = 0, cycles = 0;
  if (std::sscanf(word, "0x%lx/0x%lx/%c/%c/%c/%lu", &from, &to, &flag, &tx, &abort, &cycles) != 6) return false;
  *entry = {};
  entry->from = from;
  entry->to = to;
  entry->info = (cycles & 0xffff) << 4;
  if (flag == 'M') entry->info |= 1;
  if (flag == 'P') entry->info |= 2;
  uint64_t hash = (from ^ to << 1) * 0x9e3779b97f4a7c15 >> 60;
  entry->info |= (hash < 14 ? 1 + hash % 13 : 0) << 20;
  return true;
}

}  // namespace

std::vector<MatrixCell> Matrix() {
  struct Named {
    const char* text;
    uint64_t mask;
  };
  auto bit = [](Kind kind) { return uint64_t{1} << static_cast<int>(kind); };
  const Named kinds[] = {{"", 0},
                         {"cond", bit(Kind::kCond)},
                         {"jump", bit(Kind::kJump)},
                         {"ind_jump", bit(Kind::kIndJump)},
                         {"call", bit(Kind::kCall)},
                         {"ind_call", bit(Kind::kIndCall)},
                         {"ret", bit(Kind::kRet)},
                         {"syscall", bit(Kind::kSyscall)},
                         {"call, ind_call, ret", bit(Kind::kCall) | bit(Kind::kIndCall) | bit(Kind::kRet)},
                         {"sysret, eret, irq", bit(Kind::kSysret) | bit(Kind::kEret) | bit(Kind::kIrq)},
                         {"cond, jump", bit(Kind::kCond) | bit(Kind::kJump)}};
  const char* privs[] = {"", "priv == user", "priv == kernel"};
  const char* predictions[] = {"", "mispredicted", "predicted", "mispredicted is unknown"};
  std::vector<MatrixCell> cells;
  for (const Named& kind : kinds) {
    for (int exclude = 0; exclude < (kind.mask ? 2 : 1); ++exclude) {
      for (int priv = 0; priv < 3; ++priv) {
        for (int prediction = 0; prediction < 4; ++prediction) {
          std::string text;
          auto add = [&](const std::string& part) { text += (text.empty() || part.empty() ? "" : " and ") + part; };
          if (kind.mask) add(exclude ? std::string("exclude ") + kind.text : std::string("kind in {") + kind.text + "}");
          add(privs[priv]);
          add(predictions[prediction]);
          if (!text.empty()) cells.push_back({kind.mask, exclude != 0, priv, prediction, text});
        }
      }
    }
  }
  return cells;
}

std::vector<std::vector<BranchEntry>> MadeUpStacks(size_t count) {
  std::mt19937_64 random(5);
  std::vector<std::vector<BranchEntry>> stacks(count, std::vector<BranchEntry>(32));
  for (auto& stack : stacks) {
    for (BranchEntry& entry : stack) {
      auto address = [&] {
        const uint64_t r = random();
        return r % 16 == 0 ? 0 : r % 3 == 0 ? 0xffffffffb4200000 + (r >> 40 & 0xfffff) : 0x400000 + (r >> 40 & 0xfffff);
      };
      entry.from = address();
      entry.to = address();
      entry.info = random() & ((uint64_t{1} << 33) - 1);
    }
  }
  return stacks;
}

std::vector<std::vector<BranchEntry>> RecordedStacks(size_t limit) {
  std::vector<std::vector<BranchEntry>> stacks;
  for (const char* name : {"skylake-lbr32", "skylake-y-lbr32", "sandybridge-lbr16-zeros", "sandybridge-lbr16-callchain", "arm-etm-kernel"}) {
    std::optional<std::string> path = SharedData(std::string("perf61-brstack/") + name + ".txt.gz");
    if (!path) continue;
    FILE* pipe = popen(("zcat '" + *path + "' 2>/dev/null").c_str(), "r");
    if (!pipe) continue;
    size_t taken = 0;
    char* line = nullptr;
    size_t capacity = 0;
    while (getline(&line, &capacity, pipe) > 0) {
      if (taken >= limit) continue;
      std::vector<BranchEntry> stack;
      BranchEntry entry;
      char* state = nullptr;
      for (char* word = strtok_r(line, " \t\n", &state); word; word = strtok_r(nullptr, " \t\n", &state)) {
        if (ParseEntry(word, &entry)) stack.push_back(entry);
      }
      if (stack.empty()) continue;
      stacks.push_back(std::move(stack));
      ++taken;
    }
    free(line);
    pclose(pipe);
  }
  return stacks;
}

}  // namespace brink::testing_support
