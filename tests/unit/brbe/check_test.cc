// Dumps, configuration checks, programs and diagnosis.
#include "brbe/check.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "brbe/diagnose.h"
#include "brbe/dump.h"
#include "brbe/program.h"
#include "brbe/registers.h"
#include "filter/parser.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::brbe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::IsOk;

std::string Text(std::initializer_list<const char*> words) {
  Environment environment;
  for (const char* word : words) EXPECT_THAT(AddWord(environment, word), IsOk()) << word;
  return FindingsText(CheckConfiguration(environment));
}

TEST(Check, SaysWhatHangsOnValuesNotGiven) {
  std::string text = Text({"brbcr_el1=0xC0013B", "brbfcr_el1=0x7E0000"});
  EXPECT_THAT(text, HasSubstr("with HCR_EL2.TGE = 0: recorded (E0BRE); with TGE = 1: not known"));
  EXPECT_THAT(text, HasSubstr("hangs on HCR_EL2.TGE"));
  EXPECT_THAT(text, HasSubstr("hangs on MDCR_EL3.SBRBE"));
  EXPECT_THAT(text, HasSubstr("hangs on HDFGRTR_EL2.nBRBCTL"));
  EXPECT_THAT(text, HasSubstr("hangs on BRBCR_EL2"));
}

TEST(Check, TgeDecidesWhichBitRulesEl0) {
  EXPECT_THAT(Text({"brbcr_el1=0x1", "brbcr_el2=0", "hcr_el2.tge=0", "el3=no"}), HasSubstr("EL0        recorded by BRBCR_EL1.E0BRE"));
  EXPECT_THAT(Text({"brbcr_el1=0x1", "brbcr_el2=0", "hcr_el2.tge=1", "el3=no"}), HasSubstr("EL0        not recorded (prohibited region) by BRBCR_EL2.E0HBRE"));
  EXPECT_THAT(Text({"brbcr_el1=0x1", "brbcr_el2=1", "el3=no"}), HasSubstr("whatever HCR_EL2.TGE is"));
}

TEST(Check, OneFieldLeavesTheOthersNotKnown) {
  std::string text = Text({"hdfgrtr_el2.nbrbctl=1", "brbcr_el1.fzp=1", "hcr_el2.nv=1"});
  EXPECT_THAT(text, Not(HasSubstr("trap to EL2 (HDFGRTR")));
  EXPECT_THAT(text, HasSubstr("hangs on HDFGRTR_EL2.nBRBDATA"));
  EXPECT_THAT(text, Not(HasSubstr("hangs on HDFGRTR_EL2.nBRBCTL")));
  EXPECT_THAT(text, HasSubstr("freezes the buffer (BRBCR_EL1.FZP)"));
  EXPECT_THAT(text, HasSubstr("EL1        not known"));
  EXPECT_THAT(text, HasSubstr("hangs on HCR_EL2.NV1, HCR_EL2.NV2"));
  // The later word wins.
  EXPECT_THAT(Text({"hdfgrtr_el2=0", "hdfgrtr_el2.nbrbctl=1", "hdfgrtr_el2.nbrbctl=0"}), HasSubstr("HDFGRTR_EL2.nBRBCTL = 0"));
}

TEST(Check, AnEl1ClockOfZeroHangsOnTheOtherCopy) {
  EXPECT_THAT(Text({"brbcr_el1=0"}), HasSubstr("hangs on BRBCR_EL2.TS"));
  EXPECT_THAT(Text({"brbcr_el1=0", "brbcr_el2=0"}), HasSubstr("problem  registers  BRBCR_EL1: TS = 0 is reserved"));
  EXPECT_THAT(Text({"brbcr_el1=0", "brbcr_el2=0x20"}), Not(HasSubstr("TS = 0 is reserved")));
}

TEST(Check, CopiesMustAgree) {
  std::string text = Text({"brbcr_el1=0xC0013B", "brbcr_el2=0x10"});
  EXPECT_THAT(text, HasSubstr("CC is set in one copy only"));
  EXPECT_THAT(text, HasSubstr("mispredict flag: on"));
  EXPECT_THAT(Text({"brbcr_el1=0x18", "el2=no"}), HasSubstr("cycle counts: on"));
  EXPECT_THAT(Text({"brbcr_el1=0", "el2=no"}), Not(HasSubstr("one copy only")));
}

TEST(Check, FirmwareAndTraps) {
  EXPECT_THAT(Text({"mdcr_el3=0"}), HasSubstr("SBRBE = 0: accesses from EL1 and EL2 trap"));
  EXPECT_THAT(Text({"mdcr_el3.sbrbe=1", "scr_el3.ns=1"}), HasSubstr("SBRBE = 1 and Non-secure: allowed"));
  EXPECT_THAT(Text({"mdcr_el3.sbrbe=1", "scr_el3=0"}), HasSubstr("SBRBE = 1 and Secure: accesses trap"));
  EXPECT_THAT(Text({"hdfgrtr_el2=0"}), HasSubstr("HDFGRTR_EL2.nBRBCTL = 0"));
  EXPECT_THAT(Text({"hdfgwtr_el2=0x1000000000000000"}), Not(HasSubstr("HDFGWTR_EL2.nBRBCTL = 0")));
}

TEST(Check, FreezePausedBankKinds) {
  EXPECT_THAT(Text({"brbcr_el1=0x3"}), HasSubstr("overwrite the records before they are read"));
  EXPECT_THAT(Text({"brbfcr_el1=0x80"}), HasSubstr("never clears it"));
  EXPECT_THAT(Text({"brbfcr_el1=0"}), HasSubstr("only exceptions and exception returns"));
  EXPECT_THAT(Text({"brbfcr_el1=0x10080000", "brbidr0_el1=0x5020"}), HasSubstr("BANK = 1 shows nothing"));
  EXPECT_THAT(Text({"brbfcr_el1=0x90000"}), HasSubstr("not recorded: return (EnI = 1"));
  EXPECT_THAT(Text({"brbfcr_el1=0x1E0000"}), HasSubstr("DIRCALL and CONDDIR are off"));
  EXPECT_THAT(Text({"brbfcr_el1=0x7E00000000"}), HasSubstr("bits 22:17"));
  EXPECT_THAT(Text({"mdcr_el3.e3brec=1", "mdcr_el3.e3brew=0", "feature=v1p1"}), HasSubstr("recorded: E3BREC and E3BREW differ"));
  EXPECT_THAT(Text({"feature=brbe"}), HasSubstr("never recorded"));
  EXPECT_THAT(Text({"hcr_el2.nv=1", "hcr_el2.nv1=1", "hcr_el2.nv2=1"}), HasSubstr("0x8E0"));
}

TEST(Check, BadWords) {
  Environment environment;
  EXPECT_THAT(Message(AddWord(environment, "brbcr_el4=1")), HasSubstr("did you mean BRBCR_EL1"));
  EXPECT_THAT(Message(AddWord(environment, "brbcr_el1")), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Message(AddWord(environment, "el2=maybe")), HasSubstr("yes or no"));
}

constexpr char kTextDump[] =
    "# crash dump\n"
    "BRBIDR0_EL1 = 0x0000000000005040\n"
    "brbfcr_el1: 007e0080\n"
    "BRBINF0_EL1 = 0x0000_0001_0000_0823, BRBSRC0_EL1 = 0x401000, BRBTGT0_EL1 = 0x401020\n"
    "BRBINF<1>_EL1 0x702 BRBSRC<1>_EL1 0x401040\n"
    "bank 1\n"
    "BRBINF0_EL1 = 0x3 BRBSRC0_EL1=0x402000 BRBTGT0_EL1=0x402004\n";

TEST(Dump, TextWithBothBanks) {
  auto dump = ParseDump(kTextDump, DumpFormat::kAuto);
  ASSERT_THAT(dump, IsOk());
  ASSERT_EQ(dump->records.size(), 33u);
  EXPECT_EQ(dump->records[0].type, kConditional);
  EXPECT_TRUE(dump->records[0].mpred);
  EXPECT_EQ(dump->records[0].source, 0x401000u);
  EXPECT_EQ(CycleCount(dump->records[0]).value, 1u);
  EXPECT_EQ(dump->records[1].valid, Valid::kSourceOnly);
  EXPECT_EQ(dump->records[32].source, 0x402000u);
  EXPECT_EQ(dump->registers["BRBFCR_EL1"], 0x7e0080u);
  EXPECT_THAT(dump->problems, Contains(HasSubstr("record 32 is valid behind an invalid one")));
}

TEST(Dump, JsonAndBinaryGiveTheSame) {
  auto json = ParseDump(R"({"BRBIDR0_EL1":"0x5040","banks":[[{"inf":"0x100000823","src":"0x401000","tgt":"0x401020"}],[{"inf":3,"src":5,"tgt":"0x6"}]]})", DumpFormat::kAuto);
  ASSERT_THAT(json, IsOk());
  ASSERT_EQ(json->records.size(), 33u);
  EXPECT_EQ(json->records[32].source, 5u);
  uint64_t words[] = {0x100000823, 0x401000, 0x401020, 0x702, 0x401040, 0};
  std::string binary(reinterpret_cast<const char*>(words), sizeof words);
  auto triples = ParseDump(binary, DumpFormat::kAuto);
  ASSERT_THAT(triples, IsOk());
  ASSERT_EQ(triples->records.size(), 2u);
  EXPECT_EQ(triples->records[0], json->records[0]);
  uint64_t planes[] = {0x100000823, 0x702, 0x401000, 0x401040, 0x401020, 0};
  auto by_plane = ParseDump(std::string(reinterpret_cast<const char*>(planes), sizeof planes), DumpFormat::kPlanes);
  ASSERT_THAT(by_plane, IsOk());
  EXPECT_EQ(by_plane->records, triples->records);
}

TEST(Dump, BadInputIsRefusedWithThePlace) {
  EXPECT_THAT(Message(ParseDump("BRBINF0_EL1 = zzz", DumpFormat::kText).status()), HasSubstr("line 1"));
  EXPECT_THAT(Message(ParseDump("hello", DumpFormat::kAuto).status()), HasSubstr("no BRBE registers"));
  EXPECT_THAT(Message(ParseDump("BRBINF0_EL1", DumpFormat::kText).status()), HasSubstr("without its value"));
  EXPECT_THAT(Message(ParseDump("{\"records\":3}", DumpFormat::kAuto).status()), HasSubstr("must be a list"));
  EXPECT_THAT(Message(ParseDump(std::string(25, '\1'), DumpFormat::kTriples).status()), HasSubstr("24 bytes a record"));
  EXPECT_THAT(Message(ParseDump(std::string(24 * 65, '\1'), DumpFormat::kTriples).status()), HasSubstr("64 at most"));
  auto twice = ParseDump("BRBINF0_EL1=3 BRBSRC0_EL1=1 BRBTGT0_EL1=2 BRBSRC0_EL1=5", DumpFormat::kText);
  EXPECT_THAT(twice->problems, Contains(HasSubstr("given twice")));
}

TEST(Dump, AValueThatADebuggerCouldNotReadIsMissing) {
  auto dump = ParseDump(R"({"records":[{"inf":"0x3","src":null,"tgt":"0x2"},{"inf":null,"src":"0x9"}]})", DumpFormat::kAuto);
  ASSERT_THAT(dump, IsOk());
  EXPECT_THAT(dump->problems, Contains(HasSubstr("BRBSRC of record 0 is missing")));
  EXPECT_THAT(dump->problems, Contains(HasSubstr("BRBINF of record 1 is missing")));
}

filter::Plan PlanFor(const char* text) { return *filter::MakePlan(*filter::Parse(text)); }

TEST(Program, ValuesAndOrder) {
  Program any = MakeProgram(PlanFor("-j any,u,k"), {});
  EXPECT_EQ(any.brbfcr, 0x7E0000u);
  EXPECT_EQ(any.brbcr_el1, 0xC0013Bu);
  EXPECT_EQ(any.brbcr_el2, 0x18u);
  Program exclude = MakeProgram(PlanFor("exclude ret"), {});
  EXPECT_EQ(exclude.brbfcr, kFcrRtn | kFcrEnI);
  Program jumps = MakeProgram(PlanFor("kind == jump and priv == user"), {});
  EXPECT_EQ(jumps.brbfcr, kFcrDirect);
  EXPECT_EQ(jumps.brbcr_el1, 0x139u);
  EXPECT_TRUE(jumps.software.empty());
  Program vhe = MakeProgram(PlanFor("-j any,u,k"), {.vhe = true});
  EXPECT_EQ(vhe.brbcr_el2, 0xC0013Bu);
  EXPECT_EQ(vhe.brbcr_el1, 0xC00138u);
  // Pause, IALL, BRBCR, ISB, BRBFCR last; an ISB between each write of BRBCR and that of BRBFCR.
  for (const Program& p : {any, vhe}) {
    size_t last_cr = 0, fcr = 0, iall = 0, isb_between = 0;
    for (size_t i = 0; i < p.steps.size(); ++i) {
      if (p.steps[i].what == Step::What::kInvalidate) iall = i;
      if (p.steps[i].what == Step::What::kWrite) (p.steps[i].reg == "BRBFCR_EL1" ? fcr : last_cr) = i;
    }
    for (size_t i = last_cr; i < fcr; ++i) isb_between += p.steps[i].what == Step::What::kIsb;
    EXPECT_EQ(p.steps[0].what, Step::What::kPause);
    EXPECT_LT(iall, last_cr);
    EXPECT_LT(last_cr, fcr);
    EXPECT_EQ(isb_between, 1u);
  }
  EXPECT_THAT(MakeProgram(PlanFor("mispredicted"), {}).software, Contains(HasSubstr("no hardware filters on prediction")));
}

TEST(Program, AssemblesWithLlvm) {
  if (std::system("command -v llvm-mc-19 > /dev/null && command -v llvm-objdump-19 > /dev/null") != 0) GTEST_SKIP() << "llvm-mc-19 is not installed";
  testing_support::TempDir dir;
  std::ofstream(dir.path() + "/a.s") << ProgramAsm(MakeProgram(PlanFor("exclude ret and priv == user"), {}));
  std::string command = "cd " + dir.path() + " && llvm-mc-19 -triple aarch64 -filetype=obj a.s -o a.o && llvm-objdump-19 -d --mattr=+brbe a.o > a.txt";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream in(dir.path() + "/a.txt");
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("iall"));
  // The disassembler knows the names behind the encodings.
  size_t cr = text.rfind("BRBCR_EL1"), fcr = text.rfind("BRBFCR_EL1");
  ASSERT_NE(cr, std::string::npos) << text;
  EXPECT_LT(cr, fcr);
}

TEST(Diagnose, FromWordsToCauses) {
  EXPECT_STREQ(FindSymptom("records missing")->name, "records-missing");
  EXPECT_STREQ(FindSymptom("cycle counts wrong")->name, "cycles-wrong");
  EXPECT_STREQ(FindSymptom("access traps")->name, "traps");
  EXPECT_EQ(FindSymptom("purple"), nullptr);
  Environment environment;
  ASSERT_THAT(AddWord(environment, "brbcr_el1=0x13B"), IsOk());
  ASSERT_THAT(AddWord(environment, "brbcr_el2=0"), IsOk());
  EXPECT_THAT(DiagnoseText(*FindSymptom("cycles-wrong"), environment), HasSubstr("likely:  cycle counts: off"));
}

TEST(Diagnose, ArticleSpellings) {
  EXPECT_THAT(*ArticleSpelling("arm_brbe/mpred1/"), HasSubstr("no PMU"));
  EXPECT_THAT(*ArticleSpelling("--branch-history"), HasSubstr("belongs to report"));
  EXPECT_EQ(ArticleSpelling("cycles"), std::nullopt);
}

}  // namespace
}  // namespace brink::brbe
