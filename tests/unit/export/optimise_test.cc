// Profiles of optimisers from recordings whose every address is known.
#include "export/optimise.h"

#include <gmock/gmock.h>

#include "made_recording.h"

namespace brink::exporter {
namespace {

using report::LoadOptions;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;
using testing_support::TempDir;


class OptimiseTest : public testing::Test, protected MadeProgram {
 protected:
  // One process with one sample of kLoopAndCall.
  void RecordOne() {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  StatusOr<OptimiseResult> Try(OptimiseOptions options, LoadOptions load = {}) {
    if (options.binaries.empty()) options.binaries = {program_};
    return Optimise(data_, load, options);
  }
  std::string Text(OptimiseOptions options, LoadOptions load = {}) {
    auto result = Try(std::move(options), std::move(load));
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->profiles[0].profile.text : "";
  }

};

TEST_F(OptimiseTest, OldBoltHasBranchesAndStraightCodeByOrigin) {
  RecordOne();
  EXPECT_EQ(Text({.format = Optimiser::kBolt}),
            "B 1110 1104 1 1\n"
            "B 1120 1180 1 0\n"
            "B 1190 1125 1 1\n"
            "B 1250 1100 1 0\n"
            "F 1104 1120 1\n"   // entered from f itself
            "f 1100 1110 1\n"   // entered from h
            "f 1180 1190 1\n");
}

TEST_F(OptimiseTest, NewBoltJoinsABranchWithTheCodeBehindIt) {
  RecordOne();
  EXPECT_EQ(Text({.format = Optimiser::kBolt, .dialect = BoltDialect::kNew}),
            "T 1110 1104 1120 1\n"
            "T 1120 1180 1190 1\n"
            "T 1190 1125 ffffffffffffffff 1\n"
            "T 1250 1100 1110 1\n");
}

TEST_F(OptimiseTest, LatestBoltTellsReturnsAndMispredictions) {
  RecordOne();
  EXPECT_EQ(Text({.format = Optimiser::kBolt, .dialect = BoltDialect::kLatest}),
            "T 1110 1104 1120 1 1\n"
            "T 1120 1180 1190 1\n"
            "T 1250 1100 1110 1\n"
            "R 1190 1125 ffffffffffffffff 1 1\n");
}

TEST_F(OptimiseTest, ProfgenStacksHaveLinkTimeAddressesAndCounts) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    for (int i = 0; i < 3; ++i) recording.Sample(7, Moved({{0x1190, 0x1125}, {0x1120, 0x1180}}, kBias));
  }
  EXPECT_EQ(Text({.format = Optimiser::kProfgen}), "3\n 1125  0x1190/0x1125/-/-/-/0 0x1120/0x1180/-/-/-/0\n");
}

TEST_F(OptimiseTest, UnsymbolizedCountsFromThePageOfTheText) {
  RecordOne();
  EXPECT_EQ(Text({.format = Optimiser::kProfgenUnsymbolized}), "3\n100-110:1\n104-120:1\n180-190:1\n4\n110->104:1\n120->180:1\n190->125:1\n250->100:1\n");
}

TEST_F(OptimiseTest, AutofdoCountsByFileOffset) {
  RecordOne();
  // Offset = vaddr - 0x1000 here; the sample hit where the newest branch led.
  EXPECT_EQ(Text({.format = Optimiser::kAutofdo}), "3\n100-110:1\n104-120:1\n180-190:1\n1\n125:1\n4\n110->104:1\n120->180:1\n190->125:1\n250->100:1\n");
}

TEST_F(OptimiseTest, TwoProcessesAtDifferentAddressesLoseNothing) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    recording.MapProgram(8, kOtherBias, program_);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
    recording.Sample(8, Moved(kLoopAndCall, kOtherBias));
  }
  EXPECT_THAT(Text({.format = Optimiser::kBolt}), HasSubstr("B 1110 1104 2 2\nB 1120 1180 2 0\n"));
  EXPECT_EQ(Text({.format = Optimiser::kProfgen}),
            "2\n 1125  0x1190/0x1125/-/-/-/0 0x1120/0x1180/-/-/-/0 0x1110/0x1104/-/-/-/0 0x1250/0x1100/-/-/-/0\n");
}

TEST_F(OptimiseTest, ProgramsAtFixedAddressesKeepThem) {
  WriteProgram(program_, {.symbols = {{"f", 0x401100, 0x80}}, .vaddr = 0x4010b0, .executable_type = true});
  {
    MadeRecording recording(data_);
    recording.Map(7, 0x401000, 0x1000, 0, program_, kBuildId);
    recording.Sample(7, Moved(kLoopAndCall, 0x400000));
  }
  EXPECT_THAT(Text({.format = Optimiser::kBolt}), HasSubstr("B 401110 401104 1 1\n"));
  EXPECT_THAT(Text({.format = Optimiser::kProfgenUnsymbolized}), HasSubstr("\n110->104:1\n")) << "from the page of the text";
}

TEST_F(OptimiseTest, WhatLiesElsewhereHasTheOutsideAddressOfEachFormat) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    recording.Map(7, 0x7f0000000000, 0x10000, 0, "/lib/other.so", "\x11\x22\x33\x44");
    recording.Sample(7, {{0x7f0000000200, kBias + 0x1125, Kind::kRet}, {0x7f0000000100, 0x7f0000000180, Kind::kCond}, {kBias + 0x1120, 0x7f0000000100, Kind::kCall}, {kBias + 0x1110, kBias + 0x1104}});
  }
  EXPECT_EQ(Text({.format = Optimiser::kBolt}), "B 0 1125 1 0\nB 1110 1104 1 0\nB 1120 0 1 0\nF 1104 1120 1\n");
  EXPECT_EQ(Text({.format = Optimiser::kProfgen}), "1\n 1125  0x1/0x1125/-/-/-/0 0x1120/0x1/-/-/-/0 0x1110/0x1104/-/-/-/0\n");
  EXPECT_THAT(Text({.format = Optimiser::kProfgenUnsymbolized}), HasSubstr("fffffffffffff001->125:1\n")) << "1 - base, as llvm-profgen itself writes it";
  auto result = Try({.format = Optimiser::kBolt});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->profiles[0].profile.written.elsewhere, 1u);
}

TEST_F(OptimiseTest, ABuildIdChoosesTheBinaryWhateverItsName) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, "/container/root/app");
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  EXPECT_THAT(Text({.format = Optimiser::kBolt}), HasSubstr("B 1110 1104 1 1\n"));
}

TEST_F(OptimiseTest, APaddedBuildIdIsTheSameOne) {
  WriteProgram(program_, {.build_id = std::string(kBuildId, 8)});
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, "/container/root/app", std::string(kBuildId, 8) + std::string(12, '\0'));
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  EXPECT_THAT(Text({.format = Optimiser::kBolt}), HasSubstr("B 1110 1104 1 1\n"));
}

TEST_F(OptimiseTest, AnotherBuildOfTheProgramIsRefused) {
  RecordOne();
  std::string id = kBuildId;
  id[0] ^= 1;
  WriteProgram(program_, {.build_id = id});
  EXPECT_THAT(Try({.format = Optimiser::kBolt}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("give the file that ran")));
}

TEST_F(OptimiseTest, AFileThatDidNotRunIsRefusedWithWhatRan) {
  RecordOne();
  WriteProgram(dir_.File("idle"), {.build_id = "\x01\x02\x03\x04\x05\x06\x07\x08"});
  EXPECT_THAT(Try({.format = Optimiser::kBolt, .binaries = {dir_.File("idle")}}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("recorded: " + program_)));
}

TEST_F(OptimiseTest, SeveralBinariesEachGetTheirOwnProfile) {
  const std::string library = dir_.File("lib.so"), id = "\x01\x02\x03\x04\x05\x06\x07\x08";
  WriteProgram(library, {.build_id = id});
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    recording.Map(7, kOtherBias + 0x1000, 0x1000, 0, library, id);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
    recording.Sample(7, Moved({{0x1310, 0x1300}}, kOtherBias));
  }
  auto result = Try({.format = Optimiser::kBolt, .binaries = {program_, "lib.so"}});
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->profiles.size(), 2u);
  EXPECT_THAT(result->profiles[0].profile.text, HasSubstr("B 1110 1104 1 1\n"));
  EXPECT_EQ(result->profiles[1].profile.text, "B 1310 1300 1 0\n");
  auto by_id = Try({.format = Optimiser::kBolt, .binaries = {"0102030405"}});
  ASSERT_THAT(by_id, IsOk());
  EXPECT_EQ(by_id->profiles[0].profile.text, "B 1310 1300 1 0\n");
}

TEST_F(OptimiseTest, TheKernelGoesByItsReferenceSymbol) {
  // Linked at ffffffff81000000, run 0x1e000000 higher.
  constexpr uint64_t kLinked = 0xffffffff81000000, kRun = 0xffffffff9f000000;
  const std::string vmlinux = dir_.File("vmlinux");
  WriteProgram(vmlinux, {.symbols = {{"_text", kLinked, 0}, {"f", kLinked + 0x100, 0x80}}, .vaddr = kLinked, .executable_type = true});
  {
    MadeRecording recording(data_);
    recording.Map(UINT32_MAX, kRun, 0x1000000, kRun, "[kernel.kallsyms]_text", kBuildId, perfdata::kMiscKernel);
    recording.Sample(7, Moved({{0x1190, 0x1125, Kind::kRet}, {0x1120, 0x1180, Kind::kCall}}, kRun));
  }
  EXPECT_EQ(Text({.format = Optimiser::kBolt, .binaries = {vmlinux}}), "B ffffffff81001120 ffffffff81001180 1 0\nB ffffffff81001190 ffffffff81001125 1 0\nf ffffffff81001180 ffffffff81001190 1\n");
  EXPECT_THAT(Text({.format = Optimiser::kProfgenUnsymbolized, .binaries = {vmlinux}}), HasSubstr("1180-1190:1"));
}

// What needs the code between two branches takes whole stacks only.

class Refusals : public OptimiseTest, public testing::WithParamInterface<Optimiser> {};

TEST_P(Refusals, BranchesChosenByKindWhenRecording) {
  {
    MadeRecording recording(data_, MadeRecording::AsPerf(perfdata::kBranchUser | perfdata::kBranchAnyCall));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  EXPECT_THAT(Try({.format = GetParam()}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("record all branches")));
}

TEST_P(Refusals, StacksThatANoteCallsFiltered) {
  {
    MadeRecording recording(data_, MadeRecording::WithChains(true));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
    recording.Sample(7, Moved(kLoopAndCall, kBias), {.flags = BRINK_SAMPLE_FILTERED});
  }
  EXPECT_THAT(Try({.format = GetParam()}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("record all branches")));
}

TEST_P(Refusals, CallStackMode) {
  {
    MadeRecording recording(data_, MadeRecording::AsPerf(perfdata::kBranchUser | perfdata::kBranchCallStack));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  EXPECT_THAT(Try({.format = GetParam()}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("call-stack mode")));
}

TEST_P(Refusals, AFilterOnBranchesNow) {
  RecordOne();
  EXPECT_THAT(Try({.format = GetParam()}, {.where = {"kind == call"}}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("record filters in --where")));
}

TEST_P(Refusals, ButNotAFilterOnSamples) {
  RecordOne();
  EXPECT_THAT(Try({.format = GetParam()}, {.where = {"pid == 7"}}), IsOk());
  EXPECT_THAT(Try({.format = GetParam()}, {.pids = {8}}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("holds no branches")));
}

TEST_P(Refusals, BranchesAloneWhenToldTo) {
  {
    MadeRecording recording(data_, MadeRecording::AsPerf(perfdata::kBranchUser | perfdata::kBranchAnyCall));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved({{0x1120, 0x1180, Kind::kCall}, {0x1250, 0x1100, Kind::kCall}}, kBias));
  }
  const std::map<Optimiser, std::string> expected = {
      {Optimiser::kBolt, "B 1120 1180 1 0\nB 1250 1100 1 0\n"},
      {Optimiser::kProfgen, "1\n 1100  0x1250/0x1100/-/-/-/0\n1\n 1180  0x1120/0x1180/-/-/-/0\n"},
      {Optimiser::kProfgenUnsymbolized, "0\n2\n120->180:1\n250->100:1\n"},
      {Optimiser::kAutofdo, "0\n1\n180:1\n2\n120->180:1\n250->100:1\n"}};
  EXPECT_EQ(Text({.format = GetParam(), .branches_only = true}), expected.at(GetParam()));
}

constexpr const char* kFormatNames[] = {"Bolt", "Profgen", "Unsymbolized", "Autofdo"};
INSTANTIATE_TEST_SUITE_P(Formats, Refusals, testing::Values(Optimiser::kBolt, Optimiser::kProfgen, Optimiser::kProfgenUnsymbolized, Optimiser::kAutofdo),
                         [](const auto& p) { return kFormatNames[static_cast<size_t>(p.param)]; });

// Entries that are no branches, by rule (docs/report.md).

struct RuleCase {
  const char* name;
  std::vector<Step> stack;
  const char* expected;
};
class Rules : public OptimiseTest, public testing::WithParamInterface<RuleCase> {};

TEST_P(Rules, InTheOldDialect) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    std::vector<Step> stack = GetParam().stack;
    for (Step& step : stack) {
      if (step.from && step.from < 0x10000) step.from += kBias;
      if (step.to && step.to < 0x10000) step.to += kBias;
    }
    recording.Sample(7, stack);
  }
  EXPECT_EQ(Text({.format = Optimiser::kBolt}), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Entries, Rules,
    testing::Values(RuleCase{"NewestTwice", {{0x1120, 0x1180}, {0x1120, 0x1180}, {0x1250, 0x1100}}, "B 1120 1180 1 0\nB 1250 1100 1 0\nf 1100 1120 1\n"},
                    RuleCase{"ATightLoopIsNoDuplicate", {{0x1120, 0x1110}, {0x1120, 0x1110}}, "B 1120 1110 2 0\nF 1110 1120 1\n"},
                    RuleCase{"UnusedSlots", {{0x1120, 0x1180}, {0x1250, 0x1100}, {0, 0}, {0, 0}}, "B 1120 1180 1 0\nB 1250 1100 1 0\nf 1100 1120 1\n"},
                    RuleCase{"OneSideHidden", {{0x1190, 0x1125}, {0, 0x1180}, {0x1250, 0x1100}}, "B 1190 1125 1 0\nB 1250 1100 1 0\n"},
                    RuleCase{"BeginBehindEnd", {{0x1120, 0x1180}, {0x1250, 0x1130}}, "B 1120 1180 1 0\nB 1250 1130 1 0\n"},
                    RuleCase{"WrongPath", {{0x1120, 0x1180}, {0x1108, 0x1104, Kind::kCond, -1, Spec::kWrongPath}, {0x1250, 0x1100}}, "B 1120 1180 1 0\nB 1250 1100 1 0\nf 1100 1120 1\n"},
                    RuleCase{"KernelBetween", {{0x1150, 0x1104}, {0xffffffff81000010, 0x1120}, {0x1120, 0xffffffff81000000}, {0x1250, 0x1100}},
                             "B 0 1120 1 0\nB 1120 0 1 0\nB 1150 1104 1 0\nB 1250 1100 1 0\nf 1100 1120 1\nf 1120 1150 1\n"}),
    [](const auto& p) { return p.param.name; });

// Context-sensitive profiles.

TEST_F(OptimiseTest, ChainsOfStacksThatLedToTheSampleAreTakenAsTheyAre) {
  {
    MadeRecording recording(data_, MadeRecording::WithChains(false));
    recording.MapProgram(7, kBias, program_);
    // In f behind its call of g: f was called from h.
    recording.Sample(7, Moved(kLoopAndCall, kBias), {.ip = kBias + 0x1128, .chain = {perfdata::kContextUser, kBias + 0x1128, kBias + 0x1255}});
  }
  EXPECT_EQ(Text({.format = Optimiser::kProfgen, .chains = true}),
            "1\n\t            1128\n\t            1255\n 0x1190/0x1125/-/-/-/0 0x1120/0x1180/-/-/-/0 0x1110/0x1104/-/-/-/0 0x1250/0x1100/-/-/-/0\n\n");
}

TEST_F(OptimiseTest, ChainsOfStacksThatFollowTheSampleAreReplayedToTheEnd) {
  // 5-byte calls at 1120 (f calls g) and 1250 (h calls f).
  std::string text(kTextSize, '\x90');
  for (uint64_t call : {0x1120, 0x1250}) text.replace(call - kTextVaddr, 5, std::string("\xe8\0\0\0\0", 5));
  WriteProgram(program_, {.text = text});
  {
    MadeRecording recording(data_, MadeRecording::WithChains(true));
    recording.MapProgram(7, kBias, program_);
    // The sample hit g, called from f, called from h. What follows: g returns, f returns, h calls f again, f calls g.
    recording.Sample(7, Moved({{0x1120, 0x1180, Kind::kCall}, {0x1250, 0x1100, Kind::kCall}, {0x1240, 0x1250, Kind::kJump}, {0x1170, 0x1255, Kind::kRet}, {0x1190, 0x1125, Kind::kRet}}, kBias),
                     {.ip = kBias + 0x1184, .chain = {perfdata::kContextUser, kBias + 0x1184, kBias + 0x1125, kBias + 0x1255}, .end_ip = kBias + 0x1188});
  }
  EXPECT_THAT(Text({.format = Optimiser::kProfgen, .chains = true}), HasSubstr("1\n\t            1188\n\t            1125\n\t            1255\n 0x1120/0x1180/"));
}

TEST_F(OptimiseTest, AReturnThatContradictsTheChainLeavesTheSampleOut) {
  {
    MadeRecording recording(data_, MadeRecording::WithChains(true));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved({{0x1190, 0x1125, Kind::kRet}}, kBias), {.ip = kBias + 0x1184, .chain = {perfdata::kContextUser, kBias + 0x1184, kBias + 0x1125}, .end_ip = kBias + 0x1128});
    recording.Sample(7, Moved({{0x1190, 0x1135, Kind::kRet}}, kBias), {.ip = kBias + 0x1184, .chain = {perfdata::kContextUser, kBias + 0x1184, kBias + 0x1125}, .end_ip = kBias + 0x1138});
  }
  auto result = Try({.format = Optimiser::kProfgen, .chains = true});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->profiles[0].profile.text, "1\n\t            1128\n 0x1190/0x1125/-/-/-/0\n\n");
  EXPECT_THAT(result->profiles[0].notes, testing::Contains("1 samples left out: calls and returns contradict the call chain"));
}

TEST_F(OptimiseTest, WithoutChainsThereIsNoContext) {
  RecordOne();
  EXPECT_THAT(Try({.format = Optimiser::kProfgen, .chains = true}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("brink record -g")));
}

}  // namespace
}  // namespace brink::exporter
