// Register codec: the reference's vectors, and exact round trips over random registers.
#include "brbe/record.h"

#include <random>

#include <gtest/gtest.h>

#include "brbe/linux.h"
#include "brbe/registers.h"
#include "support/status_matchers.h"

namespace brink::brbe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::IsOk;

uint64_t Known(uint16_t cc) {
  Cycles cycles = DecodeCc(cc);
  EXPECT_EQ(cycles.state, Cycles::State::kKnown);
  return cycles.value;
}

uint16_t Em(unsigned e, unsigned m) { return static_cast<uint16_t>(e << 8 | m); }

TEST(CycleCount, ReferenceVectors) {
  EXPECT_EQ(Known(0x000), 0u);
  EXPECT_EQ(Known(0x0FF), 255u);
  EXPECT_EQ(Known(Em(1, 0)), 256u);
  EXPECT_EQ(Known(Em(1, 255)), 511u);
  EXPECT_EQ(Known(Em(2, 0)), 512u);
  EXPECT_EQ(DecodeCc(Em(2, 0)).step, 2u);
  EXPECT_EQ(Known(Em(3, 1)), 1028u);
  EXPECT_EQ(Known(Em(8, 0)), 32768u);
  EXPECT_EQ(Known(Em(9, 0)), 65536u);
  EXPECT_EQ(Known(Em(12, 255)), 1046528u);
  EXPECT_EQ(DecodeCc(0x3FFF).state, Cycles::State::kOverflow);
  for (unsigned e = 13; e < 64; ++e) {
    for (unsigned m = 0; m < 256; ++m) {
      if (Em(e, m) != 0x3FFF) {
        ASSERT_EQ(DecodeCc(Em(e, m)).state, Cycles::State::kReserved) << e;
      }
    }
  }
}

TEST(CycleCount, EncodingRoundsDownWithinOneStep) {
  for (uint64_t count = 0; count < 1u << 20; count += count < 4096 ? 1 : 37) {
    Cycles cycles = DecodeCc(EncodeCc(count));
    ASSERT_EQ(cycles.state, Cycles::State::kKnown) << count;
    ASSERT_LE(cycles.value, count);
    ASSERT_LT(count - cycles.value, cycles.step);
    ASSERT_EQ(EncodeCc(cycles.value), EncodeCc(count));
  }
  EXPECT_EQ(EncodeCc((1u << 20) - 1), Em(12, 255));
  EXPECT_EQ(EncodeCc(1u << 20), 0x3FFF);
  EXPECT_EQ(EncodeCc(~uint64_t{0}), 0x3FFF);
}

TEST(Codec, RecordsRoundTripBitForBit) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    uint64_t inf = random(), src = random(), tgt = random();
    Record record = DecodeRecord(inf, src, tgt);
    ASSERT_EQ(EncodeInf(record), inf);
    ASSERT_EQ(DecodeRecord(EncodeInf(record), record.source, record.target), record);
  }
}

TEST(Codec, RegistersRoundTripBitForBit) {
  std::mt19937_64 random(8);
  for (const std::string& name : RegisterNames()) {
    const RegisterSpec* spec = FindRegister(name);
    ASSERT_NE(spec, nullptr) << name;
    for (int i = 0; i < 5000; ++i) {
      uint64_t value = random();
      Decoded decoded = DecodeRegister(*spec, value);
      ASSERT_EQ(EncodeRegister(decoded), value) << name;
      ASSERT_EQ(decoded.reserved & spec->FieldMask(), 0u) << name;
      // By name, without the reserved bits.
      std::vector<std::pair<std::string, std::string>> words;
      for (const FieldValue& f : decoded.fields) words.emplace_back(f.spec->name, f.word.empty() ? std::to_string(f.value) : f.word);
      auto encoded = EncodeRegister(*spec, words);
      ASSERT_THAT(encoded, IsOk());
      ASSERT_EQ(*encoded, value & spec->FieldMask()) << name;
    }
  }
}

TEST(Codec, FieldsAreWhereTheReferenceHasThem) {
  auto field = [](const char* name, uint64_t value, const char* which) { return *DecodeRegister(*FindRegister(name), value).Field(which); };
  EXPECT_EQ(field("BRBCR_EL1", 1u << 23, "EXCEPTION"), 1u);
  EXPECT_EQ(field("BRBCR_EL1", 1u << 22, "ERTN"), 1u);
  EXPECT_EQ(field("BRBCR_EL2", 3u << 5, "TS"), 3u);
  EXPECT_EQ(field("BRBCR_EL2", 1, "E0HBRE"), 1u);
  EXPECT_EQ(field("BRBFCR_EL1", 1u << 28, "BANK"), 1u);
  EXPECT_EQ(field("BRBFCR_EL1", 1u << 16, "EnI"), 1u);
  EXPECT_EQ(field("BRBFCR_EL1", 1u << 7, "PAUSED"), 1u);
  EXPECT_EQ(field("BRBIDR0_EL1", 0x5040, "NUMREC"), 64u);
  EXPECT_EQ(field("brbinf7_el1", uint64_t{1} << 46, "CCU"), 1u);
  EXPECT_EQ(field("BRBINF31", 0x2200, "TYPE"), 0x22u);
}

TEST(Codec, ReservedIsReportedNotGuessed) {
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBCR_EL1"), 0x24).problems, ElementsAre(HasSubstr("reserved bits are set: 0x4")));
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBFCR_EL1"), 2u << 28).problems, ElementsAre(HasSubstr("BANK = 2 is reserved")));
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBFCR_EL1"), uint64_t{0x7E} << 32).problems, ElementsAre(HasSubstr("bits 22:17")));
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBIDR0_EL1"), 0x5040).problems, IsEmpty());
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBIDR0_EL1"), 0x4120).problems, ElementsAre(HasSubstr("CC = 4"), HasSubstr("FORMAT = 1")));
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBIDR0_EL1"), 0x5018).problems, ElementsAre(HasSubstr("NUMREC = 24")));
  EXPECT_THAT(DecodeRegister(*FindRegister("BRBINF3"), uint64_t{Em(13, 0)} << 32 | 3).problems, ElementsAre(HasSubstr("exponent 13")));
  Record record = DecodeRecord(3 | 0x04 << 8, 1, 2);
  EXPECT_THAT(RecordProblems(record, {}), ElementsAre(HasSubstr("TYPE 0x04 is reserved")));
  record = DecodeRecord(uint64_t{Em(13, 0)} << 32 | 3, 1, 2);
  EXPECT_THAT(RecordProblems(record, {}), ElementsAre(HasSubstr("exponent 13")));
  record = DecodeRecord(3 | 0x2e << 8 | 1 << 5, 1, 2);
  EXPECT_THAT(RecordProblems(record, {}), ElementsAre(HasSubstr("MPRED is set on an exception")));
  record = DecodeRecord(1 | 1 << 5, 0, 2);
  EXPECT_THAT(RecordProblems(record, {}), ElementsAre(HasSubstr("target-only")));
  record = DecodeRecord(3 | 3 << 6, 1, 2);
  EXPECT_THAT(RecordProblems(record, {.v1p1 = false}), ElementsAre(HasSubstr("EL3")));
  EXPECT_THAT(RecordProblems(DecodeRecord(3 | 1 << 16, 1, 2), {.tme = false}), ElementsAre(HasSubstr("FEAT_TME")));
  EXPECT_THAT(RecordProblems(DecodeRecord(~uint64_t{3}, 1, 2), {}), IsEmpty());  // invalid: nothing of it counts
}

TEST(Codec, EncodeErrorsNameTheField) {
  const RegisterSpec& spec = *FindRegister("BRBCR_EL1");
  std::vector<std::pair<std::string, std::string>> words = {{"EXEPTION", "1"}};
  EXPECT_THAT(Message(EncodeRegister(spec, words).status()), HasSubstr("did you mean EXCEPTION"));
  words = {{"TS", "4"}};
  EXPECT_THAT(Message(EncodeRegister(spec, words).status()), HasSubstr("holds 0..3"));
  words = {{"TS", "noon"}};
  EXPECT_THAT(Message(EncodeRegister(spec, words).status()), HasSubstr("1=virtual"));
  words = {{"EXCEPTION", ""}, {"ERTN", ""}, {"FZP", ""}, {"TS", "virtual"}, {"MPRED", ""}, {"CC", ""}, {"E1BRE", ""}, {"E0BRE", ""}};
  EXPECT_EQ(*EncodeRegister(spec, words), 0xC0013Bu);
}

Record Made(uint8_t type, Valid valid = Valid::kComplete) {
  Record r;
  r.type = type;
  r.valid = valid;
  r.source = 0xffff800080001000;
  r.target = 0xffff800080002000;
  r.el = 1;
  return r;
}

TEST(Linux, TypesAsTheDriverMapsThem) {
  auto type = [](uint8_t t, bool quirks = true) { return ToPerf(Made(t), {.quirks = quirks}); };
  EXPECT_EQ(type(0x00)->type(), PerfBranchType::kUncond);
  EXPECT_EQ(type(0x01)->type(), PerfBranchType::kInd);
  EXPECT_EQ(type(0x02)->type(), PerfBranchType::kCall);
  EXPECT_EQ(type(0x03)->type(), PerfBranchType::kIndCall);
  EXPECT_EQ(type(0x05)->type(), PerfBranchType::kRet);
  EXPECT_EQ(type(0x07)->type(), PerfBranchType::kEret);
  EXPECT_EQ(type(0x08)->type(), PerfBranchType::kCond);
  EXPECT_EQ(type(0x22)->type(), PerfBranchType::kSyscall);
  EXPECT_EQ(type(0x23)->type(), PerfBranchType::kIrq);  // a trap looks like an interrupt
  EXPECT_EQ(type(0x24)->type(), PerfBranchType::kSerror);
  EXPECT_EQ(type(0x2e)->type(), PerfBranchType::kIrq);
  EXPECT_EQ(type(0x2a)->type(), PerfBranchType::kExtend);
  EXPECT_EQ(type(0x2a)->new_type(), 0u);
  EXPECT_EQ(type(0x2c)->new_type(), 1u);
  EXPECT_EQ(type(0x2b)->new_type(), 2u);
  for (uint8_t dropped : {0x21, 0x26, 0x27, 0x2f, 0x30, 0x39}) EXPECT_EQ(type(dropped), std::nullopt) << int{dropped};
  EXPECT_EQ(type(0x2f, false)->new_type(), 3u);
  EXPECT_EQ(type(0x30, false), std::nullopt);
}

TEST(Linux, HalvesFlagsCyclesPrivilege) {
  Record half = Made(kExceptionReturn, Valid::kTargetOnly);
  half.mpred = true;  // not valid there
  auto entry = ToPerf(half, {});
  EXPECT_EQ(entry->from, 0u);
  EXPECT_EQ(entry->prediction(), Prediction::kUnknown);
  EXPECT_EQ(entry->priv(), Priv::kKernel);
  entry = ToPerf(Made(kDirect, Valid::kSourceOnly), {});
  EXPECT_EQ(entry->to, 0u);
  EXPECT_EQ(entry->prediction(), Prediction::kPredicted);
  EXPECT_EQ(entry->info >> 30 & 7, 0u);
  Record r = Made(kDirect);
  r.ccu = true;
  r.cc = 5;
  EXPECT_EQ(ToPerf(r, {})->cycles(), 0u);
  r.ccu = false;
  r.cc = Em(9, 0);
  EXPECT_EQ(ToPerf(r, {})->cycles(), 65535u);
  r.el = 2;
  EXPECT_EQ(ToPerf(r, {})->priv(), Priv::kHv);
  EXPECT_EQ(ToPerf(r, {.vhe = true})->priv(), Priv::kKernel);
  r = Made(kDirectCall);
  r.target = 0x401000;
  entry = ToPerf(r, {.branch_bits = filter::kBranchAny | filter::kBranchUser});
  EXPECT_EQ(entry->from, 0u);
  EXPECT_EQ(entry->to, 0x401000u);
  EXPECT_EQ(ToPerf(Made(kDirect), {.branch_bits = filter::kBranchAny | filter::kBranchUser}), std::nullopt);
  EXPECT_EQ(ToPerf(Made(kDirect), {.branch_bits = filter::kBranchCond | filter::kBranchKernel}), std::nullopt);
}

TEST(Linux, ReadingStopsAtTheFirstInvalidRecord) {
  std::vector<Record> records = {Made(kDirect), Record{}, Made(kDirect)};
  EXPECT_EQ(ToPerf(records, {}).size(), 1u);
}

}  // namespace
}  // namespace brink::brbe
