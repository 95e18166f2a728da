// Kernel images and modules that were made for the test: names, lines, KASLR, and whose symbols may be used.
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "base/strings.h"
#include "elf/file.h"
#include "support/process.h"
#include "symbol/address_space.h"
#include "symbol/symbolizer.h"

namespace brink::symbol {
namespace {

using testing_support::TempDir;

constexpr char kSource[] = R"(
__asm__(".globl _text\n_text:\n");
__attribute__((noinline)) int do_work(int x) { return x * 7 + 1; }
__attribute__((noinline)) int do_more(int x) { return do_work(x) - 2; }
__attribute__((noinline, section(".text.unlikely"))) int do_rarely(int x) { return do_more(x) ^ 9; }
__attribute__((noinline, section(".init.text"))) int do_first(int x) { return do_more(x) ^ 5; }
int _start_here(void) { return do_rarely(3) + do_first(4); }
)";

class KernelSymbols : public testing::Test {
 protected:
  bool Compile(const std::vector<std::string>& extra, const std::string& output) {
    std::ofstream(dir.File("code.c")) << kSource;
    std::vector<std::string> argv = {"gcc", "-O1", "-g", "-fno-pic", "-mcmodel=kernel", "-o", dir.File(output), dir.File("code.c")};
    argv.insert(argv.end(), extra.begin(), extra.end());
    return testing_support::Run(argv).status == 0;
  }
  std::map<std::string, uint64_t> Nm(const std::string& name) {
    std::map<std::string, uint64_t> out;
    std::string text = testing_support::Run({"nm", dir.File(name)}).out;
    for (std::string_view line : Split(text, '\n')) {
      auto words = Split(line, ' ');
      if (words.size() == 3 && words[0].size() == 16) out[std::string(words[2])] = std::stoull(std::string(words[0]), nullptr, 16);
    }
    return out;
  }
  SymbolOptions Options(const std::string& kallsyms) {
    std::ofstream(dir.File("kallsyms")) << kallsyms;
    std::ofstream(dir.File("notes")) << "";
    SymbolOptions options;
    options.kallsyms = dir.File("kallsyms");
    options.kernel_notes = dir.File("notes");
    return options;
  }
  ObjectId Module(const std::string& path) {
    return objects.Intern({.kind = ObjectKind::kModule, .path = path, .start = 0xffffffffc0400000, .length = 0x3000});
  }

  TempDir dir;
  ObjectTable objects;
};

TEST_F(KernelSymbols, VmlinuxGivesNamesLinesAndCodeWhateverTheSlide) {
  if (!Compile({"-nostdlib", "-static", "-Wl,-Ttext=0xffffffff81000000", "-Wl,-e,_start_here"}, "vmlinux")) {
    GTEST_SKIP() << "needs gcc";
  }
  const uint64_t work = Nm("vmlinux").at("do_work");
  constexpr uint64_t kSlide = 0x1a400000;
  // As perf records it: the page offset is the address of the reference symbol.
  AddressSpaces spaces(&objects);
  spaces.Mmap({.pid = -1, .start = 0xffffffff81000000 + kSlide, .length = 0x1000000, .page_offset = 0xffffffff81000000 + kSlide,
               .path = "[kernel.kallsyms]_text", .kernel = true});
  const Location at = spaces.Normalise(1234, work + kSlide + 2);
  SymbolOptions options;
  options.vmlinux = dir.File("vmlinux");
  options.locate.other_host = true;  // named by the user: good all the same
  Symbolizer symbolizer(&objects, options);
  const Function& function = symbolizer[symbolizer.FunctionAt(at)];
  EXPECT_EQ(function.name, "do_work");
  EXPECT_EQ(function.start, work);
  EXPECT_EQ(symbolizer.VaddrOf(at), work + 2);
  EXPECT_EQ(symbolizer.LineAt(at), "code.c:3");
  EXPECT_TRUE(symbolizer.CodeAt(at, 4).ok());
  auto frames = symbolizer.FramesAt(at);
  ASSERT_FALSE(frames.empty());
  EXPECT_EQ(frames[0].function, "do_work");
}

TEST_F(KernelSymbols, ModuleFileGivesNamesAndLines) {
  if (!Compile({"-c"}, "mod.ko")) GTEST_SKIP() << "needs gcc";
  const uint64_t more = Nm("mod.ko").at("do_more");
  ObjectId id = Module(dir.File("mod.ko"));
  Symbolizer symbolizer(&objects, Options(""));
  const Function& function = symbolizer[symbolizer.FunctionAt({id, more + 1})];
  EXPECT_EQ(function.name, "do_more");
  EXPECT_EQ(symbolizer.LineAt({id, more}), "code.c:4");
}

TEST_F(KernelSymbols, ModuleWithoutAFileIsNamedByKallsyms) {
  ObjectId id = Module("/lib/modules/0.0.0/kernel/fs/my-mod.ko.xz");
  Symbolizer symbolizer(&objects, Options("ffffffffc0400000 t first\t[my_mod]\nffffffffc0400100 t second\t[my_mod]\nffffffffc0900000 t far\t[other]\n"));
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x20})].name, "first");
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x120})].name, "second");
}

TEST_F(KernelSymbols, ModuleOfAnotherKernelIsNotNamedByThisOnes) {
  const std::string kallsyms = "ffffffffc0400000 t first\t[my_mod]\n";
  ObjectId id = Module("[my_mod]");
  objects.Intern({.kind = ObjectKind::kKernel, .path = "[kernel.kallsyms]", .build_id = "\x05\x06", .reference = "_text"});
  Symbolizer symbolizer(&objects, Options(kallsyms));
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x20})].reason, Unresolved::kOtherKernel);
  SymbolOptions given = Options(kallsyms);
  given.kallsyms_given = true;
  Symbolizer told(&objects, given);
  EXPECT_EQ(told[told.FunctionAt({id, 0x20})].name, "first");
}

TEST_F(KernelSymbols, SavedKallsymsNamesAnotherHostsKernel) {
  ObjectId id = objects.Intern({.kind = ObjectKind::kKernel, .path = "[kernel.kallsyms]", .build_id = "\x05\x06", .reference = "_text"});
  SymbolOptions options = Options("ffffffff9a000000 T _text\nffffffff9a000100 T do_fork\nffffffff9a000200 t next\n");
  options.kallsyms_given = true;
  Symbolizer symbolizer(&objects, options);
  EXPECT_EQ(symbolizer[symbolizer.FunctionAt({id, 0x140})].name, "do_fork");
}

}  // namespace
}  // namespace brink::symbol
