// Facts of installed programs against objdump and readelf.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/strings.h"
#include "cfi/facts.h"
#include "cfi/policies.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::cfi {
namespace {

using testing_support::IsOk;

struct Line {
  uint64_t address = 0;
  std::string code;
};

// objdump's instructions in order, and the names of its PLT stubs.
void Disassemble(const std::string& path, std::vector<Line>* lines, std::map<uint64_t, std::string>* stubs) {
  const std::string text = testing_support::Run({"objdump", "-d", "--no-show-raw-insn", path}).out;
  for (std::string_view line : Split(text, '\n')) {
    if (line.ends_with("@plt>:")) {
      size_t open = line.find('<');
      (*stubs)[std::strtoull(std::string(line.substr(0, 16)).c_str(), nullptr, 16)] = std::string(line.substr(open + 1, line.size() - open - 7));
    }
    size_t colon = line.find(":\t");
    if (colon == std::string_view::npos) continue;
    lines->push_back({std::strtoull(std::string(Trim(line.substr(0, colon))).c_str(), nullptr, 16), std::string(Trim(line.substr(colon + 2)))});
  }
}

class FactsOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (access(GetParam(), R_OK) != 0) GTEST_SKIP() << "no " << GetParam();
    if (testing_support::Run({"objdump", "--version"}).status != 0) GTEST_SKIP() << "needs objdump";
  }
};

TEST_P(FactsOf, BoundariesAndCallSitesAreObjdumps) {
  auto file = elf::File::Open(GetParam());
  ASSERT_THAT(file, IsOk());
  auto facts = Facts::Load(*file);
  ASSERT_THAT(facts, IsOk());
  std::vector<Line> lines;
  std::map<uint64_t, std::string> stubs;
  Disassemble(GetParam(), &lines, &stubs);
  ASSERT_GT(lines.size(), 1000u);
  size_t judged = 0, unknown = 0, inner = 0, calls = 0, wrong = 0;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.code.starts_with("(bad)") || line.code.starts_with(".byte")) continue;
    const Known known = facts->IsBoundary(line.address);
    known == Known::kUnknown ? ++unknown : ++judged;
    wrong += known == Known::kNo;
    EXPECT_TRUE(known != Known::kNo || wrong > 5) << std::hex << line.address << " " << line.code;
    const uint64_t next = lines[i + 1].address;
    if (next == line.address + 3 && facts->IsBoundary(line.address + 1) != Known::kUnknown && known == Known::kYes) {
      ++inner;
      EXPECT_EQ(facts->IsBoundary(line.address + 1), Known::kNo) << std::hex << line.address + 1;
    }
    const bool call = line.code.starts_with("call") || line.code.starts_with("addr32 call") || line.code.starts_with("bnd call") || line.code.starts_with("notrack call");
    if (call && facts->InText(next)) {
      ++calls;
      EXPECT_TRUE(facts->CallBefore(next).has_value()) << std::hex << line.address << " " << line.code;
    }
  }
  std::printf("%s: %zu instructions, %zu boundaries, %zu not known; %zu places inside, %zu calls\n", GetParam(), lines.size(), judged, unknown, inner, calls);
  // Padding between functions is no function's.
  EXPECT_GT(judged, unknown * 4);
  EXPECT_LE(wrong, judged / 10000) << "data within code";
  EXPECT_GT(calls, 50u);
  for (const auto& [address, name] : stubs) {
    const PltSlot* slot = facts->FindPlt(address);
    ASSERT_NE(slot, nullptr) << name;
    EXPECT_EQ(slot->name, name.substr(0, name.find('@')));
  }
}

TEST_P(FactsOf, EntriesAreReadelfs) {
  auto facts = Facts::Load(*elf::File::Open(GetParam()));
  ASSERT_THAT(facts, IsOk());
  size_t functions = 0;
  const std::string symbols = testing_support::Run({"readelf", "-W", "--syms", "--dyn-syms", GetParam()}).out;
  for (std::string_view line : Split(symbols, '\n')) {
    std::vector<std::string> words;
    for (std::string_view word : Split(line, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    if (words.size() < 8 || (words[3] != "FUNC" && words[3] != "IFUNC") || words[6] == "UND") continue;
    const uint64_t value = std::strtoull(words[1].c_str(), nullptr, 16);
    if (!facts->InText(value)) continue;
    ++functions;
    EXPECT_EQ(facts->IsEntry(value), Known::kYes) << words[7];
    EXPECT_NE(facts->Find(value), nullptr) << words[7];
  }
  // Unwind information names the others; objdump -Wf, a line each: "... FDE cie=... pc=START..END".
  size_t fdes = 0;
  const std::string frames = testing_support::Run({"readelf", "--debug-dump=frames", GetParam()}).out;
  for (std::string_view line : Split(frames, '\n')) {
    size_t pc = line.find(" FDE cie=") == std::string_view::npos ? std::string_view::npos : line.find(" pc=");
    if (pc == std::string_view::npos) continue;
    ++fdes;
    const uint64_t start = std::strtoull(std::string(line.substr(pc + 4, 16)).c_str(), nullptr, 16);
    if (!facts->InText(start)) continue;
    // That of a signal's return begins one byte early.
    EXPECT_TRUE(facts->IsEntry(start) == Known::kYes || facts->IsEntry(start + 1) == Known::kYes) << std::hex << start;
  }
  EXPECT_GT(functions + fdes, 20u);
  const std::string notes = testing_support::Run({"readelf", "-W", "-n", GetParam()}).out;
  EXPECT_EQ(facts->ibt(), notes.find("IBT") != std::string::npos);
  EXPECT_EQ(facts->shadow_stack(), notes.find("SHSTK") != std::string::npos);
}

TEST_P(FactsOf, LandingPadsAreInstructionsBehindCalls) {
  auto facts = Facts::Load(*elf::File::Open(GetParam()));
  ASSERT_THAT(facts, IsOk());
  const bool tables = testing_support::Run({"readelf", "-W", "-S", GetParam()}).out.find(".gcc_except_table") != std::string::npos;
  EXPECT_EQ(facts->landing_pads().empty(), !tables);
  for (uint64_t pad : facts->landing_pads()) {
    ASSERT_NE(facts->IsBoundary(pad), Known::kNo) << std::hex << pad;
    ASSERT_NE(facts->Find(pad), nullptr) << std::hex << pad;
  }
}

INSTANTIATE_TEST_SUITE_P(Installed, FactsOf, ::testing::Values("/usr/bin/gzip", "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libgcc_s.so.1", "/usr/lib/x86_64-linux-gnu/libapt-private.so.0.0"));

// A program alone in an address space, at the addresses of its file.
class Alone : public CodeMap {
 public:
  explicit Alone(Facts* facts) : facts_(facts) {}
  Place At(uint64_t address) override {
    if (!facts_->InText(address)) return {.memory = MemoryKind::kNotCode};
    return {.memory = MemoryKind::kFile, .facts = facts_, .address = address, .module = 1};
  }

 private:
  Facts* facts_;
};

TEST(GoPrograms, AWalkAheadMayEndNowhere) {
  testing_support::TempDir dir;
  const std::string go = dir.File("go");
  if (testing_support::Run({"objcopy", "--add-section", ".go.buildinfo=/etc/passwd", "/usr/bin/gzip", go}).status != 0) GTEST_SKIP() << "needs objcopy and /usr/bin/gzip";
  for (const std::string& path : {std::string("/usr/bin/gzip"), go}) {
    auto facts = Facts::Load(*elf::File::Open(path));
    ASSERT_THAT(facts, IsOk());
    const bool is_go = facts->runtime() == Runtime::kGo;
    EXPECT_EQ(is_go, path == go);
    const BranchEntry edge = {facts->functions().front().start, 0x7f0000001000, MakeInfo(Kind::kIndJump)};
    Alone map(&*facts);
    for (bool future : {true, false}) {
      Window window{.records = {&edge, 1}, .future = future, .point = CheckPoint{.not_code = true}};
      Result result;
      Check(window, map, &result);
      EXPECT_EQ(result.violations.size(), is_go && future ? 0u : 1u) << path << future;
    }
  }
}

// Bytes turned over, files cut short: facts or an error, never a crash, and never more than the bounds.
TEST(HostileFiles, GiveFactsOrAnError) {
  auto whole = testing_support::Run({"cat", "/lib/x86_64-linux-gnu/libgcc_s.so.1"}).out;
  if (whole.size() < 1000) GTEST_SKIP() << "no libgcc_s.so.1";
  uint64_t seed = 1;
  auto random = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33; };
  size_t loaded = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bytes = whole;
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    for (int i = 0; i < 40; ++i) {
      if (!bytes.empty()) bytes[random() % (round % 2 ? std::min<size_t>(bytes.size(), 4096) : bytes.size())] = static_cast<char>(random());
    }
    auto file = elf::File::FromBytes(std::move(bytes));
    if (!file.ok()) continue;
    auto facts = Facts::Load(*file, {.max_functions = 300, .max_kept_boundaries = 5000});
    if (!facts.ok()) continue;
    ++loaded;
    EXPECT_LE(facts->functions().size(), 300u);
    for (int i = 0; i < 200; ++i) {
      const uint64_t address = random() % 0x20000;
      facts->IsBoundary(address);
      facts->CallBefore(address);
      facts->IsEntry(address);
    }
  }
  EXPECT_GT(loaded, 5u);
}

}  // namespace
}  // namespace brink::cfi
