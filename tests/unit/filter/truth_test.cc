// The expression tree, its simplification, its text and its bytecode must all mean the same: random expressions over
// random records, judged by an evaluator of the test's own.
#include <random>

#include <gtest/gtest.h>

#include "filter/compile.h"
#include "filter/names.h"
#include "filter/parser.h"
#include "filter/sample_filter.h"
#include "lib/filter.h"
#include "support/status_matchers.h"

namespace brink::filter {
namespace {

using Random = std::mt19937_64;
using testing_support::IsOk;

uint64_t Pick(Random& random, std::initializer_list<uint64_t> values) {
  return *(values.begin() + random() % values.size());
}

BranchEntry RandomEntry(Random& random) {
  BranchEntry e{};
  e.from = Pick(random, {0, 0x401000, 0x401010, 0x402000, 0xffffffff81000000, 0xffffffff81000010});
  e.to = Pick(random, {0, 0x401000, 0x401020, 0x403000, 0xffffffff81000000});
  e.info = random() & BranchEntry::kInfoMask;
  if (random() % 2) e.info &= ~uint64_t{0xffff0};           // cycles unknown
  if (random() % 4) e.info &= ~(uint64_t{7} << 30);         // most sources give no privilege
  if (random() % 8) e.info &= ~uint64_t{1 << 3};            // few aborts
  return e;
}

SampleView RandomSample(Random& random) {
  static const char* const kComms[] = {"bash", "gcc-12", "bashful", "a_name_of_15by"};
  SampleView s;
  if (random() % 8) s.pid = random() % 4;
  if (random() % 8) s.tid = random() % 4;
  if (random() % 8) s.cpu = random() % 4;
  if (random() % 8) s.time_ns = random() % 8;
  if (random() % 4) s.cgroup_id = random() % 3;
  if (random() % 8) s.comm = kComms[random() % 4];
  return s;
}

std::string RandomTest(Random& random) {
  static const char* const kTests[] = {
      "kind == ret", "kind in {call, ind_call}", "kind != cond", "exclude ret", "kind is unknown", "kind in any_ret", "kind in {jump, unknown}",
      "priv == user", "from.priv == kernel", "priv != kernel", "crossing priv", "within priv", "priv is unknown", "priv == hv",
      "mispredicted", "predicted", "mispredicted is unknown", "mispredicted == false",
      "cycles > 100", "cycles in 1..40000", "cycles is not unknown", "cycles & 0x3", "cycles & 0x3 == 1",
      "in_tx", "abort", "not abort", "spec == wrong_path", "spec in {non_spec, correct}", "spec is unknown",
      "from == 0x401000", "from in 0x401000+0x20", "to >= 0x402000", "to != 0x401000", "from is unknown", "to in {0x401000, 0x403000..0x404000}",
      "pid == 1", "pid in {1,3}", "pid != 2", "pid is unknown", "tid < 2", "cpu in 0-1,3", "time > 3ns", "cgroup == 2", "cgroup is unknown",
      "comm == bash", "comm ~ 'bash*'", "comm != gcc-12", "comm in {bash, bashful}", "comm is unknown", "true", "false"};
  return kTests[random() % std::size(kTests)];
}

std::string RandomText(Random& random, int depth) {
  switch (depth > 0 ? random() % 4 : 3) {
    case 0:
      return "(" + RandomText(random, depth - 1) + " and " + RandomText(random, depth - 1) + ")";
    case 1:
      return "(" + RandomText(random, depth - 1) + " or " + RandomText(random, depth - 1) + ")";
    case 2:
      return "not " + RandomText(random, depth - 1);
    default:
      return RandomTest(random);
  }
}

Truth RunCore(const Compiled& compiled, const SampleView& sample, const BranchEntry& entry) {
  brink_filter_in in{};
  auto put = [&](int field, auto value) {
    if (value) in.value[field] = *value, in.known |= 1u << field;
  };
  put(BRINK_FF_PID, sample.pid);
  put(BRINK_FF_TID, sample.tid);
  put(BRINK_FF_CPU, sample.cpu);
  put(BRINK_FF_TIME, sample.time_ns);
  if (sample.cgroup_id.value_or(0)) put(BRINK_FF_CGROUP, sample.cgroup_id);
  if (sample.comm) {
    sample.comm->copy(reinterpret_cast<char*>(in.comm), 15);
    in.known |= 1u << BRINK_FF_COMM;
  }
  uint32_t s = brink_filter_sample(&compiled.prog, &in);
  uint32_t r = brink_filter_record(&compiled.prog, &in, &entry);
  if (s == 0 || r == 0) return Truth::kFalse;
  return s == 1 && r == 1 ? Truth::kTrue : Truth::kUnknown;
}

TEST(Truth, TreeSimplifiedTextAndBytecodeAgree) {
  Random random(20250731);
  int compiled_whole = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = RandomText(random, 1 + static_cast<int>(random() % 4));
    auto parsed = Parse(text);
    ASSERT_THAT(parsed, IsOk()) << text;
    Expr simple = Simplify(*parsed);
    auto again = Parse(ToString(simple));
    ASSERT_THAT(again, IsOk()) << ToString(simple);
    Compiled compiled = Compile(simple);
    compiled_whole += compiled.rest.empty();
    bool seen_true = false;
    for (int i = 0; i < 60; ++i) {
      SampleView sample = RandomSample(random);
      BranchEntry entry = RandomEntry(random);
      Truth want = Evaluate(*parsed, sample, &entry, nullptr);
      ASSERT_EQ(Evaluate(simple, sample, &entry, nullptr), want) << text << "\n" << ToString(simple);
      ASSERT_EQ(Evaluate(*again, sample, &entry, nullptr), want) << text << "\n" << ToString(simple);
      if (compiled.rest.empty()) {
        ASSERT_EQ(RunCore(compiled, sample, entry), want) << text << "\n" << Disassemble(compiled.prog);
      }
      seen_true |= want == Truth::kTrue;
    }
    if (seen_true) {
      ASSERT_TRUE(Satisfiable(*parsed)) << text;
    }
  }
  EXPECT_GT(compiled_whole, 2500);
}

TEST(Truth, KindTableOfTheCoreIsThatOfBranchEntry) {
  for (uint64_t bits = 0; bits < 32; ++bits) {
    BranchEntry entry{};
    entry.info = (bits & 15) << 20 | (bits >> 4) << 3;
    EXPECT_EQ(brink_kind_of(entry.info), static_cast<uint32_t>(entry.kind())) << bits;
  }
}

TEST(Truth, UnknownDropsAndIsCounted) {
  BranchEntry known{}, blind{};
  known.info = MakeInfo(Kind::kRet);
  known.from = known.to = 0x1000;
  blind.from = blind.to = 0x2000;
  SampleFilter filter(*Parse("kind == ret"));
  BranchEntry stack[] = {known, blind};
  EXPECT_EQ(filter.FilterRecords({}, stack), 1u);
  EXPECT_EQ(stack[0].from, 0x1000u);
  EXPECT_EQ(filter.counters().records_unknown, 1u);
  EXPECT_EQ(filter.counters().records_dropped, 0u);
  // Neither does its negation select what is not known ...
  SampleFilter negated(*Parse("exclude ret"));
  BranchEntry again[] = {known, blind};
  EXPECT_EQ(negated.FilterRecords({}, again), 0u);
  EXPECT_EQ(negated.counters().records_unknown, 1u);
  // ... only `is unknown` does.
  SampleFilter unknown(*Parse("kind is unknown"));
  BranchEntry third[] = {known, blind};
  ASSERT_EQ(unknown.FilterRecords({}, third), 1u);
  EXPECT_EQ(third[0].from, 0x2000u);
}

TEST(Truth, SamplePredicatesDropSamplesRecordPredicatesDropRecords) {
  SampleFilter filter(*Parse("pid == 7 and kind == ret"));
  EXPECT_TRUE(filter.filters_records());
  EXPECT_TRUE(filter.KeepSample({.pid = 7}));
  EXPECT_FALSE(filter.KeepSample({.pid = 8}));
  EXPECT_FALSE(filter.KeepSample({}));
  EXPECT_EQ(filter.counters().samples_dropped, 1u);
  EXPECT_EQ(filter.counters().samples_unknown, 1u);
  EXPECT_FALSE(SampleFilter(*Parse("pid == 7")).filters_records());
  EXPECT_TRUE(SampleFilter().empty());
}

TEST(Truth, AnExpressionTooLongForBytecodeIsFinishedOnTheTree) {
  std::string text = "from == 0x401000";
  for (int i = 0; i < 40; ++i) text += " or (from == " + std::to_string(0x500000 + i) + " and cycles == " + std::to_string(i + 1) + ")";
  auto expr = Parse(text);
  ASSERT_THAT(expr, IsOk());
  Compiled compiled = Compile(Simplify(*expr));
  ASSERT_EQ(compiled.rest.size(), 1u);
  EXPECT_THAT(compiled.reasons[0], ::testing::HasSubstr("32 operations"));
  SampleFilter filter(*expr);
  BranchEntry stack[3] = {};
  stack[0].from = 0x401000;
  stack[1].from = 0x500001;
  stack[1].info = 2 << 4;
  stack[2].from = 0x500002;
  stack[2].info = 2 << 4;
  EXPECT_EQ(filter.FilterRecords({}, stack), 2u);
}

}  // namespace
}  // namespace brink::filter
