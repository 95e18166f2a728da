#include "filter/parser.h"

#include <gtest/gtest.h>

#include "filter/branch_flags.h"
#include "filter/names.h"
#include "filter/sample_filter.h"
#include "support/status_matchers.h"

namespace brink::filter {
namespace {

using ::testing::HasSubstr;
using testing_support::IsOk;

struct Bad {
  const char* text;
  size_t column;
  const char* says;
};

class ParserErrors : public ::testing::TestWithParam<Bad> {};

TEST_P(ParserErrors, PointAtTheColumnAndSuggest) {
  auto expr = Parse(GetParam().text);
  ASSERT_FALSE(expr.ok()) << GetParam().text;
  EXPECT_EQ(expr.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorColumn(expr.status()), GetParam().column) << Message(expr.status());
  EXPECT_THAT(Message(expr.status()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(All, ParserErrors, ::testing::Values(
    Bad{"", 1, "empty expression"},
    Bad{"knd == ret", 1, "did you mean 'kind'"},
    Bad{"kind == rett", 9, "did you mean ret"},
    Bad{"kind in {ret, cal}", 15, "did you mean call"},
    Bad{"kind < ret", 6, "no order"},
    Bad{"(kind == ret", 13, "expected ')' for the '(' of column 1"},
    Bad{"kind == ret)", 12, "no bracket is open"},
    Bad{"kind == ret pid == 1", 13, "expected 'and', 'or' or the end"},
    Bad{"pid == x", 8, "not a number"},
    Bad{"pid == 4294967296", 8, "32 bits"},
    Bad{"pid == -1", 9, "never negative"},
    Bad{"from == main", 9, "from.symbol == main"},
    Bad{"comm < bash", 6, "is text"},
    Bad{"pid ~ 12", 5, "not text"},
    Bad{"cycles in 20..10", 11, "ends before it begins"},
    Bad{"mispredicted is true", 17, "to compare write =="},
    Bad{"user", 1, "priv == user"},
    Bad{"cond", 1, "kind == cond"},
    Bad{"ret", 1, "brink snap --if"},
    Bad{"args.flags & 0x40", 1, "brink snap --if"},
    Bad{"comm == \"bash", 9, "closing quote"},
    Bad{"pid == 1 ; cpu == 2", 10, "unexpected character"},
    Bad{"crossing street", 10, "priv, function or object"},
    Bad{"exclude returns", 9, "did you mean return"},
    Bad{"not", 4, "expected a field"},
    Bad{"kind ==", 8, "the end of the expression"},
    Bad{"time > 5parsecs", 8, "duration"}));

TEST(Parser, DeepNestingIsRefusedNotFollowed) {
  std::string text = std::string(5000, '(') + "pid == 1" + std::string(5000, ')');
  EXPECT_THAT(Message(Parse(text).status()), HasSubstr("64 deep"));
  std::string nots;
  for (int i = 0; i < 5000; ++i) nots += "not ";
  EXPECT_THAT(Message(Parse(nots + "in_tx").status()), HasSubstr("64 deep"));
}

TEST(Parser, TooManyPredicatesAreRefused) {
  std::string text = "pid == 1";
  for (int i = 0; i < 5000; ++i) text += " or pid == 1";
  EXPECT_THAT(Message(Parse(text).status()), HasSubstr("4,096"));
}

std::string Canonical(std::string_view text) {
  auto expr = Parse(text);
  return expr.ok() ? ToString(Simplify(*expr)) : Message(expr.status());
}

TEST(Parser, SpellingsMeanTheSame) {
  EXPECT_EQ(Canonical("kind == ret"), "kind in {ret}");
  EXPECT_EQ(Canonical("kind in {ret, call} and not kind == call"), "kind in {ret}");
  EXPECT_EQ(Canonical("kind in any_call"), "kind in {call, ind_call, syscall, irq}");
  EXPECT_EQ(Canonical("exclude ret"), "kind in {cond, jump, ind_jump, call, ind_call, syscall, sysret, irq, eret, tx_abort}");
  EXPECT_EQ(Canonical("exclude ret, sysret, eret"), Canonical("not kind in any_ret"));
  EXPECT_EQ(Canonical("include {call, ind_call}"), Canonical("kind in {call,ind_call}"));
  EXPECT_EQ(Canonical("predicted"), "not mispredicted");
  EXPECT_EQ(Canonical("predicted == false"), "mispredicted");
  EXPECT_EQ(Canonical("not (pid == 1 or pid == 2)"), "pid in {0, 3..}");
  EXPECT_EQ(Canonical("cpu in 0-3,7"), "cpu in {0..3, 7}");
  EXPECT_EQ(Canonical("from in 0x1000+0x100"), "from in {0x1000..0x10ff}");
  EXPECT_EQ(Canonical("from in 0x1000..0x10ff"), Canonical("from >= 0x1000 and from < 0x1100"));
  EXPECT_EQ(Canonical("cycles > 10 && cycles<=20"), "cycles in {11..20}");
  EXPECT_EQ(Canonical("time < 1.5s"), "time <= 1499999999ns");
  EXPECT_EQ(Canonical("kind == unknown"), "kind is unknown");
  EXPECT_EQ(Canonical("kind in {ret, unknown}"), "kind in {ret} or kind is unknown");
  EXPECT_EQ(Canonical("symbol == main"), "from.symbol == \"main\" or to.symbol == \"main\"");
  EXPECT_EQ(Canonical("within main"), "from.symbol == \"main\" and to.symbol == \"main\"");
  EXPECT_EQ(Canonical("within function"), "not crossing function");
  EXPECT_EQ(Canonical("comm = gcc-12 or comm ~ 'cc*'"), "comm == \"gcc-12\" or comm ~ \"cc*\"");
  EXPECT_EQ(Canonical("cgroup == 12"), "cgroup == 12");
  EXPECT_EQ(Canonical("cgroup == /a/b"), "cgroup == \"/a/b\"");
  EXPECT_EQ(Canonical("-j any_call,u"), "kind in {call, ind_call, syscall, irq} and priv in {user}");
  EXPECT_EQ(Canonical("-j any"), "true");
  EXPECT_EQ(Canonical("object == libc.so.6"), "from.object == \"libc.so.6\" or to.object == \"libc.so.6\"");
}

TEST(Parser, ExternalFieldsBelongToTheCommand) {
  ParseOptions options;
  options.external = [](std::string_view name) -> StatusOr<ExternalField> {
    if (name == "ret") return ExternalField{0, true};
    if (name == "args.flags") return ExternalField{1, false};
    return NotFound("no argument '" + std::string(name) + "'");
  };
  auto expr = Parse("ret in {-EACCES, -1} and args.flags & 0x40", options);
  ASSERT_THAT(expr, IsOk());
  const uint64_t values[] = {static_cast<uint64_t>(int64_t{-13}), 0x41};
  SampleView sample{.external = values, .external_known = 3};
  EXPECT_EQ(Evaluate(*expr, sample, nullptr, nullptr), Truth::kTrue);
  SampleFilter filter(*expr);
  EXPECT_TRUE(filter.KeepSample(sample));
  const uint64_t others[] = {0, 0x41};
  sample.external = others;
  EXPECT_FALSE(filter.KeepSample(sample));
  sample.external_known = 2;  // ret could not be read
  EXPECT_FALSE(filter.KeepSample(sample));
  EXPECT_EQ(filter.counters().samples_unknown, 1u);
  EXPECT_THAT(Message(Parse("args.flgs == 1", options).status()), HasSubstr("no argument"));
}

TEST(BranchFlags, PerfNamesAndBits) {
  EXPECT_EQ(*ParseBranchFlags("any,u"), kBranchAny | kBranchUser);
  EXPECT_EQ(*ParseBranchFlags("any_call,any_ret,ind_call,k"), kBranchAnyCall | kBranchAnyReturn | kBranchIndCall | kBranchKernel);
  EXPECT_EQ(*ParseBranchFlags("u"), kBranchAny | kBranchUser);
  EXPECT_EQ(BranchFlagNames(kBranchAny | kBranchUser | kBranchTypeSave), "u,any,save_type");
  EXPECT_THAT(Message(ParseBranchFlags("any,ind_cal").status()), HasSubstr("column 5"));
  EXPECT_THAT(Message(ParseBranchFlags("any,ind_cal").status()), HasSubstr("ind_call"));
  EXPECT_THAT(Message(ParseBranchFlags("mispred").status()), HasSubstr("no hardware filters on misprediction"));
  EXPECT_THAT(Message(ParseBranchFlags("jmp").status()), HasSubstr("kind == jump"));
}

TEST(Solve, ContradictionsAreFoundAndNamed) {
  for (const char* text : {"kind == ret and kind == call", "pid == 1 and not pid == 1", "mispredicted and predicted",
                           "cycles > 10 and cycles < 5", "cycles > 65535", "kind is unknown and kind == ret", "comm == a and comm == b",
                           "comm == a and comm ~ 'b*'", "from.priv == user and from >= 0xffff800000000000", "abort and kind == ret",
                           "from.priv == user and priv == user and crossing priv", "kind in {}", "false",
                           "(kind == ret or kind == call) and kind == cond", "in_tx is unknown"}) {
    auto expr = Parse(text);
    ASSERT_THAT(expr, IsOk()) << text;
    EXPECT_FALSE(Satisfiable(*expr)) << text;
    EXPECT_NE(ExplainContradiction(*expr), "") << text;
  }
  EXPECT_EQ(ExplainContradiction(*Parse("pid == 3 and kind == ret and kind == call")), "'kind in {ret}' and 'kind in {call}' exclude each other");
}

TEST(Solve, WhatCanMatchIsNotCalledContradictory) {
  for (const char* text : {"kind == ret or kind == call", "kind == tx_abort and abort", "comm ~ 'a*' and comm == ab", "crossing priv and priv == user",
                           "kind is unknown", "cycles is unknown and mispredicted", "not kind == ret", "pid in {1,2} and pid != 1"}) {
    auto expr = Parse(text);
    ASSERT_THAT(expr, IsOk()) << text;
    EXPECT_TRUE(Satisfiable(*expr)) << text;
  }
}

TEST(Solve, Projection) {
  auto kinds = [](const char* text) { return Project(*Parse(text), Field::kKind); };
  EXPECT_EQ(kinds("(kind == ret and mispredicted) or kind == call").values.Mask(), KindBit(Kind::kRet) | KindBit(Kind::kCall));
  EXPECT_FALSE(kinds("kind == ret").may_be_unknown);
  EXPECT_TRUE(kinds("pid == 1").may_be_unknown);
  EXPECT_TRUE(kinds("kind is unknown").may_be_unknown);
  EXPECT_TRUE(kinds("kind is unknown").values.empty());
  EXPECT_EQ(kinds("kind == ret or pid == 3").values.Mask(), kAllKinds);
}

}  // namespace
}  // namespace brink::filter
