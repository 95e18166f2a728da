#include "symbol/symbolizer.h"

#include <filesystem>
#include <fstream>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "support/process.h"
#include "support/status_matchers.h"
#include "symbol/address_space.h"
#include "symbol/jit_source.h"

namespace brink::symbol {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::TempDir;

constexpr char kProgram[] = R"(
static __attribute__((noinline)) int hidden(int x) { return x * 3 + 1; }
extern "C" __attribute__((noinline)) int shown(int x) { return hidden(x) - 2; }
namespace a { struct B { __attribute__((noinline)) int C(int x) { return shown(x) + 5; } }; }
int main(int argc, char**) { a::B b; return b.C(argc) == 0; }
)";

class SymbolizerTest : public testing::Test {
 protected:
  bool Compile(const std::vector<std::string>& command) {
    std::ofstream(dir.File("prog.cc")) << kProgram;
    std::vector<std::string> argv = command;
    argv.insert(argv.end(), {"-O1", "-g", "-Wl,--build-id", "-rdynamic", "-o", dir.File("prog"), dir.File("prog.cc")});
    return testing_support::Run(argv).status == 0;
  }
  // Link-time addresses by name, from nm.
  std::map<std::string, uint64_t> Nm(const std::string& path) {
    std::map<std::string, uint64_t> out;
    std::string text = testing_support::Run({"nm", path}).out;
    for (std::string_view line : Split(text, '\n')) {
      auto words = Split(line, ' ');
      if (words.size() == 3 && words[0].size() == 16) out[std::string(words[2])] = std::stoull(std::string(words[0]), nullptr, 16);
    }
    return out;
  }
  Symbolizer Make() {
    SymbolOptions options;
    options.locate.debug_dirs = {dir.File("debug")};
    options.locate.buildid_cache = dir.File("cache");
    return Symbolizer(&objects, options);
  }
  Location At(const std::string& path, uint64_t vaddr, std::string build_id = "", int32_t pid = -1) {
    auto file = elf::File::Open(path);
    ObjectId id = objects.Intern({.kind = ObjectKind::kFile, .path = path, .build_id = std::move(build_id), .pid = pid});
    return {id, file->VaddrToOffset(vaddr).value()};
  }
  TempDir dir;
  ObjectTable objects;
};

TEST_F(SymbolizerTest, NamesLinesAndCode) {
  if (!Compile({"g++"})) GTEST_SKIP() << "needs g++";
  auto nm = Nm(dir.File("prog"));
  Location at = At(dir.File("prog"), nm.at("_ZN1a1B1CEi") + 1);
  Symbolizer symbolizer = Make();
  const Function& function = symbolizer[symbolizer.FunctionAt(at)];
  EXPECT_EQ(function.name, "a::B::C(int)");
  EXPECT_EQ(function.start, nm.at("_ZN1a1B1CEi"));
  EXPECT_EQ(function.origin, NameOrigin::kSymtab);
  EXPECT_EQ(symbolizer.LineAt(at), "prog.cc:4");
  EXPECT_EQ(symbolizer.VaddrOf(at), nm.at("_ZN1a1B1CEi") + 1);
  EXPECT_EQ(symbolizer.LocationOf(at.object, nm.at("_ZN1a1B1CEi") + 1), at);
  EXPECT_THAT(symbolizer.CodeAt(at, 4), IsOk());
}

TEST_F(SymbolizerTest, LldBinaryWhoseSegmentsShareAPage) {
  if (!Compile({"clang++-19", "-fuse-ld=lld", "-Wl,-z,noseparate-code"})) GTEST_SKIP() << "needs clang++-19 and lld";
  auto nm = Nm(dir.File("prog"));
  auto file = elf::File::Open(dir.File("prog"));
  Location at = At(dir.File("prog"), nm.at("shown"));
  EXPECT_NE(at.offset, nm.at("shown")) << "the layout this test is about";
  Symbolizer symbolizer = Make();
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt(at)].name, "shown");
}

TEST_F(SymbolizerTest, StrippedFunctionsAreNamedAfterTheExportedOneBeforeThem) {
  if (!Compile({"g++"})) GTEST_SKIP() << "needs g++";
  auto nm = Nm(dir.File("prog"));
  ASSERT_EQ(testing_support::Run({"strip", dir.File("prog")}).status, 0);
  Symbolizer symbolizer = Make();
  const Function& shown = symbolizer[symbolizer.FunctionAt(At(dir.File("prog"), nm.at("shown") + 2))];
  EXPECT_EQ(shown.name, "shown");
  EXPECT_EQ(shown.origin, NameOrigin::kDynsym);
  const Function& hidden = symbolizer[symbolizer.FunctionAt(At(dir.File("prog"), nm.at("_ZL6hiddeni")))];
  EXPECT_EQ(hidden.start, nm.at("_ZL6hiddeni"));
  EXPECT_TRUE(hidden.origin == NameOrigin::kNearest || hidden.origin == NameOrigin::kFrame);
  EXPECT_THAT(hidden.name, testing::AnyOf(HasSubstr("~"), HasSubstr("fn_")));
}

TEST_F(SymbolizerTest, DebugFileByBuildId) {
  if (!Compile({"g++"})) GTEST_SKIP() << "needs g++";
  auto nm = Nm(dir.File("prog"));
  std::string id = HexEncode(*elf::File::Open(dir.File("prog"))->BuildId());
  std::string folder = dir.File("debug/.build-id/" + id.substr(0, 2));
  std::filesystem::create_directories(folder);
  ASSERT_EQ(testing_support::Run({"objcopy", "--only-keep-debug", dir.File("prog"), folder + "/" + id.substr(2) + ".debug"}).status, 0);
  ASSERT_EQ(testing_support::Run({"strip", dir.File("prog")}).status, 0);
  Symbolizer symbolizer = Make();
  Location at = At(dir.File("prog"), nm.at("_ZL6hiddeni"));
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt(at)].name, "hidden(int)");
  EXPECT_EQ(symbolizer.LineAt(at), "prog.cc:2");
}

TEST_F(SymbolizerTest, DebugFileByDebugLinkNeedsTheRightChecksum) {
  if (!Compile({"g++"})) GTEST_SKIP() << "needs g++";
  auto nm = Nm(dir.File("prog"));
  ASSERT_EQ(testing_support::Run({"objcopy", "--remove-section=.note.gnu.build-id", dir.File("prog")}).status, 0);
  ASSERT_EQ(testing_support::Run({"objcopy", "--only-keep-debug", dir.File("prog"), dir.File("prog.dbg")}).status, 0);
  ASSERT_EQ(testing_support::Run({"strip", dir.File("prog")}).status, 0);
  ASSERT_EQ(testing_support::Run({"objcopy", "--add-gnu-debuglink=" + dir.File("prog.dbg"), dir.File("prog")}).status, 0);
  Location at = At(dir.File("prog"), nm.at("_ZL6hiddeni"));
  {
    Symbolizer symbolizer = Make();
    EXPECT_EQ(symbolizer[symbolizer.FunctionAt(at)].name, "hidden(int)");
  }
  std::ofstream(dir.File("prog.dbg"), std::ios::app) << "x";
  Symbolizer symbolizer = Make();
  EXPECT_NE(symbolizer[symbolizer.FunctionAt(at)].name, "hidden(int)");
}

TEST_F(SymbolizerTest, AnotherBuildOfTheFileIsNotUsed) {
  if (!Compile({"g++"})) GTEST_SKIP() << "needs g++";
  auto nm = Nm(dir.File("prog"));
  Location at = At(dir.File("prog"), nm.at("shown"), "\x01\x02\x03\x04");
  Symbolizer symbolizer = Make();
  const Function& function = symbolizer[symbolizer.FunctionAt(at)];
  EXPECT_FALSE(function.resolved());
  EXPECT_EQ(function.reason, Unresolved::kBuildIdMismatch);
  EXPECT_EQ(function.name, "[prog]");
  EXPECT_THAT(symbolizer.FileOf(at.object).detail, HasSubstr("recorded 01020304"));
}

TEST_F(SymbolizerTest, MissingFileIsAReason) {
  ObjectId id = objects.Intern({.kind = ObjectKind::kFile, .path = "/nonexistent/lib.so"});
  Symbolizer symbolizer = Make();
  const Function& function = symbolizer[symbolizer.FunctionAt({id, 0x100})];
  EXPECT_EQ(function.reason, Unresolved::kNoFile);
  EXPECT_EQ(UnresolvedName(function.reason), "file not found");
  EXPECT_EQ(symbolizer.CodeAt({id, 0x100}, 4).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SymbolizerTest, UnmappedAddressIsAReason) {
  Symbolizer symbolizer = Make();
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({kNoObject, 0x100})].reason, Unresolved::kUnmapped);
}

// The executable of a process that runs on after its file was deleted.
TEST_F(SymbolizerTest, DeletedFileOfALiveProcess) {
  std::filesystem::copy_file("/bin/sleep", dir.File("nap"));
  pid_t child = fork();
  if (child == 0) {
    execl(dir.File("nap").c_str(), "nap", "30", nullptr);
    _exit(127);
  }
  Mapping mapping;
  for (int tries = 0; tries < 200 && mapping.start == 0; ++tries) {
    std::string maps = ReadFile("/proc/" + std::to_string(child) + "/maps").value_or("");
    for (std::string_view line : Split(maps, '\n')) {
      if (line.find("r-xp") == std::string_view::npos || line.find("/nap") == std::string_view::npos) continue;
      mapping.start = std::stoull(std::string(line), nullptr, 16);
      mapping.end = std::stoull(std::string(line.substr(line.find('-') + 1)), nullptr, 16);
    }
    usleep(5000);
  }
  ASSERT_NE(mapping.start, 0u);
  std::filesystem::remove(dir.File("nap"));
  ObjectId id = objects.Intern({.kind = ObjectKind::kFile, .path = dir.File("nap") + " (deleted)", .pid = child, .start = mapping.start, .length = mapping.end - mapping.start});
  Symbolizer symbolizer = Make();
  bool found = symbolizer.FileOf(id).file != nullptr;
  std::string place = symbolizer.FileOf(id).path;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!found && geteuid() != 0) GTEST_SKIP() << "needs the right to read map_files";
  EXPECT_TRUE(found);
  EXPECT_THAT(place, HasSubstr("map_files"));
}

TEST_F(SymbolizerTest, VdsoNamesComeFromTheMappedImage) {
  if (getauxval(AT_SYSINFO_EHDR) == 0) GTEST_SKIP() << "no vdso";
  ObjectId id = objects.Intern({.kind = ObjectKind::kVdso, .path = "[vdso]"});
  Symbolizer symbolizer = Make();
  auto found = symbolizer.FindFunctions("__vdso_clock_gettime", std::vector<ObjectId>{id});
  if (found.empty()) found = symbolizer.FindFunctions("__kernel_clock_gettime", std::vector<ObjectId>{id});
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(symbolizer[found[0]].resolved());
}

TEST_F(SymbolizerTest, KernelNamesAreRelativeToTheReferenceSymbol) {
  std::ofstream(dir.File("kallsyms")) << "ffffffff9a000000 T _text\nffffffff9a000100 T do_fork\nffffffff9a000200 t next\n";
  std::ofstream(dir.File("notes")) << "";
  SymbolOptions options;
  options.kallsyms = dir.File("kallsyms");
  options.kernel_notes = dir.File("notes");
  ObjectId id = objects.Intern({.kind = ObjectKind::kKernel, .path = "[kernel.kallsyms]", .reference = "_text"});
  Symbolizer symbolizer(&objects, options);
  const Function& function = symbolizer[symbolizer.FunctionAt({id, 0x140})];
  EXPECT_EQ(function.name, "do_fork");
  EXPECT_EQ(function.origin, NameOrigin::kKallsyms);
}

TEST_F(SymbolizerTest, AnotherKernelIsAReason) {
  std::ofstream(dir.File("notes")) << "";
  SymbolOptions options;
  options.kernel_notes = dir.File("notes");
  ObjectId id = objects.Intern({.kind = ObjectKind::kKernel, .path = "[kernel.kallsyms]", .build_id = "\x05\x06", .reference = "_text"});
  Symbolizer symbolizer(&objects, options);
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x140})].reason, Unresolved::kOtherKernel);
}

TEST_F(SymbolizerTest, JitCodeIsNamedByThePerfMap) {
  std::ofstream(dir.File("perf-2000000001.map")) << "7f0000001000 100 Hot.loop\n";
  SymbolOptions options;
  options.map_dir = dir.path();
  ObjectId id = objects.Intern({.kind = ObjectKind::kJit, .pid = 2000000001});
  Symbolizer symbolizer(&objects, options);
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x7f0000001010})].name, "Hot.loop");
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x7f0000002000})].reason, Unresolved::kGap);
  ObjectId bare = objects.Intern({.kind = ObjectKind::kJit, .pid = 2000000002});
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({bare, 0x10})].reason, Unresolved::kNoJitMap);
}

TEST_F(SymbolizerTest, ContainerPidIsTheInnermostOne) {
  std::filesystem::create_directories(dir.File("proc/500/root/tmp"));
  std::ofstream(dir.File("proc/500/status")) << "Name:\tnode\nNSpid:\t500\t7\nThreads:\t1\n";
  std::ofstream(dir.File("proc/500/root/tmp/perf-7.map")) << "1000 100 Inside\n";
  EXPECT_EQ(InnermostPid(dir.File("proc"), 500), 7);
  SymbolOptions options;
  options.locate.proc = dir.File("proc");
  ObjectId id = objects.Intern({.kind = ObjectKind::kJit, .pid = 500});
  Symbolizer symbolizer(&objects, options);
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x1010})].name, "Inside");
}

TEST_F(SymbolizerTest, FileInAnotherMountNamespaceIsReadThroughItsRoot) {
  if (!Compile({"g++"})) GTEST_SKIP() << "needs g++";
  auto nm = Nm(dir.File("prog"));
  std::filesystem::create_directories(dir.File("proc/500/root/app"));
  std::filesystem::copy_file(dir.File("prog"), dir.File("proc/500/root/app/prog"));
  SymbolOptions options;
  options.locate.proc = dir.File("proc");
  uint64_t offset = elf::File::Open(dir.File("prog"))->VaddrToOffset(nm.at("shown")).value();
  ObjectId id = objects.Intern({.kind = ObjectKind::kFile, .path = "/app/prog", .pid = 500});
  Symbolizer symbolizer(&objects, options);
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, offset})].name, "shown");
}

TEST(FunctionTable, OverlapsAreCutAtTheNextStart) {
  auto table = FunctionTable::FromEntries({{0x100, 0x200, "a", NameOrigin::kJit}, {0x180, 0x190, "b", NameOrigin::kJit}});
  EXPECT_EQ(table.Find(0x17f)->name, "a");
  EXPECT_EQ(table.Find(0x180)->name, "b");
  EXPECT_EQ(table.Find(0x190), nullptr);
  EXPECT_EQ(table.Find(0x50), nullptr);
}

}  // namespace
}  // namespace brink::symbol
