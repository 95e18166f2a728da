// Plans and register values, against the reference values of the hardware and the ABI.
#include "filter/plan.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "filter/branch_flags.h"
#include "filter/hardware.h"
#include "filter/names.h"
#include "filter/parser.h"
#include "support/status_matchers.h"

namespace brink::filter {
namespace {

using ::testing::HasSubstr;
using testing_support::IsOk;

Plan PlanFor(const char* text) {
  auto expr = Parse(text);
  EXPECT_THAT(expr, IsOk()) << text;
  auto plan = MakePlan(*expr);
  EXPECT_THAT(plan, IsOk()) << text;
  return *plan;
}

TEST(Hardware, ReferenceValues) {
  EXPECT_EQ(IntelLbrSelect(kBranchAnyCall | kBranchUser), 0x0E5u);
  EXPECT_EQ(IntelLbrSelect(kBranchAny | kBranchUser), 0x001u);
  EXPECT_EQ(*AmdLbrSelect(kBranchAny | kBranchUser), 0x001u);
  EXPECT_EQ(*AmdLbrSelect(kBranchAnyCall | kBranchUser), 0x0E5u);
  EXPECT_EQ(ArchLbrCtl(kBranchAny | kBranchUser), 0x7F0005u);
  std::string why;
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchUser | kBranchKernel, false, &why)->brbfcr, 0x7E0000u);
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchUser | kBranchKernel, false, &why)->brbcr, 0xC0013Bu);
}

TEST(Hardware, EachFlagClearsItsClasses) {
  // Privilege both, one kind flag: what stays suppressed.
  const uint64_t priv = kBranchUser | kBranchKernel;
  EXPECT_EQ(IntelLbrSelect(priv | kBranchCond), 0x1FCu & ~0x004u);
  EXPECT_EQ(IntelLbrSelect(priv | kBranchCall), 0x1FCu & ~0x008u);
  EXPECT_EQ(IntelLbrSelect(priv | kBranchIndCall), 0x1FCu & ~0x010u);
  EXPECT_EQ(IntelLbrSelect(priv | kBranchAnyReturn), 0x1FCu & ~0x120u);
  EXPECT_EQ(IntelLbrSelect(priv | kBranchIndJump), 0x1FCu & ~0x040u);
  EXPECT_EQ(IntelLbrSelect(priv | kBranchCallStack), 0x200u | (0x1FCu & ~0x038u));
  EXPECT_EQ(ArchLbrCtl(priv | kBranchCond), 0x10007u);
  EXPECT_EQ(ArchLbrCtl(priv | kBranchAnyReturn), 0x600007u);
  EXPECT_EQ(ArchLbrCtl(kBranchUser | kBranchCallStack), 0x38000Du);
  EXPECT_EQ(*NehalemLbrSelect(kBranchAnyCall | kBranchUser), 0x025u);
  EXPECT_EQ(NehalemLbrSelect(kBranchCall | kBranchUser), std::nullopt);
  EXPECT_EQ(AmdLbrSelect(kBranchAny | kBranchInTx), std::nullopt);
}

TEST(Hardware, BrbeFollowsTheDriver) {
  std::string why;
  auto user = LinuxBrbe(kBranchAny | kBranchUser, false, &why);
  EXPECT_EQ(user->brbcr, 0x139u);  // no EXCEPTION, no ERTN without kernel
  auto calls = LinuxBrbe(kBranchAnyCall | kBranchUser | kBranchKernel, false, &why);
  EXPECT_EQ(calls->brbfcr, 0x300000u);
  EXPECT_EQ(calls->brbcr, 0x80013Bu);
  auto returns = LinuxBrbe(kBranchAnyReturn | kBranchKernel, false, &why);
  EXPECT_EQ(returns->brbfcr, 0x080000u);
  EXPECT_EQ(returns->brbcr, 0x40013Au);
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchUser | kBranchNoCycles | kBranchNoFlags, false, &why)->brbcr, 0x121u);
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchHv, true, &why)->brbcr & 3, 2u);
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchHv, false, &why)->brbcr & 3, 0u);
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchUser | kBranchKernel, true, &why)->brbcr_el12, 0xC00138u);
  EXPECT_EQ(LinuxBrbe(kBranchUser, false, &why), std::nullopt);
  EXPECT_EQ(LinuxBrbe(kBranchAny | kBranchInTx, false, &why), std::nullopt);
}

TEST(Plan, ExpressionsBecomeTheFewestFlags) {
  EXPECT_EQ(PlanFor("kind in any_call and priv == user").branch_bits, kBranchAnyCall | kBranchUser | kBranchTypeSave);
  EXPECT_EQ(PlanFor("kind in {call, ind_call} and priv == user").branch_bits, kBranchCall | kBranchIndCall | kBranchUser | kBranchTypeSave);
  EXPECT_EQ(PlanFor("kind == cond").branch_bits, kBranchCond | kBranchUser | kBranchKernel | kBranchTypeSave);
  EXPECT_EQ(PlanFor("kind == jump").branch_bits & kBranchKindMask, kBranchAny);
  EXPECT_EQ(PlanFor("kind == ret").branch_bits & kBranchKindMask, kBranchAnyReturn);
  EXPECT_EQ(PlanFor("kind in {syscall, call}").branch_bits & kBranchKindMask, kBranchAnyCall);
  EXPECT_EQ(PlanFor("pid == 3").branch_bits, kBranchAny | kBranchUser | kBranchKernel);
  EXPECT_EQ(PlanFor("(kind == ret and mispredicted) or kind == cond").branch_bits & kBranchKindMask, kBranchAnyReturn | kBranchCond);
  EXPECT_EQ(PlanFor("kind == ret or pid == 7").branch_bits & kBranchKindMask, kBranchAny);
  EXPECT_EQ(PlanFor("kind is unknown").branch_bits & kBranchKindMask, kBranchAny);
}

TEST(Plan, FlagsCoverEveryKindThatCanMatch) {
  for (uint64_t kinds = 2; kinds <= kAllKinds; kinds += 2) {
    auto plan = MakePlan(KindTest(kinds));
    ASSERT_THAT(plan, IsOk());
    ASSERT_EQ(kinds & ~KindsOfFlags(plan->branch_bits), 0u) << KindList(kinds);
    ASSERT_EQ(plan->kinds_exact, kinds == KindsOfFlags(plan->branch_bits)) << KindList(kinds);
    ASSERT_EQ(plan->kinds_exact, plan->software.empty()) << KindList(kinds);
  }
}

bool Survives(const Plan& plan, const char* name) {
  for (const Survival& use : plan.uses) {
    if (use.name.find(name) != std::string::npos) return use.survives;
  }
  ADD_FAILURE() << name;
  return false;
}

TEST(Plan, WhatSurvives) {
  Plan all = PlanFor("pid == 7");
  EXPECT_TRUE(all.contiguous);
  for (const Survival& use : all.uses) EXPECT_TRUE(use.survives) << use.name;
  Plan returns = PlanFor("kind == ret");
  EXPECT_FALSE(returns.contiguous);
  EXPECT_TRUE(Survives(returns, "P1"));
  EXPECT_FALSE(Survives(returns, "P2"));
  EXPECT_FALSE(Survives(returns, "P6"));
  EXPECT_FALSE(Survives(returns, "ranges"));
  EXPECT_TRUE(Survives(returns, "mispredict rates"));
  Plan matched = PlanFor("kind in {call, ind_call, ret} and priv == user");
  EXPECT_TRUE(Survives(matched, "P2"));
  EXPECT_FALSE(Survives(matched, "P4"));
  EXPECT_FALSE(Survives(matched, "P6"));
  Plan mispredicted = PlanFor("mispredicted");
  EXPECT_FALSE(Survives(mispredicted, "P2"));
  EXPECT_FALSE(Survives(mispredicted, "mispredict rates"));
  EXPECT_FALSE(PlanFor("priv == user").contiguous);
  EXPECT_TRUE(PlanFor("-j any,u,k").contiguous);
  EXPECT_FALSE(PlanFor("-j any,u").contiguous);
}

TEST(Plan, SaysWhatHardwareCannot) {
  Plan plan = PlanFor("mispredicted and symbol == main");
  EXPECT_THAT(ExplainText(plan), HasSubstr("no hardware filters on prediction"));
  EXPECT_THAT(ExplainText(plan), HasSubstr("resolved in user space"));
  ASSERT_EQ(plan.bpf.rest.size(), 1u);
  EXPECT_EQ(plan.bpf.prog.record_ops, 1u);
}

TEST(Plan, ContradictionsAreErrors) {
  auto plan = MakePlan(*Parse("kind == ret and kind == call"));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(Message(plan.status()), HasSubstr("nothing can match: 'kind in {ret}' and 'kind in {call}' exclude each other"));
}

TEST(Plan, JsonHasTheValues) {
  auto json = nlohmann::json::parse(ExplainJson(PlanFor("-j any_call,u")));
  EXPECT_EQ(json["hardware"]["intel_lbr_select"]["value"], "0x0E5");
  json = nlohmann::json::parse(ExplainJson(PlanFor("pid == 1")));
  EXPECT_EQ(json["hardware"]["brbcr_el1"]["value"], "0xC0013B");
  EXPECT_EQ(json["hardware"]["brbfcr_el1"]["value"], "0x7E0000");
  EXPECT_TRUE(json["contiguous"].get<bool>());
  json = nlohmann::json::parse(ExplainJson(PlanFor("priv == user")));
  EXPECT_EQ(json["hardware"]["arch_lbr_ctl"]["value"], "0x7F0005");
  EXPECT_TRUE(json["hardware"]["amd_brs"]["value"].is_null());
}

TEST(Plan, CgroupPathsBecomeIdsWhereTheyExist) {
  PlanOptions options;
  options.compile.cgroup_id = [](std::string_view path) { return path == "/a" ? std::optional<uint64_t>(77) : std::nullopt; };
  auto plan = MakePlan(*Parse("cgroup == /a"), options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->bpf.rest.empty());
  EXPECT_EQ(plan->bpf.prog.sample[0].a, 77u);
  auto later = MakePlan(*Parse("cgroup == /b"), options);
  ASSERT_EQ(later->bpf.rest.size(), 1u);
  EXPECT_THAT(later->bpf.reasons[0], HasSubstr("no cgroup '/b'"));
}

}  // namespace
}  // namespace brink::filter
