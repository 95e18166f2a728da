// Recordings of real hardware: the export against a profile that llvm-profgen 14 made of the same recording with the
// program at hand. Here a stand-in of the program (its build id and segments) is enough: addresses need no more.
#include <fstream>
#include <gmock/gmock.h>
#include <map>

#include "elf_builder.h"
#include "perfdata/reader.h"
#include "programs.h"
#include "support/status_matchers.h"

namespace brink::export_test {
namespace {

using testing_support::SharedData;

// "N\n BEGIN<between>END:COUNT\n..." twice.
std::vector<std::map<std::pair<uint64_t, uint64_t>, uint64_t>> ReadRaw(const std::string& path) {
  std::vector<std::map<std::pair<uint64_t, uint64_t>, uint64_t>> lists;
  std::ifstream file(path);
  size_t count = 0;
  while (file >> count) {
    auto& list = lists.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      std::string row;
      file >> row;
      const size_t dash = row.find('-'), colon = row.find(':'), second = row[dash + 1] == '>' ? dash + 2 : dash + 1;
      list[{std::stoull(row.substr(0, dash), nullptr, 16), std::stoull(row.substr(second, colon - second), nullptr, 16)}] = std::stoull(row.substr(colon + 1));
    }
  }
  return lists;
}

using Counts = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;

uint64_t Total(const Counts& counts) {
  uint64_t sum = 0;
  for (const auto& [pair, count] : counts) sum += count;
  return sum;
}

// llvm-profgen 14 gives up what is older than an entry from the kernel; brink keeps it.
struct GivenUp {
  uint64_t branches = 0, ranges = 0;
};
GivenUp OlderThanKernelEntries(const std::string& path) {
  GivenUp given_up;
  auto reader = perfdata::Reader::Open(path);
  EXPECT_THAT(reader, testing_support::IsOk());
  perfdata::Record record;
  while (reader.ok()) {
    auto more = (*reader)->Next(&record);
    EXPECT_THAT(more, testing_support::IsOk());
    if (!more.ok() || !*more) break;
    if (!record.sample()) continue;
    const auto branches = record.sample()->branches;
    for (size_t i = 0; i < branches.size(); ++i) {
      if (branches[i].from >> 63 == 0) continue;
      const size_t older = branches.size() - i - 1;
      given_up.branches += older;
      // Those between them, and the one between where the kernel returned to and the next newer branch.
      given_up.ranges += (older ? older - 1 : 0) + (i > 0);
    }
  }
  return given_up;
}

TEST(Golden, SkylakeCountsAreThoseOfLlvmProfgen) {
  auto data = SharedData("perfdata/skylake-lbr32.data"), golden = SharedData("text/skylake-lbr32.llvm-profgen14.raw.txt");
  if (!data || !golden) GTEST_SKIP() << "needs the shared recordings";
  TempDir dir;
  elf::testing_elf::ElfBuilder builder;
  builder.Load(0, 0, 0x740, PF_R);
  builder.Load(0x740, 0x1740, 0x800, PF_R | PF_X);
  builder.Add({.name = ".text", .flags = SHF_ALLOC | SHF_EXECINSTR, .addr = 0x1740, .bytes = std::string(0x800, '\x90')});
  builder.Add({.name = ".note.gnu.build-id", .type = SHT_NOTE, .flags = SHF_ALLOC, .bytes = elf::testing_elf::BuildIdNote("\x57\x2a\xc7\x24\x87\xae\x19\x66")});
  std::ofstream(dir.File("stand-in"), std::ios::binary) << builder.Build();
  Export({"-f", "profgen-unsymbolized", "-i", *data, "-b", dir.File("stand-in"), "-o", dir.File("raw")});
  auto expected = ReadRaw(*golden), got = ReadRaw(dir.File("raw"));
  ASSERT_EQ(expected.size(), 2u);
  ASSERT_EQ(got.size(), 2u);
  const GivenUp given_up = OlderThanKernelEntries(*data);
  ASSERT_GT(given_up.branches, 0u);

  // It keeps a newest branch that was recorded twice, with a range from its target back to itself; brink drops both.
  Counts ranges, branches = got[1];
  for (const auto& [range, count] : expected[0]) {
    if (range.first > range.second) branches[{range.second, range.first}] += count;
    else ranges[range] = count;
  }
  std::erase_if(branches, [](const auto& branch) { return branch.first.first > 0x10000; });  // from outside: in the newer form only
  ASSERT_EQ(branches.size(), expected[1].size());
  for (const auto& [branch, count] : expected[1]) EXPECT_GE(branches[branch], count) << std::hex << branch.first << " " << branch.second;
  EXPECT_EQ(Total(branches) - Total(expected[1]), given_up.branches);
  for (const auto& [range, count] : ranges) EXPECT_GE(got[0][range], count) << std::hex << range.first << " " << range.second;
  EXPECT_EQ(Total(got[0]) - Total(ranges), given_up.ranges);
}

}  // namespace
}  // namespace brink::export_test
