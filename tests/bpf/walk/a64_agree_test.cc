// The same for the walker of A64 code, on any machine: its BPF build against its host build.
#include "agree.h"
#include "random_a64.h"
#include "walk/a64/ops.h"
#include "walk_a64_test.skel.h"

namespace brink::walk_test {
namespace {

// Of a machine whose `dc zva` zeroes two lines.
constexpr walk::LiftOptions kOptions{.machine = walk::LiftOptions::Machine::kA64, .zeroes = 128};

class A64Maker {
 public:
  explicit A64Maker(uint64_t seed) : maker_(seed), source_(seed) {}

  // Words of all classes; of what ends a walk, and of branches far away, only a few.
  void Fill(std::span<uint8_t> code) {
    const walk::Lifter lifter(kOptions);
    const a64::Rows rows = a64::AllRows();
    const auto count = static_cast<uint64_t>(rows.end - rows.begin);
    for (size_t at = 0; at + 4 <= code.size();) {
      uint32_t word = source_.Word(rows.begin[maker_.Random() % count]);
      if (maker_.OneIn(6)) word = Branch();
      if (maker_.OneIn(60)) word = 0xd50b7420 | static_cast<uint32_t>(maker_.Random() & 31);  // dc zva
      std::memcpy(code.data() + at, &word, 4);
      const auto insn = lifter.One(code.subspan(at, 4));
      if ((!insn || insn->uop.op == BRINK_A64_STOP) && !maker_.OneIn(30)) continue;
      if (insn && insn->target != walk::Insn::kNoTarget && (insn->target < -400 || insn->target > 400)) continue;
      at += 4;
    }
  }

  void State(brink_walk* state, bool known) {
    maker_.State(state, known);
    for (int i = BRINK_A64_REG(16); i < BRINK_A64_SP; ++i) {
      const uint64_t unknown = known || !maker_.OneIn(4) ? 0 : maker_.Random() & maker_.Random();
      state->reg[i] = {maker_.Value() & ~unknown, unknown};
    }
    state->reg[BRINK_A64_SP] = {maker_.DataPointer() & ~15ull, 0};
    state->reg[BRINK_WREG_IP].val &= ~3ull;
    state->flags_known = known ? 0xf0000000 : static_cast<uint32_t>(maker_.Random() | maker_.Random()) & 0xf0000000;
    state->flags = static_cast<uint32_t>(maker_.Random()) & state->flags_known;
    for (int i = 0; i < 32; ++i) {
      state->vknown[i] &= 0xffff;
      std::memset(state->vreg[i].data + 16, 0, 48);
    }
    for (int i = 0; i < 31; ++i) {
      if (maker_.OneIn(6)) state->reg[BRINK_A64_REG(i)] = {maker_.CodePointer() & ~3ull, 0};
    }
  }

  StateMaker& maker() { return maker_; }

 private:
  // A near one of any kind.
  uint32_t Branch() {
    const auto words = static_cast<uint32_t>(maker_.Random() % 120) - 60;
    const auto fields = static_cast<uint32_t>(maker_.Random());
    switch (maker_.Random() % 5) {
      case 0: return 0x54000000 | (words & 0x7ffff) << 5 | (fields & 15);
      case 1: return 0x34000000 | (words & 0x7ffff) << 5 | (fields & 0x8100001f);
      case 2: return 0x36000000 | (words & 0x3fff) << 5 | (fields & 0x81f8001f);
      case 3: return 0x14000000 | (fields & 0x80000000) | (words & 0x3ffffff);
      default: return 0xd61f0000 | (fields % 3) << 21 | (fields >> 8 & 31) << 5;
    }
  }

  StateMaker maker_;
  A64Source source_;
};

struct A64 {
  using Skeleton = walk_a64_test_bpf;
  using Maker = A64Maker;
  static Skeleton* Open() { return walk_a64_test_bpf__open(); }
  static int Load(Skeleton* object) { return walk_a64_test_bpf__load(object); }
  static void Destroy(Skeleton* object) { walk_a64_test_bpf__destroy(object); }
  static walk::LiftOptions Options() { return kOptions; }
  static void Begin(brink_walk* state, const brink_walk_config& config) { walk::CoreBeginA64(state, config); }
  static void Run(const walk::CoreEnvironment& env, brink_walk* state, brink_walk_out* out) { walk::CoreRunA64(env, state, out); }
  static constexpr size_t kWaysToEnd = 6;
  static constexpr uint64_t kWalks = 30'000;
};

using A64Agree = AgreeOf<A64>;

TEST_F(A64Agree, OnEveryStateThatAWalkLeaves) { OnEveryStateThatAWalkLeaves(); }

}  // namespace
}  // namespace brink::walk_test
