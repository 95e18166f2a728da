// The model against an oracle that shares nothing with it: a plain list of everything, judged by bit tests written
// from the register tables; and one test a rule that fails when the rule is turned round.
#include "brbe/model.h"

#include <chrono>
#include <cstdlib>
#include <deque>
#include <random>

#include <gtest/gtest.h>

#include "brbe/registers.h"
#include "brbe/stream.h"
#include "support/status_matchers.h"

namespace brink::brbe {
namespace {

using testing_support::IsOk;

// Remembers what was recorded; knows registers as numbers only.
class Oracle {
 public:
  struct Item {
    uint64_t inf = 0, src = 0, tgt = 0;
    bool operator==(const Item&) const = default;
  };
  int numrec = 64;
  bool el2 = true, el3 = true, v1p1 = false, tge = false, secure = false, brec = false, brew = false;
  unsigned sbrbe = 3, hpmn = 31;
  uint64_t cr1 = 0, cr2 = 0, fcr = 0, ts = 0;
  std::deque<Item> items;  // newest first
  bool counting_ok = false;
  uint64_t counted = 0;

  bool Open(int el) const {
    if (fcr & 0x80) return false;
    if (el == 3) return el3 && v1p1 && brec != brew;
    if (el3 && (sbrbe == 0 || (sbrbe == 1 && secure))) return false;
    if (el == 2) return el2 && (cr2 & 2);
    if (el == 1) return (cr1 & 2) != 0;
    return el2 && tge ? (cr2 & 1) != 0 : (cr1 & 1) != 0;
  }
  bool Both(uint64_t bit) const { return (cr1 & bit) && (!el2 || (cr2 & bit)); }

  void Event(const BranchEvent& e) {
    const bool src_open = Open(e.source_el), dst_open = Open(e.target_el);
    if (!src_open || !e.cycles) counting_ok = false;
    if (e.cycles) counted += *e.cycles;
    bool src = src_open, dst = dst_open, record = false;
    if (e.type & 0x20) {
      const int to = e.target_el;
      record = to == 3 ? v1p1 && brec != brew : to == 2 ? (cr2 >> 23 & 1) : (cr1 >> 23 & 1);
    } else if (e.type == 7) {
      const int from = e.source_el;
      record = from == 3 ? v1p1 && brec != brew : from == 2 ? (cr2 >> 22 & 1) : (cr1 >> 22 & 1);
    } else {
      static constexpr int kBit[9] = {17, 18, 21, 20, -1, 19, -1, -1, 22};
      const int bit = e.type <= 8 ? kBit[e.type] : -1;
      record = bit >= 0 && src_open && ((fcr >> bit & 1) ^ (fcr >> 16 & 1));
      dst = src;
    }
    if (record && (src || dst)) {
      Item item;
      item.inf = (dst ? 1 : 0) | (src ? 2 : 0) | uint64_t{e.type} << 8 | (dst ? uint64_t{e.target_el} << 6 : 0);
      if (src && e.mispredicted && !(e.type & 0x20) && Both(0x10)) item.inf |= 0x20;
      if (!Both(8) || !counting_ok) {
        item.inf |= uint64_t{1} << 46;
      } else {
        // Exponent and mantissa by search rather than by bit counting.
        uint64_t code = 0x3fff;
        for (uint64_t ex = 0; ex <= 12 && code == 0x3fff; ++ex) {
          uint64_t step = ex ? uint64_t{1} << (ex - 1) : 1, low = ex ? 256 * step : 0, high = ex ? 512 * step : 256;
          if (counted >= low && counted < high) code = ex << 8 | (counted - low) / step;
        }
        item.inf |= code << 32;
      }
      if (src) item.src = e.source;
      if (dst) item.tgt = e.target;
      items.push_front(item);
      if (items.size() > static_cast<size_t>(numrec)) items.pop_back();
      counted = 0;
      counting_ok = Both(8);
    }
    if (!dst_open) counting_ok = false;
  }
  void SetCr(uint64_t* copy, uint64_t value) {
    bool before = Both(8);
    *copy = value;
    if (!before && Both(8)) counting_ok = false;
  }
  void SetFcr(uint64_t value) {
    if ((fcr & 0x80) && !(value & 0x80)) counting_ok = false;
    fcr = value;
  }
  void Overflow(unsigned counter, uint64_t v, uint64_t g, uint64_t p) {
    bool on = (!el2 || counter < hpmn) ? (cr1 >> 8 & 1) : (cr2 >> 8 & 1);
    if (!on || (fcr & 0x80)) return;
    fcr |= 0x80;
    counting_ok = false;
    unsigned which = el2 && (cr2 >> 5 & 3) ? cr2 >> 5 & 3 : cr1 >> 5 & 3;
    if (which) ts = which == 1 ? v : which == 2 ? g : p;
  }
};

BranchEvent RandomEvent(std::mt19937_64& random) {
  static constexpr uint8_t kTypes[] = {0, 1, 2, 3, 5, 8, 8, 8, 0, 5, 7, 0x22, 0x23, 0x24, 0x2a, 0x2e, 0x2f};
  uint64_t r = random();
  BranchEvent e;
  e.type = kTypes[r % std::size(kTypes)];
  r >>= 5;
  e.source_el = r & 3;
  e.target_el = e.source_el;
  if (e.type & 0x20) e.target_el = static_cast<uint8_t>(std::max<int>(1, std::max<int>(e.source_el, r >> 2 & 3)));
  if (e.type == 7) {
    e.source_el = static_cast<uint8_t>(std::max<int>(1, e.source_el));
    e.target_el = static_cast<uint8_t>(std::min<int>(e.source_el, r >> 2 & 3));
  }
  e.mispredicted = r >> 4 & 1;
  e.source = r;
  e.target = ~r;
  e.cycles = r >> 5 & 15 ? std::optional<uint32_t>(static_cast<uint32_t>(r >> 9 & (r >> 8 & 1 ? 0x1fffff : 0xff))) : std::nullopt;
  return e;
}

class ModelOracle : public ::testing::TestWithParam<int> {};

TEST_P(ModelOracle, RandomBranchesAndReconfigurations) {
  const int numrec = GetParam();
  std::mt19937_64 random(static_cast<uint64_t>(numrec) * 77);
  const int total = 2'500'000;  // four sizes: 10 million
  int done = 0, compared = 0;
  uint64_t nonempty = 0;
  while (done < total) {
    uint64_t setting = random();
    ModelConfig config{.numrec = numrec, .has_el2 = (setting & 1) != 0, .has_el3 = (setting & 2) != 0, .v1p1 = (setting & 4) != 0};
    auto made = Model::Create(config);
    ASSERT_THAT(made, IsOk());
    Model& model = *made;
    Oracle oracle;
    oracle.numrec = numrec;
    oracle.el2 = config.has_el2;
    oracle.el3 = config.has_el3;
    oracle.v1p1 = config.v1p1;
    for (int phase = 0; phase < 40; ++phase) {
      // Mostly useful settings; sometimes anything.
      uint64_t r = random();
      uint64_t cr1 = r % 4 ? 0xC0013B : random() & 0xC0037B, cr2 = r / 4 % 4 ? 0xC0013B : random() & 0xC0037B;
      uint64_t fcr = (r / 16 % 4 ? 0x7E0000 : random() & 0x7E0000) | (r / 64 % 4 ? 0 : 1u << 16) | (r / 256 % 16 ? 0 : 0x80) | (r >> 20 & 1) << 28;
      model.controls() = {.tge = (r >> 30 & 1) != 0, .secure = (r >> 31 & 1) != 0, .sbrbe = static_cast<uint8_t>(r >> 32 & 1 ? 3 : r >> 33 & 3),
                          .e3brec = (r >> 35 & 1) != 0, .e3brew = (r >> 36 & 1) != 0, .hpmn = 4};
      oracle.tge = model.controls().tge;
      oracle.secure = model.controls().secure;
      oracle.sbrbe = model.controls().sbrbe;
      oracle.brec = model.controls().e3brec;
      oracle.brew = model.controls().e3brew;
      oracle.hpmn = 4;
      model.WriteBrbcrEl1(cr1);
      model.WriteBrbcrEl2(cr2);
      model.WriteBrbfcr(fcr);
      oracle.SetCr(&oracle.cr1, cr1);
      oracle.SetCr(&oracle.cr2, cr2);
      oracle.SetFcr(fcr);
      if (r >> 40 & 1) {
        model.InvalidateAll();
        oracle.items.clear();
        oracle.counting_ok = false;
      }
      const int run = 1 + static_cast<int>(random() % 400);
      for (int i = 0; i < run; ++i) {
        BranchEvent e = RandomEvent(random);
        model.Branch(e);
        oracle.Event(e);
      }
      done += run;
      if (r >> 41 & 1) {
        unsigned counter = r >> 42 & 7;
        model.CounterOverflow(counter, {.virtual_time = r, .guest_physical = r + 1, .physical = r + 2});
        oracle.Overflow(counter, r, r + 1, r + 2);
        model.Branch(RandomEvent(random));  // nothing may enter a frozen buffer; the oracle is told likewise
        oracle.counting_ok = oracle.counting_ok && !(oracle.fcr & 0x80);
        if (!(oracle.fcr & 0x80)) break;
      }
      ASSERT_EQ(model.brbfcr(), oracle.fcr);
      ASSERT_EQ(model.brbts(), oracle.ts);
      std::vector<Record> records = model.Records();
      ASSERT_EQ(records.size(), static_cast<size_t>(numrec));
      for (size_t i = 0; i < records.size(); ++i) {
        Oracle::Item want = i < oracle.items.size() ? oracle.items[i] : Oracle::Item{};
        Oracle::Item got{EncodeInf(records[i]), records[i].source, records[i].target};
        ASSERT_EQ(got, want) << "record " << i << " after " << done << std::hex << " inf " << got.inf << " want " << want.inf;
        nonempty += want.inf != 0;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(nonempty, 50'000u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ModelOracle, ::testing::Values(8, 16, 32, 64));

Model Recording(int numrec = 64, uint64_t fcr = 0x7E0000) {
  Model model = *Model::Create({.numrec = numrec});
  model.WriteBrbcrEl1(0xC0013B);
  model.WriteBrbcrEl2(0x18);
  model.WriteBrbfcr(fcr);
  return model;
}

BranchEvent Plain(uint8_t type, uint64_t source, uint32_t cycles = 1) {
  return {.type = type, .source = source, .target = source + 4, .cycles = cycles};
}

TEST(ModelRule, BankShowsRecords32To63) {
  Model model = Recording();
  for (uint64_t i = 0; i < 64; ++i) model.Branch(Plain(kDirect, 1000 + i));
  EXPECT_EQ(model.ReadRecord(0).source, 1063u);
  EXPECT_EQ(model.ReadRecord(31).source, 1032u);
  model.WriteBrbfcr(0x7E0000 | uint64_t{1} << kFcrBankShift);
  EXPECT_EQ(model.ReadRecord(0).source, 1031u);
  EXPECT_EQ(model.ReadRecord(31).source, 1000u);
  model.WriteBrbfcr(0x7E0000 | uint64_t{2} << kFcrBankShift);
  EXPECT_EQ(model.ReadRecord(0).valid, Valid::kInvalid);
  Model small = Recording(16);
  for (uint64_t i = 0; i < 64; ++i) small.Branch(Plain(kDirect, 1000 + i));
  EXPECT_EQ(small.ReadRecord(15).source, 1048u);
  EXPECT_EQ(small.ReadRecord(16).valid, Valid::kInvalid);
}

TEST(ModelRule, PausedStopsRecordingUntilSoftwareClearsIt) {
  Model model = Recording();
  model.Branch(Plain(kDirect, 1));
  model.CounterOverflow(0, {.virtual_time = 77});
  EXPECT_EQ(model.brbts(), 77u);
  EXPECT_TRUE(model.brbfcr() & kFcrPaused);
  model.Branch(Plain(kDirect, 2));
  EXPECT_EQ(model.ReadRecord(0).source, 1u);
  EXPECT_TRUE(model.brbfcr() & kFcrPaused);  // hardware never clears it
  model.WriteBrbfcr(0x7E0000);
  model.Branch(Plain(kDirect, 3));
  EXPECT_EQ(model.ReadRecord(0).source, 3u);
  EXPECT_TRUE(model.ReadRecord(0).ccu);  // first after the pause
}

TEST(ModelRule, WithoutFzpAnOverflowDoesNotFreeze) {
  Model model = Recording();
  model.WriteBrbcrEl1(0xC0013B & ~kCrFzp);
  model.CounterOverflow(0, {});
  EXPECT_FALSE(model.brbfcr() & kFcrPaused);
  // Counters at or above HPMN follow the EL2 copy.
  model.controls().hpmn = 4;
  model.WriteBrbcrEl2(0x18 | kCrFzp);
  model.CounterOverflow(3, {});
  EXPECT_FALSE(model.brbfcr() & kFcrPaused);
  model.CounterOverflow(4, {});
  EXPECT_TRUE(model.brbfcr() & kFcrPaused);
}

TEST(ModelRule, EnIExcludesWhatMatches) {
  Model include = Recording(8, kFcrRtn);
  Model exclude = Recording(8, kFcrRtn | kFcrEnI);
  for (Model* model : {&include, &exclude}) {
    model->Branch(Plain(kReturn, 1));
    model->Branch(Plain(kConditional, 2));
  }
  EXPECT_EQ(include.ReadRecord(0).source, 1u);
  EXPECT_EQ(include.ReadRecord(1).valid, Valid::kInvalid);
  EXPECT_EQ(exclude.ReadRecord(0).source, 2u);
  EXPECT_EQ(exclude.ReadRecord(1).valid, Valid::kInvalid);
  // EnI with no kind set records every kind; without EnI, none.
  Model all = Recording(8, kFcrEnI), none = Recording(8, 0);
  all.Branch(Plain(kIndirectCall, 5));
  none.Branch(Plain(kIndirectCall, 5));
  EXPECT_EQ(all.ReadRecord(0).source, 5u);
  EXPECT_EQ(none.ReadRecord(0).valid, Valid::kInvalid);
  // Exceptions do not ask BRBFCR.
  none.Branch({.type = kIrq, .source_el = 0, .target_el = 1, .source = 6, .target = 7});
  EXPECT_EQ(none.ReadRecord(0).source, 6u);
}

TEST(ModelRule, HalfRecordsAtTheEdgeOfProhibitedRegions) {
  Model model = Recording();
  model.WriteBrbcrEl1(0xC0013B & ~kCrExBre);  // EL1 prohibited
  model.Branch({.type = kCall, .source_el = 0, .target_el = 1, .source = 1, .target = 2});
  EXPECT_EQ(model.ReadRecord(0).valid, Valid::kSourceOnly);
  EXPECT_EQ(model.ReadRecord(0).target, 0u);
  model.Branch(Plain(kDirect, 9));  // EL0 again, but an EL1 branch first:
  model.Branch({.type = kDirect, .source_el = 1, .target_el = 1, .source = 3, .target = 4});
  EXPECT_EQ(model.ReadRecord(0).source, 9u);
  model.Branch({.type = kExceptionReturn, .source_el = 1, .target_el = 0, .source = 5, .target = 6});
  EXPECT_EQ(model.ReadRecord(0).valid, Valid::kTargetOnly);
  EXPECT_EQ(model.ReadRecord(0).target, 6u);
  EXPECT_TRUE(model.ReadRecord(0).ccu);
  // Prohibited to prohibited: nothing, whatever EXCEPTION says.
  model.Branch({.type = kIrq, .source_el = 1, .target_el = 1, .source = 7, .target = 8});
  EXPECT_EQ(model.ReadRecord(0).target, 6u);
}

TEST(ModelRule, ExceptionAndErtnBits) {
  Model model = Recording();
  model.WriteBrbcrEl1(0xC0013B & ~kCrException);
  model.Branch({.type = kCall, .source_el = 0, .target_el = 1, .source = 1, .target = 2});
  EXPECT_EQ(model.ReadRecord(0).valid, Valid::kInvalid);
  model.Branch({.type = kExceptionReturn, .source_el = 1, .target_el = 0, .source = 3, .target = 4});
  EXPECT_EQ(model.ReadRecord(0).source, 3u);
  model.WriteBrbcrEl1(0xC0013B & ~kCrErtn);
  model.Branch({.type = kExceptionReturn, .source_el = 1, .target_el = 0, .source = 5, .target = 6});
  EXPECT_EQ(model.ReadRecord(0).source, 3u);
  model.Branch({.type = kCall, .source_el = 0, .target_el = 1, .source = 7, .target = 8});
  EXPECT_EQ(model.ReadRecord(0).source, 7u);
}

TEST(ModelRule, CyclesAndFlagsNeedBothCopies) {
  for (uint64_t el2 : {uint64_t{0}, kCrCc, kCrMpred, kCrCc | kCrMpred}) {
    Model model = Recording();
    model.WriteBrbcrEl2(el2);
    model.Branch(Plain(kDirect, 1));
    BranchEvent event = Plain(kDirect, 2, 300);
    event.mispredicted = true;
    model.Branch(event);
    EXPECT_EQ(model.ReadRecord(0).ccu, !(el2 & kCrCc));
    EXPECT_EQ(model.ReadRecord(0).mpred, (el2 & kCrMpred) != 0);
  }
  Model no_el2 = *Model::Create({.numrec = 8, .has_el2 = false});
  no_el2.WriteBrbcrEl1(0xC0013B);
  no_el2.WriteBrbfcr(0x7E0000);
  no_el2.Branch(Plain(kDirect, 1));
  no_el2.Branch(Plain(kDirect, 2, 300));
  EXPECT_EQ(CycleCount(no_el2.ReadRecord(0)).value, 300u);
}

TEST(ModelRule, CyclesRunOverBranchesThatAreFilteredOut) {
  Model model = Recording(8, kFcrRtn);
  model.Branch(Plain(kReturn, 1, 5));
  model.Branch(Plain(kConditional, 2, 100));
  model.Branch(Plain(kReturn, 3, 20));
  EXPECT_EQ(CycleCount(model.ReadRecord(0)).value, 120u);
  model.Branch(Plain(kReturn, 4, 1u << 20));
  EXPECT_EQ(CycleCount(model.ReadRecord(0)).state, Cycles::State::kOverflow);
}

TEST(ModelRule, TgeHandsEl0ToEl2) {
  Model model = Recording();
  model.controls().tge = true;
  model.Branch(Plain(kDirect, 1));
  EXPECT_EQ(model.ReadRecord(0).valid, Valid::kInvalid);  // E0HBRE is 0
  model.WriteBrbcrEl2(0x18 | kCrE0Bre);
  model.Branch(Plain(kDirect, 2));
  EXPECT_EQ(model.ReadRecord(0).source, 2u);
}

TEST(ModelRule, InjectionIallLastFailedSnapshot) {
  Model model = *Model::Create({.numrec = 8, .tme = true});
  model.WriteBrbcrEl1(0xC0013B | kCrFzpss);
  model.WriteBrbcrEl2(0x18);
  model.WriteBrbfcr(0x7E0000 | kFcrPaused);
  Record record;
  record.valid = Valid::kComplete;
  record.source = 42;
  record.type = kReturn;
  model.Inject(record);  // works while paused: that is how a buffer is restored
  EXPECT_EQ(model.ReadRecord(0).source, 42u);
  model.InvalidateAll();
  EXPECT_EQ(model.ReadRecord(0).valid, Valid::kInvalid);
  model.WriteBrbfcr(0x7E0000);
  model.TransactionFailed(0);
  EXPECT_TRUE(model.brbfcr() & kFcrLastFailed);
  model.Branch(Plain(kDirect, 1));
  EXPECT_TRUE(model.ReadRecord(0).last_failed);
  EXPECT_FALSE(model.brbfcr() & kFcrLastFailed);
  model.PmuSnapshot({});
  EXPECT_FALSE(model.brbfcr() & kFcrPaused);  // the EL2 copy of FZPSS is 0
  model.WriteBrbcrEl2(0x18 | kCrFzpss);
  model.PmuSnapshot({});
  EXPECT_TRUE(model.brbfcr() & kFcrPaused);
}

TEST(ModelRule, El3NeedsV1p1AndDifferingBits) {
  for (bool v1p1 : {false, true}) {
    Model model = *Model::Create({.numrec = 8, .v1p1 = v1p1});
    model.WriteBrbfcr(0x7E0000);
    EXPECT_FALSE(model.Allowed(3));
    model.controls().e3brec = true;
    EXPECT_EQ(model.Allowed(3), v1p1);
    model.controls().e3brew = true;
    EXPECT_FALSE(model.Allowed(3));
  }
}

TEST(ModelRule, SbrbeAndSecurityState) {
  Model model = Recording();
  model.controls().sbrbe = 0;
  EXPECT_FALSE(model.Allowed(0));
  model.controls().sbrbe = 1;
  EXPECT_TRUE(model.Allowed(0));
  model.controls().secure = true;
  EXPECT_FALSE(model.Allowed(0));
  model.controls().sbrbe = 3;
  EXPECT_TRUE(model.Allowed(0));
}

TEST(ModelRule, TimestampClock) {
  Model model = Recording();
  model.WriteBrbcrEl1((0xC0013B & ~uint64_t{0x60}) | 3u << kCrTsShift);
  model.CounterOverflow(0, {.virtual_time = 1, .guest_physical = 2, .physical = 3});
  EXPECT_EQ(model.brbts(), 3u);
  model.WriteBrbfcr(0x7E0000);
  model.WriteBrbcrEl2(0x18 | 2u << kCrTsShift);  // EL2's choice wins
  model.CounterOverflow(0, {.virtual_time = 1, .guest_physical = 2, .physical = 3});
  EXPECT_EQ(model.brbts(), 2u);
}

TEST(ModelRule, ImpossibleSizesAreRefused) { EXPECT_FALSE(Model::Create({.numrec = 24}).ok()); }

BranchEntry Entry(Kind kind, uint64_t from, uint64_t to, uint32_t cycles = 0, int prediction = 0) {
  BranchEntry e{};
  e.from = from;
  e.to = to;
  e.info = MakeInfo(kind) | uint64_t{cycles} << 4 | static_cast<uint64_t>(prediction);
  return e;
}

TEST(Stream, GivesWhatABrbeWouldHaveRecorded) {
  auto options = ParseStreamOptions("numrec=8,brbfcr=0x80000,brbcr=0xC0013B");  // returns, exceptions
  ASSERT_THAT(options, IsOk());
  StreamModel model = *StreamModel::Create(*options);
  const uint64_t kernel = 0xffffffff81000000;
  // Newest first.
  std::vector<BranchEntry> stack = {Entry(Kind::kRet, 0x402000, 0x401000, 7, 1), Entry(Kind::kCond, 0x402000, 0x402010, 5, 2),
                                    Entry(Kind::kSysret, kernel + 4, 0x402000, 9, 2), Entry(Kind::kSyscall, 0x401000, kernel, 3, 2),
                                    Entry(Kind::kUnknown, 0x401000, 0x401100, 0, 2), Entry(Kind::kCall, 0x400000, 0x401000, 2, 2)};
  auto out = model.Apply(stack);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].type(), PerfBranchType::kRet);
  EXPECT_EQ(out[0].cycles(), 12u);  // with the conditional's 5
  EXPECT_EQ(out[0].prediction(), Prediction::kMispredicted);
  EXPECT_EQ(out[0].priv(), Priv::kUser);
  EXPECT_EQ(out[1].type(), PerfBranchType::kEret);
  EXPECT_EQ(out[1].from, kernel + 4);
  EXPECT_EQ(out[2].type(), PerfBranchType::kSyscall);
  EXPECT_EQ(out[2].cycles(), 0u);  // the record before it was of unknown kind
  EXPECT_EQ(model.counters().unclassified, 1u);
}

TEST(Stream, WithoutMpredPredictionIsUnknown) {
  StreamModel model = *StreamModel::Create(*ParseStreamOptions("numrec=8,brbcr=0xC00123"));
  std::vector<BranchEntry> stack = {Entry(Kind::kRet, 0x402000, 0x401000, 7, 1)};
  auto out = model.Apply(stack);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].prediction(), Prediction::kUnknown);
  EXPECT_EQ(out[0].cycles(), 0u);
}

TEST(Stream, WhatTheSourceDidNotKnowStaysUnknown) {
  StreamModel model = *StreamModel::Create(*ParseStreamOptions("numrec=8"));
  std::vector<BranchEntry> stack = {Entry(Kind::kRet, 0x402000, 0x401000), Entry(Kind::kCall, 0x400000, 0x402000, 3, 1)};
  auto out = model.Apply(stack);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].prediction(), Prediction::kUnknown);
  EXPECT_EQ(out[0].cycles(), 0u);
  EXPECT_EQ(out[1].prediction(), Prediction::kMispredicted);
}

TEST(Stream, VheAndUserOnly) {
  StreamModel model = *StreamModel::Create(*ParseStreamOptions("numrec=16,vhe,brbcr=0xC0013B"));
  const uint64_t kernel = 0xffffffff81000000;
  std::vector<BranchEntry> stack = {Entry(Kind::kCall, kernel, kernel + 8, 4, 2), Entry(Kind::kSyscall, 0x401000, kernel, 3, 2), Entry(Kind::kCond, 0x400000, 0x401000, 2, 2)};
  EXPECT_EQ(model.Apply(stack).size(), 3u);
  StreamModel user = *StreamModel::Create(*ParseStreamOptions("numrec=16,brbcr=0x139"));
  EXPECT_EQ(user.Apply(stack).size(), 1u);
}

TEST(Stream, BadOptionsAreNamed) {
  using ::testing::HasSubstr;
  EXPECT_THAT(Message(ParseStreamOptions("numrec=24").status()), HasSubstr("8, 16, 32 or 64"));
  EXPECT_THAT(Message(ParseStreamOptions("brbfcr=0x7E00000000").status()), HasSubstr("bits 22:17"));
  EXPECT_THAT(Message(ParseStreamOptions("brbfcr=0x80").status()), HasSubstr("PAUSED"));
  EXPECT_THAT(Message(ParseStreamOptions("records=3").status()), HasSubstr("unknown word"));
}

}  // namespace
}  // namespace brink::brbe
