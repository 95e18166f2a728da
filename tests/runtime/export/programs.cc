#include "programs.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>

#include "perfdata/reader.h"
#include "support/status_matchers.h"

namespace brink::export_test {
namespace {

// Branches that are not to be foretold, recursion, a callback from the C library, calls into it.
constexpr const char* kSource = R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) int odd(int x) { return 3 * x + 1; }
__attribute__((noinline)) int step(int x) { if (x & 1) return odd(x); return x / 2; }
__attribute__((noinline)) int walk(unsigned x) { int n = 0; while (x != 1) { x = step(x); ++n; } return n; }
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 300;
  volatile long sum = 0;
  for (int r = 0; r < rounds; ++r) {
    for (int i = 1; i < 2000; ++i) sum += walk(i);
    sum += fib(18);
    int a[500];
    for (int i = 0; i < 500; ++i) a[i] = (i * 7919) % 503;
    qsort(a, 500, sizeof a[0], less);
    char text[64];
    snprintf(text, sizeof text, "%d", r + a[3]);
    sum += strlen(text);
  }
  return sum == 0;
}
)";

struct Build {
  const char* how;
  std::vector<std::string> words;
};
const Build kBuilds[] = {{"pie", {"gcc", "-O2", "-fPIE", "-pie"}},
                         {"fixed", {"gcc", "-O2", "-fno-pie", "-no-pie"}},
                         {"lld", {"clang-19", "-O2", "-fuse-ld=lld"}},
                         {"frames", {"gcc", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"}}};

}  // namespace

std::string Program(const std::string& how) {
  static TempDir* dir = new TempDir();  // for all tests of this program
  static std::map<std::string, std::string> built;
  auto known = built.find(how);
  if (known != built.end()) return known->second;
  std::ofstream(dir->File("program.c")) << kSource;
  std::string path;
  for (const Build& build : kBuilds) {
    if (build.how != how) continue;
    path = dir->File("program_" + how);
    std::vector<std::string> words = build.words;
    for (const char* more : {"-g", "-Wl,-q", "-Wl,--build-id=sha1", "-o"}) words.emplace_back(more);
    words.push_back(path);
    words.push_back(dir->File("program.c"));
    if (testing_support::Run(words).status != 0) path.clear();
  }
  return built[how] = path;
}

std::string Record(const TempDir& dir, const std::string& name, const std::vector<std::string>& options, const std::vector<std::string>& command) {
  std::vector<std::string> words = {"record", "-F", "1999", "--walk-share", "2", "--max-loss", "100", "-o", dir.File(name)};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  ProcessResult run = testing_support::RunBrink(words);
  EXPECT_EQ(run.status, 0) << run.err;
  return dir.File(name);
}

ProcessResult Export(std::vector<std::string> words) {
  words.insert(words.begin(), "export");
  ProcessResult run = testing_support::RunBrink(words);
  EXPECT_EQ(run.status, 0) << run.err;
  return run;
}

EntryCount CountEntries(const std::string& recording, const std::string& path) {
  EntryCount count;
  auto reader = perfdata::Reader::Open(recording);
  EXPECT_THAT(reader, testing_support::IsOk());
  std::map<uint32_t, std::vector<std::pair<uint64_t, uint64_t>>> mapped;  // by process
  std::set<uint32_t> seen;
  perfdata::Record record;
  while (reader.ok()) {
    auto more = (*reader)->Next(&record);
    EXPECT_THAT(more, testing_support::IsOk());
    if (!more.ok() || !*more) break;
    if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body); mmap && mmap->filename == path) {
      mapped[mmap->pid].emplace_back(mmap->start, mmap->start + mmap->length);
    }
    const perfdata::Sample* sample = record.sample();
    if (!sample) continue;
    auto inside = [&](uint64_t address) {
      const auto& ranges = mapped[sample->pid];
      return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) { return address >= range.first && address < range.second; });
    };
    for (const BranchEntry& entry : sample->branches) {
      const bool in = inside(entry.from) || inside(entry.to);
      ++(in ? count.inside : count.outside);
      if (in) seen.insert(sample->pid);
    }
  }
  count.processes = seen.size();
  return count;
}

double NumberIn(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stod(match[1]) : -1;
}

std::vector<std::string> SortedLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace brink::export_test
