#include "aggregate/data.h"

#include <fstream>
#include <gmock/gmock.h>

#include "aggregate/file.h"
#include "base/fd.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::aggregate {
namespace {

using symbol::ObjectKind;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;
using testing_support::TempDir;

ObjectInfo File(std::string build_id, std::string path) { return {.kind = ObjectKind::kFile, .build_id = std::move(build_id), .path = std::move(path)}; }

// One population "walk" with one branch, one range and one sample address in each of two files.
Data Made(uint64_t count, const std::string& path = "/bin/app") {
  Data data;
  const uint32_t app = data.Intern(File("\xab\xcd\x01\x02", path)), lib = data.Intern(File("", "/lib/lib.so"));
  Population& population = data.population("walk");
  population.facts = {};
  population.facts[kInputs] = 1;
  population.facts[kSampleTotal] = 10;
  population.facts[kCpuNs] = 2'000'000;
  population.facts[kDepth] = 32;
  population.branches[{{app, 0x110}, {app, 0x104}}] = {.kind = Kind::kCond, .fields = {count, 1, 2, 30, 3}};
  population.branches[{{app, 0x120}, {lib, 0x80}}] = {.kind = Kind::kCall, .fields = {count}};
  population.ranges[{{app, 0x104}, 0x110}].fields = {count, 1};
  population.ips[{app, 0x104}] = 10;
  population.rules["zero_entry"] = 3;
  return data;
}

TEST(AggregateText, SaysEverythingInSortedRows) {
  EXPECT_EQ(ToText(Made(7)),
            "brink-aggregate\t1\n"
            "U\trecords\n"
            "P\twalk\tinputs=1\tsamples=10\tcpu_ns=2000000\tdepth=32\trule.zero_entry=3\n"
            "O\tf:=/lib/lib.so\t/lib/lib.so\n"
            "O\tf:abcd0102\t/bin/app\n"
            "B\twalk\tf:abcd0102\t110\tf:abcd0102\t104\tcond\t7\t1\t2\t30\t3\n"
            "B\twalk\tf:abcd0102\t120\tf:=/lib/lib.so\t80\tcall\t7\n"
            "I\twalk\tf:abcd0102\t104\t10\n"
            "R\twalk\tf:abcd0102\t104\t110\t7\t1\n"
            "E\t4\n");
}

TEST(AggregateText, ReadsBackWhatItWrote) {
  const std::string text = ToText(Made(7));
  auto data = FromText(text);
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(ToText(*data), text);
}

// Found by fuzzing: a path given to code made at run time was written and lost by the next reader.
TEST(AggregateText, CodeMadeAtRunTimeHasNoPath) {
  auto data = FromText("brink-aggregate\t1\nU\trecords\nO\tj:=/lib/lib.so\t/lib/lib.so\nI\tw\tj:\t0\t1\nE\t1\n");
  ASSERT_THAT(data, IsOk());
  EXPECT_THAT(ToText(*data), HasSubstr("O\tj:\t\n"));
  auto back = FromText(ToText(*data));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(ToText(*back), ToText(*data));
}

TEST(AggregateText, NamesOfAnyBytesSurvive) {
  Data data;
  const uint32_t object = data.Intern(File("", "/tmp/a\tb\n\\x41\x7f"));
  data.population("perf/a/b c").ips[{object, 1}] = 1;
  auto back = FromText(ToText(data));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->object(0).path, "/tmp/a\tb\n\\x41\x7f");
  EXPECT_TRUE(back->populations().contains("perf/a/b c"));
}

TEST(AggregateText, RowsOfOneBranchAddUpAndMissingColumnsAreZero) {
  auto data = FromText(
      "brink-aggregate\t1\n"
      "B\tw\tf:ab\t10\tf:ab\t20\tunknown\t5\n"
      "B\tw\tf:ab\t10\tf:ab\t20\tret\t6\t2\n"
      "Z\ta line of a later version\n"
      "E\t2\n");
  ASSERT_THAT(data, IsOk());
  ASSERT_EQ(data->populations().at("w").branches.size(), 1u);
  const BranchCounts& counts = data->populations().at("w").branches.begin()->second;
  EXPECT_EQ(counts.kind, Kind::kRet);
  EXPECT_EQ(counts.fields[kCount], 11u);
  EXPECT_EQ(counts.fields[kMispredicted], 2u);
}

struct Broken {
  const char* name;
  const char* text;
  const char* message;
};
class AggregateDamage : public testing::TestWithParam<Broken> {};
TEST_P(AggregateDamage, IsToldWithItsLine) { EXPECT_THAT(Message(FromText(GetParam().text).status()), HasSubstr(GetParam().message)); }

#define HEAD "brink-aggregate\t1\n"
const Broken kBroken[] = {{"Empty", "", "empty"},
                          {"Other", "PERFILE2\n", "no aggregate"},
                          {"Later", "brink-aggregate\t2\n", "version 2"},
                          {"Cut", HEAD "B\tw\tf:ab\t10", "cut short"},
                          {"NoEnd", HEAD "U\trecords\n", "last line is missing"},
                          {"RowsMissing", HEAD "I\tw\tf:ab\t10\t1\nE\t2\n", "line 3: 1 rows are there, 2 were written"},
                          {"Number", HEAD "I\tw\tf:ab\t10\t-1\n", "'-1' is no number"},
                          {"Overflow", HEAD "I\tw\tf:ab\t10\t18446744073709551616\n", "is no number"},
                          {"Object", HEAD "I\tw\tq:ab\t10\t1\n", "names no object"},
                          {"Id", HEAD "I\tw\tf:abc\t10\t1\n", "not a build id"},
                          {"Kernel", HEAD "I\tw\tk:ab\t10\t1\n", "reference symbol"},
                          {"Kind", HEAD "B\tw\tf:ab\t1\tf:ab\t2\tleap\t1\n", "no kind of branch"},
                          {"Backwards", HEAD "R\tw\tf:ab\t10\tf\t1\n", "ends before it starts"},
                          {"Short", HEAD "R\tw\tf:ab\t10\n", "too few fields"},
                          {"Unit", HEAD "U\tapples\n", "apples"}};
INSTANTIATE_TEST_SUITE_P(Lines, AggregateDamage, testing::ValuesIn(kBroken), [](const auto& p) { return p.param.name; });

TEST(AggregateFile, IsCompressedAndReadsPlainToo) {
  TempDir dir;
  ASSERT_THAT(Write(Made(7), dir.File("a.agg")), IsOk());
  std::ofstream(dir.File("plain.agg")) << ToText(Made(7));
  for (const char* name : {"a.agg", "plain.agg"}) {
    EXPECT_TRUE(LooksLikeAggregate(dir.File(name))) << name;
    auto data = Read(dir.File(name));
    ASSERT_THAT(data, IsOk()) << name;
    EXPECT_EQ(ToText(*data), ToText(Made(7))) << name;
  }
  std::ofstream(dir.File("other")) << "PERFILE2";
  EXPECT_FALSE(LooksLikeAggregate(dir.File("other")));
}

TEST(AggregateFile, EveryTruncationIsAnError) {
  TempDir dir;
  ASSERT_THAT(Write(Made(7), dir.File("a.agg")), IsOk());
  auto bytes = ReadFile(dir.File("a.agg"));
  ASSERT_THAT(bytes, IsOk());
  for (size_t size = 0; size < bytes->size(); ++size) {
    std::ofstream(dir.File("cut.agg"), std::ios::binary | std::ios::trunc) << bytes->substr(0, size);
    EXPECT_FALSE(Read(dir.File("cut.agg")).ok()) << size;
  }
}

TEST(AggregateData, OneBuildIdIsOneObjectWhateverItsPath) {
  Data data;
  const uint32_t a = data.Intern(File("\x01\x02\x03\x04", "/z/app")), b = data.Intern(File("\x01\x02\x03\x04", "/a/app"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(data.object(a).path, "/a/app") << "the least, so that the order of merging does not matter";
  EXPECT_NE(data.Intern(File("", "/a/app")), a);
  EXPECT_EQ(data.Intern(File(std::string("\x01\x02\x03\x04") + std::string(16, '\0'), "/y")), a) << "padded with zeros by its recorder";
}

TEST(AggregateData, PlacesThatMeanNothingElsewhereLoseTheirOffset) {
  Data data;
  const uint32_t jit = data.Intern({.kind = ObjectKind::kJit, .path = ""}), none = data.Intern({});
  EXPECT_EQ(data.LocationOf(jit, 0x7f00001234).offset, 0u);
  EXPECT_EQ(data.LocationOf(none, 0x1234).offset, 0u);
  EXPECT_EQ(data.LocationOf(none, 0xffffffff81001234).offset, uint64_t{1} << 63);
}

TEST(AggregateData, KernelsOfOneBuildButDifferentReferencesStayApart) {
  Data data;
  ObjectInfo kernel{.kind = ObjectKind::kKernel, .build_id = "\x01\x02\x03\x04", .path = "[kernel.kallsyms]", .reference = "_text"};
  const uint32_t text = data.Intern(kernel);
  kernel.reference = "_stext";
  EXPECT_NE(data.Intern(kernel), text);
}

std::string Sum(std::initializer_list<const Data*> parts) {
  Data sum;
  for (const Data* part : parts) EXPECT_THAT(sum.Add(*part), IsOk());
  return ToText(sum);
}

TEST(AggregateData, AddingIsAssociativeAndCommutative) {
  Data a = Made(7), b = Made(11, "/b/app"), c = Made(13, "/c/app");
  c.population("lbr").ips[{c.Intern(File("\x99", "/only/here")), 5}] = 4;
  Data ab, bc;
  ASSERT_THAT(ab.Add(a), IsOk());
  ASSERT_THAT(ab.Add(b), IsOk());
  ASSERT_THAT(bc.Add(b), IsOk());
  ASSERT_THAT(bc.Add(c), IsOk());
  const std::string expected = Sum({&a, &b, &c});
  EXPECT_THAT(expected, HasSubstr("cond\t31\t3\t6\t90\t9\n"));
  EXPECT_THAT(expected, HasSubstr("inputs=3\tsamples=30\tcpu_ns=6000000\tdepth=32\t")) << "depth is the greatest";
  EXPECT_EQ(Sum({&ab, &c}), expected);
  EXPECT_EQ(Sum({&a, &bc}), expected);
  EXPECT_EQ(Sum({&c, &b, &a}), expected);
}

TEST(AggregateData, CountsSaturate) {
  Data a = Made(UINT64_MAX - 1), b = Made(5);
  ASSERT_THAT(a.Add(b), IsOk());
  EXPECT_THAT(ToText(a), HasSubstr("cond\t18446744073709551615\t"));
}

uint64_t BranchTotal(const Data& data) { return data.populations().begin()->second.branch_count(); }

TEST(AggregateData, WeighingMakesShallowAndDeepStacksEqual) {
  Data shallow = Made(8), deep = Made(800);  // both 10 samples and 2 ms on a CPU
  ASSERT_THAT(shallow.Weigh(Unit::kCpuSeconds), IsOk());
  ASSERT_THAT(deep.Weigh(Unit::kCpuSeconds), IsOk());
  EXPECT_EQ(BranchTotal(shallow), 2000u) << "microseconds";
  EXPECT_EQ(BranchTotal(deep), 2000u);
  Data samples = Made(800);
  ASSERT_THAT(samples.Weigh(Unit::kSamples), IsOk());
  EXPECT_EQ(BranchTotal(samples), 10'000u) << "thousandths of samples";
}

TEST(AggregateData, WeighedSumsAreAssociative) {
  Data a = Made(7), b = Made(800), c = Made(31);
  for (Data* data : {&a, &b, &c}) ASSERT_THAT(data->Weigh(Unit::kCpuSeconds), IsOk());
  Data ab, left, right, bc;
  ab.unit = left.unit = right.unit = bc.unit = Unit::kCpuSeconds;
  ASSERT_THAT(ab.Add(a), IsOk());
  ASSERT_THAT(ab.Add(b), IsOk());
  ASSERT_THAT(ab.Weigh(Unit::kCpuSeconds), IsOk());  // as merging the merged does: nothing changes
  ASSERT_THAT(left.Add(ab), IsOk());
  ASSERT_THAT(left.Add(c), IsOk());
  ASSERT_THAT(bc.Add(b), IsOk());
  ASSERT_THAT(bc.Add(c), IsOk());
  ASSERT_THAT(right.Add(a), IsOk());
  ASSERT_THAT(right.Add(bc), IsOk());
  EXPECT_EQ(ToText(left), ToText(right));
}

TEST(AggregateData, UnlikeUnitsAreRefused) {
  Data a = Made(7), b = Made(7);
  ASSERT_THAT(a.Weigh(Unit::kSamples), IsOk());
  EXPECT_THAT(a.Add(b), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cannot be added")));
  EXPECT_THAT(a.Weigh(Unit::kCpuSeconds), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of samples already")));
  b.population("walk").facts[kCpuNs] = 0;
  EXPECT_THAT(b.Weigh(Unit::kCpuSeconds), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--weight samples or records")));
}

}  // namespace
}  // namespace brink::aggregate
