// The walker of A64 code against a machine, instruction by instruction on random states. BRINK_LONG=1 makes it 300,000
// cases and more.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "disassembly.h"
#include "machine.h"
#include "random_a64.h"
#include "walk/a64/vops.h"
#include "walk/hash.h"
#include "walk/host_walker.h"

namespace brink::walk_test {
namespace {

uint64_t Cases() { return std::getenv("BRINK_LONG") ? 320'000 : 24'000; }
uint64_t Seed() { return std::getenv("BRINK_SEED") ? std::strtoull(std::getenv("BRINK_SEED"), nullptr, 0) : 20240229; }

struct Tally {
  uint64_t cases = 0, stopped = 0, undefined = 0, faulted = 0, known = 0, vague = 0;
};

// Walks cases on the host.
class Walk {
 public:
  Walk() : walk_(std::make_unique<brink_walk>()), out_(std::make_unique<brink_walk_out>()), uops_(16), pages_(2) {}

  // True when all words were executed.
  bool Run(const A64Case& c, uint32_t slot, std::span<const a64_input> all) {
    all_ = all;
    brink_walk* w = walk_.get();
    const brink_walk_config config{.depth = 16, .max_steps = 400, .budget_ns = 0, .kind_mask = BRINK_WALK_ALL_KINDS};
    walk::CoreBeginA64(w, config);
    const a64_state& s = c.input.state;
    for (int i = 0; i < 31; ++i) w->reg[BRINK_A64_REG(i)] = {s.x[i] & ~c.x_unknown[i], c.x_unknown[i]};
    w->reg[BRINK_A64_SP] = {s.sp, 0};
    w->reg[BRINK_WREG_FS] = {s.tpidr, 0};
    w->flags = static_cast<uint32_t>(s.pstate) & ~c.flags_unknown;
    w->flags_known = 0xf0000000 & ~c.flags_unknown;
    for (int i = 0; i < 32; ++i) {
      w->vknown[i] = c.vector_known[i];
      for (int j = 0; j < 16; ++j) w->vreg[i].data[j] = w->vknown[i] >> j & 1 ? s.v[i][j] : 0;
    }
    w->proc = {};
    SetLines(c, w);
    start_ = A64_SLOTS + 16 * slot;
    Code(c, w);
    walk::CoreEnvironment env;
    env.uops = uops_;
    env.pages = pages_;
    env.read = [&](uint64_t address, void* to, size_t size) { return Read(c, address, to, size); };
    env.translate = [](uint64_t, uint64_t) { return 0u; };
    walk::CoreRunA64(env, w, out_.get());
    walk::CoreSettleFlagsA64(w);
    return w->stop == BRINK_STOP_SYSCALL || (w->stop == BRINK_STOP_MISS && w->nr > 0);
  }

  const brink_walk& state() const { return *walk_; }
  uint64_t start() const { return start_; }

  // The line of an address that the walk has, or nothing.
  const brink_walk_line* LineOf(uint64_t address) const {
    for (uint32_t i = 0; i < walk_->nr_lines; ++i) {
      if (walk_->mem[i].tag == (address | walk_->gen)) return &walk_->mem[i];
    }
    return nullptr;
  }

 private:
  // A line of code as the machine has it: two words of a case, two breakpoints.
  void LineBytes(uint64_t line, uint8_t* to) const {
    for (uint64_t at = line; at < line + 64; at += 4) {
      const uint64_t slot = (at - A64_SLOTS) / 16, which = at % 16 / 4;
      const uint32_t word = slot < all_.size() && which < 2 ? all_[slot].word[which] : 0xd4200000u;
      std::memcpy(to + (at - line), &word, 4);
    }
  }

  bool Read(const A64Case& c, uint64_t address, void* to, size_t size) const {
    if (size == 64 && (address & 63) == 0 && address >= A64_CODE && address + size <= A64_CODE + A64_CODE_SIZE) {
      LineBytes(address, static_cast<uint8_t*>(to));
      return true;
    }
    if (address < A64_WINDOW || address + size > A64_WINDOW + A64_WINDOW_SIZE) return false;
    std::memcpy(to, c.input.state.memory + (address - A64_WINDOW), size);
    return true;
  }

  // One block: head, the line's bytes, the words, the end.
  void Code(const A64Case& c, brink_walk* w) {
    const uint64_t line = start_ & ~uint64_t{63};
    const auto index = static_cast<uint32_t>(line >> 6 & 63);
    brink_walk_block block{};
    block.lifted = (1ull | 1ull << 4 | 1ull << 8) << (start_ & 63);
    const brink_walk_block_ways ways{.more = 0, .line = 64 + index, .first = 1, .end = 0};
    std::memcpy(&uops_[2], &ways, sizeof ways);
    LineBytes(line, reinterpret_cast<uint8_t*>(&uops_[1 + BRINK_WALK_MORE_HEAD]));
    std::memset(pages_[1].line, 0, sizeof pages_[1].line);
    pages_[1].line[index] = 1;
    constexpr uint32_t kFirst = 1u << BRINK_LINK_SHIFT | BRINK_WALK_FIRST_HEAD;
    brink_uop* unit = &uops_[1 + BRINK_WALK_FIRST_HEAD];
    for (int i = 0; i < c.words; ++i) {
      const walk::PackedInsn packed = walk::Pack(c.lifted[i]);
      brink_uop* uop = unit++;
      *uop = packed.uop;
      if (packed.other == 0) continue;
      uop->len |= BRINK_UOP_MORE;
      block.more |= 1ull << ((start_ & 63) + 4 * i);
      const auto next = static_cast<uint32_t>(unit + 1 - &uops_[1]);
      const brink_uop_more more{.reserved = 0, .other = packed.other, .next = 1u << BRINK_LINK_SHIFT | next};
      std::memcpy(unit++, &more, sizeof more);
    }
    std::memcpy(&uops_[1], &block, sizeof block);
    *unit = {};
    unit->op = BRINK_A64_STOP;
    unit->aux = BRINK_STOP_SYSCALL;
    w->reg[BRINK_WREG_IP] = {start_, 0};
    w->pc = kFirst;
  }

  // Lines with unknown bytes, as if earlier stores had left them.
  static void SetLines(const A64Case& c, brink_walk* w) {
    for (size_t i = 0; i < A64_WINDOW_SIZE / 64; ++i) {
      if (c.memory_known[i] == ~uint64_t{0}) continue;
      const uint64_t address = A64_WINDOW + 64 * i;
      const uint32_t own = brink_walk_set(address, BRINK_WALK_LINES / 2);
      uint32_t way = own;
      if ((w->where[way] & BRINK_WALK_TAG_GEN) == w->gen) ++way;
      ASSERT_NE(w->where[way] & BRINK_WALK_TAG_GEN, w->gen);
      w->where[way] = address | w->gen | uint64_t{w->nr_lines} << BRINK_WALK_TAG_BITS;
      brink_walk_line& line = w->mem[w->nr_lines++];
      line.tag = address | w->gen;
      line.known = c.memory_known[i];
      line.dirty = ~c.memory_known[i];
      for (int j = 0; j < 64; ++j) line.data[j] = line.known >> j & 1 ? c.input.state.memory[64 * i + j] : 0;
    }
  }

  std::unique_ptr<brink_walk> walk_;
  std::unique_ptr<brink_walk_out> out_;
  std::vector<brink_uop> uops_;
  std::vector<brink_walk_page> pages_;
  uint64_t start_ = 0;
  std::span<const a64_input> all_;
};

std::string Hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

// What the walk knows and the machine has otherwise; empty: nothing.
std::string Difference(const A64Case& c, const Walk& walk, const a64_state& after) {
  const brink_walk& w = walk.state();
  auto differs = [](const brink_walk_reg& reg, uint64_t machine) { return ((reg.val ^ machine) & ~reg.unk) != 0; };
  auto describe = [&](const std::string& what, const brink_walk_reg& reg, uint64_t machine) {
    return what + ": machine " + Hex(machine) + ", walk " + Hex(reg.val) + " unknown " + Hex(reg.unk);
  };
  for (int i = 0; i < 31; ++i) {
    const brink_walk_reg& reg = w.reg[BRINK_A64_REG(i)];
    if (differs(reg, after.x[i])) return describe("x" + std::to_string(i), reg, after.x[i]);
  }
  if (differs(w.reg[BRINK_A64_SP], after.sp)) return describe("sp", w.reg[BRINK_A64_SP], after.sp);
  if (differs(w.reg[BRINK_WREG_IP], after.pc)) return describe("pc", w.reg[BRINK_WREG_IP], after.pc);
  if (differs(w.reg[BRINK_WREG_FS], after.tpidr)) return describe("tpidr", w.reg[BRINK_WREG_FS], after.tpidr);
  if ((w.flags ^ after.pstate) & w.flags_known & 0xf0000000) {
    return "flags: machine " + Hex(after.pstate) + ", walk " + Hex(w.flags) + " known " + Hex(w.flags_known);
  }
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 16; ++j) {
      if ((w.vknown[i] >> j & 1) && w.vreg[i].data[j] != after.v[i][j]) {
        std::string text = "v" + std::to_string(i) + " byte " + std::to_string(j) + ": machine, walk, known";
        for (int k = 16; k-- > 0;) text += (k == 15 ? "\n  " : " ") + Hex(after.v[i][k]).substr(14) + "/" + Hex(w.vreg[i].data[k]).substr(14);
        return text + "\n  known " + Hex(w.vknown[i]);
      }
    }
  }
  for (size_t i = 0; i < A64_WINDOW_SIZE; ++i) {
    const brink_walk_line* line = walk.LineOf(A64_WINDOW + i / 64 * 64);
    const bool known = line ? line->known >> (i % 64) & 1 : true;
    const uint8_t value = line ? line->data[i % 64] : c.input.state.memory[i];
    if (known && value != after.memory[i]) return "memory at " + std::to_string(i) + ": machine " + Hex(after.memory[i]) + ", walk " + Hex(value);
  }
  return "";
}

std::string Describe(const A64Case& c, const std::string& what) {
  const walk::MicroOp& u = c.lifted[0].uop;
  std::string text = what + "\n" + a64::NameOf(a64::FormOf(c.input.word[0])) + " " + Hex(c.input.word[0]) + " " + Hex(c.input.word[1]) + "\nop " +
                     std::to_string(u.op) + " aux " + std::to_string(u.aux) + " dst " + std::to_string(u.dst) + " src2 " + std::to_string(u.src2) + " src " +
                     std::to_string(u.src) + " base " + std::to_string(u.base) + " index " + std::to_string(u.index) + " scale " + std::to_string(u.scale) + "\n";
  for (int i = 0; i < 31; ++i) text += "x" + std::to_string(i) + " " + Hex(c.input.state.x[i]) + " unknown " + Hex(c.x_unknown[i]) + "\n";
  return text + "flags " + Hex(c.input.state.pstate) + " unknown " + Hex(c.flags_unknown) + "\n";
}

bool Vague(const brink_walk& w) {
  for (int i = 0; i < 31; ++i) {
    if (w.reg[BRINK_A64_REG(i)].unk) return true;
  }
  if (w.flags_known != 0xf0000000) return true;
  for (int i = 0; i < 32; ++i) {
    if ((w.vknown[i] & 0xffff) != 0xffff) return true;
  }
  return false;
}

// Words of half precision, as far as their fields tell it.
bool IsHalf(uint32_t word) {
  switch (a64::FormOf(word)) {
    case a64::Form::kVectorSameHalf:
    case a64::Form::kVectorMiscHalf:
    case a64::Form::kVectorAcross:
    case a64::Form::kVectorImmediate: return true;
    case a64::Form::kVectorIndexed: return a64::Bits(word, 23, 22) == 0;
    case a64::Form::kVectorShift:
    case a64::Form::kVectorScalar: return true;  // conversions to fixed point among them
    default: return a64::FormOf(word) >= a64::Form::kFpInteger && a64::FormOf(word) <= a64::Form::kFpThreeSources && a64::Bits(word, 23, 22) == 3;
  }
}

// QEMU gives up on some words that are no instructions, instead of refusing them: what is only followed by its effects is
// not taken from the table's fields alone. Without a disassembler those of half precision are left out, where that was seen.
// Slots stay as they are.
void LeaveOutUndefined(std::vector<A64Case>* cases) {
  std::vector<uint32_t> words;
  for (const A64Case& c : *cases) words.push_back(c.input.word[0]);
  const auto text = Disassemble(words);
  constexpr uint32_t kNop = 0xd503201f;
  const walk::Lifter lifter(walk::LiftOptions::A64());
  for (size_t i = 0; i < words.size(); ++i) {
    A64Case& c = (*cases)[i];
    if (c.lifted[0].uop.op != BRINK_A64_CLOBBER || (text ? (*text)[i].valid : !IsHalf(words[i]))) continue;
    c.input.word[0] = kNop;
    uint8_t bytes[4];
    std::memcpy(bytes, &kNop, sizeof bytes);
    c.lifted[0] = *lifter.One(bytes);
  }
}

std::string NameOf(const A64Case& c) {
  if (c.words == 1) return a64::NameOf(a64::FormOf(c.input.word[0]));
  return a64::FormOf(c.input.word[1]) == a64::Form::kBranchRegisterPac ? "branch-register-pac" : "two words";
}

// Of the machine that runs the cases, by its own words: what `dc zva` zeroes, and where codes of pointers begin.
walk::LiftOptions OptionsOf(Machine& machine) {
  constexpr uint32_t kReadDczid = 0xd53b00e0, kStrip = 0xd50320ff;  // mrs x0, dczid_el0; xpaclri
  walk::LiftOptions options = walk::LiftOptions::A64();
  a64_input input{};
  input.word[0] = kReadDczid;
  input.word[1] = kStrip;
  input.state.x[30] = walk::LiftOptions::kAllAddressBits;
  input.state.sp = A64_WINDOW + 256;
  const std::vector<a64_state> after = machine.Run({&input, 1});
  if (after.empty() || after[0].signal != 5) return options;
  options.zeroes = walk::LiftOptions::ZeroedByDczid(after[0].x[0]);
  options.address_bits = walk::LiftOptions::AddressBitsByStripped(after[0].x[30]);
  return options;
}

TEST(A64Diff, InstructionsAgreeWithTheMachine) {
  std::string why;
  auto machine = Machine::Start(&why);
  if (!machine) GTEST_SKIP() << why;
  const walk::LiftOptions options = OptionsOf(*machine);
  std::cout << "| dc zva zeroes " << options.zeroes << " bytes, pointers have " << int{options.address_bits} << " bits below their code |\n";
  A64Source source(Seed(), options);
  Walk walk;
  std::map<std::string, Tally> tallies;
  std::vector<a64::Row> rows(a64::AllRows().begin, a64::AllRows().end);
  // What random fields of a row hardly ever are: the thread's base, the flags, random numbers and what `dc zva` does as
  // system registers, that instruction itself, narrowing and widening moves.
  for (const auto& [mask, value, form] : {a64::Row{0xffdfffe0, 0xd51bd040, a64::Form::kMrs}, a64::Row{0xffdfffe0, 0xd51b4200, a64::Form::kMrs},
                                          a64::Row{0xffffffc0, 0xd53b2400, a64::Form::kMrs}, a64::Row{0xffffffe0, 0xd53b00e0, a64::Form::kMrs},
                                          a64::Row{0xffffffe0, 0xd50b7420, a64::Form::kSys}, a64::Row{0xbf3ffc00, 0x0e212800, a64::Form::kVectorMisc},
                                          a64::Row{0x9f80fc00, 0x0f00a400, a64::Form::kVectorShift}, a64::Row{0xdfe08400, 0x5ee08400, a64::Form::kVectorScalar}}) {
    rows.push_back({mask, value, form});
  }
  const uint64_t wanted = Cases();
  uint64_t compared = 0, known = 0;
  size_t row = 0;
  for (uint64_t batch = 0; compared < wanted && batch < 20 + wanted / 200; ++batch) {
    std::vector<A64Case> cases;
    std::vector<a64_input> inputs;
    while (cases.size() < A64_BATCH) {
      A64Case c;
      row = (row + 1) % (rows.size() + 2);
      if (row >= rows.size()) source.MakePair(static_cast<uint32_t>(cases.size()), &c);
      else if (!source.Make(rows[row], static_cast<uint32_t>(cases.size()), &c)) continue;
      cases.push_back(c);
    }
    LeaveOutUndefined(&cases);
    for (const A64Case& c : cases) inputs.push_back(c.input);
    const std::vector<a64_state> after = machine->Run(inputs);
    ASSERT_EQ(after.size(), cases.size()) << "the machine died";
    for (uint32_t i = 0; i < cases.size(); ++i) {
      const A64Case& c = cases[i];
      Tally& tally = tallies[NameOf(c)];
      const bool executed = walk.Run(c, i, inputs);
      if (after[i].signal == 4) {
        ++tally.undefined;  // an instruction that this machine does not have
        continue;
      }
      if (after[i].signal != 5) {
        ++tally.faulted;
        continue;
      }
      if (!executed) {
        ++tally.stopped;
        continue;
      }
      const std::string wrong = Difference(c, walk, after[i]);
      ASSERT_EQ(wrong, "") << Describe(c, wrong);
      ++compared;
      ++tally.cases;
      if (!c.all_known) continue;
      if (Vague(walk.state())) ++tally.vague;
      else ++tally.known, ++known;
    }
  }
  std::cout << "| " << compared << " cases compared, " << known << " wholly known |\n";
  for (const auto& [name, tally] : tallies) {
    if (std::getenv("BRINK_VERBOSE")) {
      std::cout << "  " << name << ": " << tally.cases << " compared, " << tally.known << " known, " << tally.vague << " with unknown results, " << tally.stopped
                << " stopped, " << tally.faulted << " faulted, " << tally.undefined << " undefined\n";
    }
  }
  // What has nothing to compare: words that end a walk here, or that are not run.
  std::set<std::string> empty = {"unallocated", "sve", "exception", "wait-timeout", "sys-result", "memory-tag",
                                       "exception-return", "authenticated", "min-max-immediate", "pstate"};
  const uint32_t nop = 0xd503201f;
  if (!Disassemble({&nop, 1})) empty.insert({"vector-same-half", "vector-misc-half"});
  for (uint32_t form = 0; form < static_cast<uint32_t>(a64::Form::kCount); ++form) {
    const std::string name = a64::NameOf(static_cast<a64::Form>(form));
    const Tally& tally = tallies[name];
    if (empty.contains(name)) continue;
    // Tags of memory are an extension that the guest's CPU lacks.
    if (name == "add-tag" && tally.cases == 0 && tally.undefined > 0) std::cout << "| add-tag: this machine has none |\n";
    else EXPECT_GT(tally.cases, 0u) << name;
  }
  EXPECT_GE(compared, wanted);
  EXPECT_GT(known, compared / 5);
}

}  // namespace
}  // namespace brink::walk_test
