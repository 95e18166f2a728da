#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf/cursor.h"
#include "support/process.h"
#include "support/status_matchers.h"
#include "symbol/demangle.h"
#include "symbol/jitdump.h"
#include "symbol/kallsyms.h"
#include "symbol/perf_map.h"

namespace brink::symbol {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;

TEST(Demangle, CxxEqualsCxxfilt) {
  EXPECT_EQ(Demangle("_ZN4shop4Till3AddEi"), "shop::Till::Add(int)");
  EXPECT_EQ(Demangle("_ZNSt3mapIiSsE6insertEi"), "std::map<int, std::string>::insert(int)");
}

TEST(Demangle, SuffixesOfClonesAreKept) {
  EXPECT_EQ(Demangle("_Z1fv.cold"), "f() [.cold]");
  EXPECT_EQ(Demangle("_Z1fv.constprop.0.isra.1"), "f() [.constprop.0.isra.1]");
}

TEST(Demangle, OtherNamesStay) {
  EXPECT_EQ(Demangle("main"), "main");
  EXPECT_EQ(Demangle("_Zgarbage"), "_Zgarbage");
  EXPECT_EQ(Demangle("foo.cold"), "foo.cold");
  EXPECT_EQ(Demangle(""), "");
}

// Expected names are rustfilt's (and the RFC's own examples).
TEST(Demangle, RustV0) {
  EXPECT_EQ(Demangle("_RNvCskwGfYPst2Cb_3foo16example_function"), "foo::example_function");
  EXPECT_EQ(Demangle("_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo"), "<mycrate::Example>::foo");
  EXPECT_EQ(Demangle("_RNvXCs15kBYyAo9fc_7mycrateNtB2_7ExampleNtB2_5Trait3foo"), "<mycrate::Example as mycrate::Trait>::foo");
  EXPECT_EQ(Demangle("_RINvCs7qp2U7fqm6G_7mycrate7exampleNtB2_4TypehjE"), "mycrate::example::<mycrate::Type, u8, usize>");
  EXPECT_EQ(Demangle("_RNCNvC4core4main0"), "core::main::{closure#0}");
  EXPECT_EQ(Demangle("_RMC0INtC8arrayvec8ArrayVechKj7b_E"), "<arrayvec::ArrayVec<u8, 123>>");
  EXPECT_EQ(Demangle("_RINvNtC3std3mem8align_ofdE"), "std::mem::align_of::<f64>");
  EXPECT_EQ(Demangle("_RINvNtC3std3mem8align_ofFKCjEuE"), "std::mem::align_of::<extern \"C\" fn(usize)>");
  EXPECT_EQ(Demangle("_RINvC1a1fRShTjuEE"), "a::f::<&[u8], (usize, ())>");
}

TEST(Demangle, RustLegacy) {
  EXPECT_EQ(Demangle("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE"), "core::fmt::Formatter::write_str");
  EXPECT_EQ(Demangle("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE"),
            "<Test + 'static as foo::Bar<Test>>::bar");
}

TEST(Demangle, RustNamesOutsideTheGrammarStay) {
  for (const char* name : {"_R", "_RNvC", "_RB_", "_RNvB0_1a", "_R5Nv", "_RNvC1a1b1c"}) EXPECT_EQ(Demangle(name), name);
}

TEST(Demangle, ExplodingNamesStayAsTheyAre) {
  // Every level repeats the one before twice: 2^60 characters if followed.
  std::string name = "_Z1fI1aS0_";
  for (int i = 0; i < 60; ++i) {
    std::string previous = i == 0 ? "S0_" : "S" + std::string(1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[std::min(i, 35)]) + "_";
    name += "F" + previous + previous + "E";
  }
  name += "Evv";
  EXPECT_LE(Demangle(name).size(), kMaxDemangled);
  std::string rust = "_RINvC1a1fT";
  std::string level = "uu";
  for (int i = 0; i < 40; ++i) rust += "TB9_B9_E";
  EXPECT_LE(Demangle(rust + "EE").size(), kMaxDemangled);
  EXPECT_EQ(Demangle("_Z" + std::string(20000, 'P')).size(), 20002u);
  Demangle("_Z1f" + std::string(8000, 'P') + "i");
  Demangle("_RINvC1a1f" + std::string(8000, 'S') + "uE");
}

TEST(Demangle, AgreesWithCxxfiltOnTheNamesOfALibrary) {
  auto nm = testing_support::Run({"nm", "-D", "--defined-only", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"});
  if (nm.status != 0) GTEST_SKIP() << "needs nm and libstdc++";
  std::string input;
  std::vector<std::string> names;
  size_t at = 0;
  while (at < nm.out.size() && names.size() < 3000) {
    size_t end = nm.out.find('\n', at);
    std::string line = nm.out.substr(at, end - at);
    at = end == std::string::npos ? nm.out.size() : end + 1;
    std::string name = line.substr(line.rfind(' ') + 1);
    name = name.substr(0, name.find('@'));
    // c++filt spells std::string and its kind out ("Ss", "Si", ...), we do not (nor does perf).
    bool abbreviated = name.find("Ss") != std::string::npos || name.find("Si") != std::string::npos ||
                       name.find("So") != std::string::npos || name.find("Sd") != std::string::npos;
    if (name.starts_with("_Z") && !abbreviated) names.push_back(name), input += name + "\n";
  }
  auto filt = testing_support::Run({"c++filt"}, {.stdin_text = input});
  if (filt.status != 0) GTEST_SKIP() << "needs c++filt";
  std::string ours;
  for (const std::string& name : names) ours += Demangle(name) + "\n";
  ASSERT_GT(names.size(), 1000u);
  EXPECT_EQ(ours, filt.out);
}

TEST(ShortenName, DropsArgumentsAndTemplates) {
  EXPECT_EQ(ShortenName("std::vector<int, std::allocator<int> >::push_back(int const&)"), "std::vector::push_back");
  EXPECT_EQ(ShortenName("Foo::operator()(int)"), "Foo::operator()");
  EXPECT_EQ(ShortenName("bool operator< <int>(A<int>)"), "bool operator< ");
  EXPECT_EQ(ShortenName("(anonymous namespace)::f(int)"), "(anonymous namespace)::f");
  EXPECT_EQ(ShortenName("main"), "main");
}

TEST(PerfMap, ReadsLinesInBothSpellings) {
  PerfMap map = ParsePerfMap("7f0010 20 Lib.add\n0x7f0100 0x10 [tier1] f (a.js:3)\n");
  ASSERT_EQ(map.symbols.size(), 2u);
  EXPECT_EQ(map.symbols[0].start, 0x7f0010u);
  EXPECT_EQ(map.symbols[0].size, 0x20u);
  EXPECT_EQ(map.symbols[0].name, "Lib.add");
  EXPECT_EQ(map.symbols[1].name, "[tier1] f (a.js:3)");
}

TEST(PerfMap, CountsDamageAndGoesOn) {
  PerfMap map = ParsePerfMap("garbage\n10 zz x\n20 8\n30 8 ok\nffffffffffffffff 8 wraps\n40 8 cut");
  EXPECT_EQ(map.damaged, 4u);
  ASSERT_EQ(map.symbols.size(), 2u);
  EXPECT_EQ(map.symbols[1].name, "cut");
}

TEST(PerfMap, LaterCodeReplacesWhatItOverwrites) {
  PerfMap map = ParsePerfMap("100 100 old\n180 20 new\n");
  ASSERT_EQ(map.symbols.size(), 2u);
  EXPECT_EQ(map.symbols[0].size, 0x80u);
  EXPECT_EQ(map.symbols[1].name, "new");
}

std::string JitRecord(uint32_t id, uint64_t time, const std::string& body) {
  std::string out;
  auto put = [&](auto value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(id), put(static_cast<uint32_t>(16 + body.size())), put(time);
  return out + body;
}

template <typename... T>
std::string Pack(T... values) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  return out;
}

std::string SampleDump() {
  std::string dump = Pack(uint32_t{0x4A695444}, uint32_t{1}, uint32_t{40}, uint32_t{62}, uint32_t{0}, uint32_t{42}, uint64_t{1}, uint64_t{0});
  dump += JitRecord(2, 5, Pack(uint64_t{0x1000}, uint64_t{2}, uint64_t{0x1000}, uint32_t{7}, uint32_t{0}) + std::string("a.js\0", 5) +
                              Pack(uint64_t{0x1004}, uint32_t{9}, uint32_t{0}) + std::string("\xff\0", 2));
  dump += JitRecord(0, 6, Pack(uint32_t{42}, uint32_t{42}, uint64_t{0x1000}, uint64_t{0x1000}, uint64_t{4}, uint64_t{1}) + std::string("f\0", 2) + "\x90\x90\x90\xc3");
  dump += JitRecord(1, 7, Pack(uint32_t{42}, uint32_t{42}, uint64_t{0}, uint64_t{0x1000}, uint64_t{0x2000}, uint64_t{4}, uint64_t{1}));
  return dump;
}

TEST(JitDump, ReadsCodeLinesAndMoves) {
  auto dump = ParseJitDump(SampleDump());
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(dump->pid, 42u);
  EXPECT_EQ(dump->machine, 62u);
  ASSERT_EQ(dump->codes.size(), 2u);
  EXPECT_EQ(dump->codes[0].name, "f");
  EXPECT_EQ(dump->codes[1].address, 0x2000u);
  ASSERT_EQ(dump->codes[1].lines.size(), 2u);
  EXPECT_EQ(dump->codes[1].lines[1].address, 0x2004u);
  EXPECT_EQ(dump->codes[1].lines[1].line, 9u);
  EXPECT_EQ(dump->files, std::vector<std::string>{"a.js"});
  EXPECT_EQ(SampleDump().substr(dump->codes[0].code_offset, 4), "\x90\x90\x90\xc3");
  EXPECT_EQ(dump->damaged, 0u);
}

std::string DumpOfOneFunction(const std::string& name, uint64_t line_address, const std::string& file) {
  return SampleDump().substr(0, 40) + JitRecord(2, 5, Pack(uint64_t{0x1000}, uint64_t{1}, line_address, uint32_t{7}, uint32_t{0}) + file + '\0') +
         JitRecord(0, 6, Pack(uint32_t{42}, uint32_t{42}, uint64_t{0x1000}, uint64_t{0x1000}, uint64_t{4}, uint64_t{1}) + name + '\0' + "\x90\x90\x90\xc3");
}

TEST(JitDump, LinesOfV8AreWhereTheCodeIs) {
  auto v8 = ParseJitDump(DumpOfOneFunction("JS:*f a.js:1:1", 0x1042, "a.js")), other = ParseJitDump(DumpOfOneFunction("f", 0x1042, "a.js"));
  ASSERT_THAT(v8, IsOk());
  ASSERT_EQ(v8->codes.at(0).lines.size(), 1u);
  EXPECT_EQ(v8->codes[0].lines[0].address, 0x1002u);
  EXPECT_EQ(other->codes.at(0).lines.at(0).address, 0x1042u);
  // A later V8 that does not shift.
  EXPECT_EQ(ParseJitDump(DumpOfOneFunction("JS:*f a.js:1:1", 0x1002, "a.js"))->codes.at(0).lines.at(0).address, 0x1002u);
}

TEST(JitDump, LinesOfFilesWithoutANameAreDropped) {
  for (const std::string file : {"", "Q\xa0\x01", "a\x1b[2J.js"}) {
    auto dump = ParseJitDump(DumpOfOneFunction("f", 0x1000, file));
    ASSERT_THAT(dump, IsOk());
    EXPECT_TRUE(dump->codes.at(0).lines.empty());
    EXPECT_TRUE(dump->files.empty());
    EXPECT_EQ(dump->damaged, 0u);
  }
}

// The runtime still writes, or was killed: the last function has its name, not its code.
TEST(JitDump, OfACutLastRecordTheNameIsKept) {
  const std::string whole = DumpOfOneFunction("hottest", 0x1002, "a.js");
  auto cut = ParseJitDump(whole.substr(0, whole.size() - 2));
  ASSERT_THAT(cut, IsOk());
  ASSERT_EQ(cut->codes.size(), 1u);
  EXPECT_EQ(cut->codes[0].name, "hottest");
  EXPECT_EQ(cut->codes[0].size, 4u);
  EXPECT_EQ(cut->codes[0].code_offset, 0u);
  EXPECT_EQ(cut->damaged, 0u);
  auto in_the_name = ParseJitDump(whole.substr(0, whole.size() - 7));
  ASSERT_THAT(in_the_name, IsOk());
  EXPECT_TRUE(in_the_name->codes.empty());
  EXPECT_EQ(in_the_name->damaged, 0u);
}

TEST(JitDump, TruncationAndDamageNeverCrash) {
  std::string whole = SampleDump();
  for (size_t size = 0; size < whole.size(); ++size) (void)ParseJitDump(whole.substr(0, size));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = '\xff';
    (void)ParseJitDump(changed);
  }
  EXPECT_THAT(ParseJitDump("nonsense"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a jitdump")));
}

TEST(Kallsyms, KeepsTextSymbolsOnly) {
  auto kallsyms = ParseKallsyms("ffffffff81000000 T _text\nffffffff81000040 t do_it\nffffffff82000000 D data\nffffffffc0000000 t ext4_x\t[ext4]\n");
  ASSERT_THAT(kallsyms, IsOk());
  ASSERT_EQ(kallsyms->symbols.size(), 3u);
  EXPECT_EQ(kallsyms->AddressOf("_text"), 0xffffffff81000000u);
  EXPECT_EQ(kallsyms->symbols[2].module, "ext4");
}

TEST(Kallsyms, HiddenAddressesAreAReason) {
  EXPECT_THAT(ParseKallsyms("0000000000000000 T _text\n"), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("kptr_restrict")));
}

}  // namespace
}  // namespace brink::symbol
