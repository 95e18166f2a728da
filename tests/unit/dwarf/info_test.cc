// Source positions are compared with those of addr2line and llvm-symbolizer on programs built here.
#include "dwarf/info.h"

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "elf/symbols.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::dwarf {
namespace {

using testing_support::IsOk;
using testing_support::Run;
using testing_support::TempDir;

constexpr char kProgram[] = R"(#include <cstdio>
#include <cstdlib>
namespace shop {
static inline __attribute__((always_inline)) int Inner(int x) {
  if (x & 1)
    return x * 3 + std::atoi("7");
  return x / 2;
}
struct Till {
  int sum = 0;
  __attribute__((noinline)) void Add(int x) {
    sum += Inner(x);
    if (sum > 1000) sum -= Inner(sum);
  }
};
}  // namespace shop
int main(int argc, char**) {
  shop::Till till;
  for (int i = 0; i < argc * 100; ++i) till.Add(i);
  std::printf("%d\n", till.sum);
}
)";

struct Built {
  std::string path;
  uint64_t start = 0, size = 0;  // .text
};

std::optional<Built> Build(const TempDir& dir, const std::vector<std::string>& compile) {
  std::ofstream(dir.File("shop.cc")) << kProgram;
  std::vector<std::string> argv = compile;
  argv.insert(argv.end(), {"-O2", "-o", dir.File("shop"), dir.File("shop.cc")});
  if (Run(argv).status != 0) return std::nullopt;
  auto file = elf::File::Open(dir.File("shop"));
  if (!file.ok()) return std::nullopt;
  const elf::Section* text = file->FindSection(".text");
  return Built{dir.File("shop"), text->addr, text->size};
}

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// "function file:line" of each frame, as addr2line -a -f -i prints them.
std::vector<std::string> Ours(Info& info, uint64_t address) {
  std::vector<std::string> out;
  for (const Frame& frame : info.FramesAt(address)) {
    out.push_back(frame.function + " " + (frame.file.empty() ? "??" : BaseName(frame.file)) + ":" + (frame.line ? std::to_string(frame.line) : "?"));
  }
  return out;
}

std::map<uint64_t, std::vector<std::string>> Theirs(const std::string& tool, const std::string& path, const std::vector<uint64_t>& addresses) {
  std::string input;
  for (uint64_t address : addresses) input += absl::StrFormat("%#x\n", address);
  auto result = Run({tool, "-a", "-f", "-i", "-e", path}, {.stdin_text = input});
  std::map<uint64_t, std::vector<std::string>> out;
  if (result.status != 0) return out;
  std::vector<std::string>* current = nullptr;
  std::string function;
  for (std::string_view line : Split(result.out, '\n')) {
    if (line.starts_with("0x")) {
      current = &out[std::stoull(std::string(line), nullptr, 16)];
      function.clear();
    } else if (current && function.empty()) {
      function = std::string(line);
    } else if (current && !line.empty()) {
      std::string place = BaseName(line.substr(0, line.find(" (discriminator")));
      if (std::count(place.begin(), place.end(), ':') > 1) place = place.substr(0, place.rfind(':'));
      if (place.ends_with(":0")) place = place.substr(0, place.size() - 1) + "?";
      current->push_back(function + " " + place);
      function.clear();
    }
  }
  return out;
}

void CompareWith(const std::string& tool, const std::vector<std::string>& compile) {
  TempDir dir;
  auto built = Build(dir, compile);
  if (!built) GTEST_SKIP() << "needs " << compile[0];
  auto file = elf::File::Open(built->path);
  ASSERT_THAT(file, IsOk());
  auto info = Info::Load(*file);
  ASSERT_THAT(info, IsOk());
  std::vector<uint64_t> addresses;
  for (uint64_t at = built->start; at < built->start + built->size; ++at) addresses.push_back(at);
  auto theirs = Theirs(tool, built->path, addresses);
  if (theirs.empty()) GTEST_SKIP() << "needs " << tool;
  size_t inlined = 0, compared = 0;
  for (uint64_t address : addresses) {
    auto ours = Ours(**info, address);
    if (ours.empty()) continue;  // start-up code without debug information
    ++compared;
    inlined += ours.size() > 1;
    ASSERT_EQ(ours, theirs[address]) << std::hex << address;
  }
  EXPECT_GT(compared, 80u);
  EXPECT_GT(inlined, 10u);
}

TEST(DwarfInfo, AgreesWithLlvmSymbolizerOnGccDwarf5) { CompareWith("llvm-addr2line-19", {"g++", "-g"}); }
TEST(DwarfInfo, AgreesWithLlvmSymbolizerOnGccDwarf4) { CompareWith("llvm-addr2line-19", {"g++", "-gdwarf-4"}); }
TEST(DwarfInfo, AgreesWithLlvmSymbolizerOnGccDwarf2) { CompareWith("llvm-addr2line-19", {"g++", "-gdwarf-2", "-gstrict-dwarf"}); }
TEST(DwarfInfo, AgreesWithLlvmSymbolizerOnClangDwarf5) { CompareWith("llvm-addr2line-19", {"clang++-19", "-g"}); }
TEST(DwarfInfo, AgreesWithLlvmSymbolizerOnSixtyFourBitDwarf) { CompareWith("llvm-addr2line-19", {"g++", "-g", "-gdwarf64"}); }
TEST(DwarfInfo, AgreesWithLlvmSymbolizerOnCompressedSections) { CompareWith("llvm-addr2line-19", {"g++", "-g", "-gz"}); }

TEST(DwarfInfo, FileWithoutDebugInformationIsNotFound) {
  auto file = elf::File::Open("/bin/true");
  if (!file.ok()) GTEST_SKIP() << "needs /bin/true";
  EXPECT_EQ(Info::Load(*file).status().code(), absl::StatusCode::kNotFound);
}

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(DwarfHostile, TruncatedAndDamagedFilesNeverCrash) {
  TempDir dir;
  auto built = Build(dir, {"g++", "-g", "-static-libgcc"});
  if (!built) GTEST_SKIP() << "needs g++";
  std::string whole = Bytes(built->path);
  uint32_t random = 1;
  int loaded = 0;
  for (int round = 0; round < 300; ++round) {
    std::string changed = whole;
    for (int hits = 0; hits < 40; ++hits) {
      random = random * 1664525 + 1013904223;
      // Behind the text: that is where the debug sections are.
      size_t at = changed.size() / 3 + random % (changed.size() * 2 / 3);
      changed[at] = static_cast<char>(random >> 24);
    }
    auto file = elf::File::FromBytes(std::move(changed));
    if (!file.ok()) continue;
    auto info = Info::Load(*file);
    if (!info.ok()) continue;
    ++loaded;
    for (uint64_t at = built->start; at < built->start + built->size; at += 7) (*info)->FramesAt(at);
  }
  EXPECT_GT(loaded, 0) << "no damaged file got as far as its debug information";
}

}  // namespace
}  // namespace brink::dwarf
