// What the lifter takes a word for, against LLVM's disassembler: validity, branches with kind and target, registers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "disassembly.h"
#include "random_a64.h"
#include "walk/a64/vops.h"

namespace brink::walk_test {
namespace {

bool Long() { return std::getenv("BRINK_LONG") != nullptr; }

std::string Hex(uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", word);
  return text;
}

// Kind of control flow by mnemonic; empty: goes straight on.
std::string FlowOf(const Disassembled& d) {
  const std::string& m = d.mnemonic;
  if (m == "b") return "jump";
  if (m.compare(0, 2, "b.") == 0 || m.compare(0, 3, "bc.") == 0 || m == "cbz" || m == "cbnz" || m == "tbz" || m == "tbnz") return "cond";
  if (m == "bl") return "call";
  if (m == "br" || m.compare(0, 3, "bra") == 0) return "ind_jump";
  if (m == "blr" || m.compare(0, 4, "blra") == 0) return "ind_call";
  if (m == "ret" || m == "retaa" || m == "retab") return "ret";
  if (m == "svc") return "syscall";
  return "";
}

std::string FlowOf(const walk::Insn& insn) {
  switch (insn.uop.op) {
    case BRINK_A64_BCOND:
    case BRINK_A64_CBZ:
    case BRINK_A64_TBZ: return "cond";
    case BRINK_A64_B: return "jump";
    case BRINK_A64_BL: return "call";
    case BRINK_A64_BR: return "ind_jump";
    case BRINK_A64_BLR: return "ind_call";
    case BRINK_A64_RET: return "ret";
    case BRINK_A64_STOP: return insn.uop.aux == BRINK_STOP_SYSCALL ? "syscall" : "";
    default: return "";
  }
}

bool IsStop(const walk::Insn& insn) { return insn.uop.op == BRINK_A64_STOP && insn.uop.aux != BRINK_STOP_SYSCALL; }

void Add(std::set<int>* registers, int number) {
  if (number < 16) registers->insert(number);
  else if (number >= 24 && number <= BRINK_A64_SP) registers->insert(number - 8);
}

bool VectorOperands(uint8_t op) { return op >= BRINK_A64_V; }

// General registers that the micro-op names.
std::set<int> GeneralOf(const walk::MicroOp& u) {
  std::set<int> registers;
  const bool vector = VectorOperands(u.op);
  if ((u.flags & (BRINK_UOP_MEM | BRINK_A64_BACK)) || u.op == BRINK_A64_MADD) Add(&registers, u.base);
  if (u.flags & BRINK_UOP_MEM) Add(&registers, u.index);
  switch (u.op) {
    case BRINK_A64_NOP:
    case BRINK_A64_OPEN:
    case BRINK_A64_B:
    case BRINK_A64_BL:
    case BRINK_A64_BCOND:
    case BRINK_A64_STOP: return registers;
    case BRINK_A64_CLOBBER:
      if (u.aux & BRINK_A64_LOSE_REG) Add(&registers, u.dst);
      return registers;
    case BRINK_AV_REPEAT_REG:
    case BRINK_AV_PUT_REG:
    case BRINK_AV_MOVE_REG: Add(&registers, u.src); return registers;
    case BRINK_AV_GET: Add(&registers, u.dst); return registers;
    default: break;
  }
  if (vector) return registers;
  auto used = [&](std::initializer_list<uint8_t> ops) { return std::find(ops.begin(), ops.end(), u.op) != ops.end(); };
  const bool no_dst = used({BRINK_A64_STORE, BRINK_A64_COMPARE, BRINK_A64_BR, BRINK_A64_BLR, BRINK_A64_RET, BRINK_A64_CBZ, BRINK_A64_TBZ}) ||
                      (u.op == BRINK_A64_PAIR_STORE && !(u.aux & BRINK_A64_MONITORED)) || (u.op == BRINK_A64_FLAG && u.aux != BRINK_A64_FLAG_READ);
  const bool no_src = used({BRINK_A64_CONST, BRINK_A64_LOAD, BRINK_A64_ADDRESS, BRINK_A64_KEEP, BRINK_A64_PAC, BRINK_A64_PAIR_LOAD}) ||
                      (u.op == BRINK_A64_FLAG && (u.aux == BRINK_A64_FLAG_READ || u.aux == BRINK_A64_FLAG_CFINV));
  const bool has_src2 = used({BRINK_A64_ADD, BRINK_A64_SUB, BRINK_A64_AND, BRINK_A64_OR, BRINK_A64_XOR, BRINK_A64_SELECT, BRINK_A64_COMPARE, BRINK_A64_CARRY,
                              BRINK_A64_SHIFT, BRINK_A64_EXTRACT, BRINK_A64_MADD, BRINK_A64_HIGH, BRINK_A64_DIV, BRINK_A64_CRC, BRINK_A64_PAIR_LOAD,
                              BRINK_A64_PAIR_STORE, BRINK_A64_SWAP_IF, BRINK_A64_SWAP_PAIR});
  if (!no_dst) Add(&registers, u.dst);
  if (!no_src) Add(&registers, u.src);
  if (has_src2) Add(&registers, u.src2);
  if (u.op == BRINK_A64_SWAP_PAIR) Add(&registers, u.dst + 1);
  return registers;
}

// Vector registers that the micro-op names; of effects only the destination is told.
std::set<int> VectorsOf(const walk::MicroOp& u) {
  switch (u.op) {
    case BRINK_AV_LOAD:
    case BRINK_AV_STORE: {
      std::set<int> registers;
      for (int i = 0; i < u.aux; ++i) registers.insert(((u.op == BRINK_AV_LOAD ? u.dst : u.src) + i) & 31);
      return registers;
    }
    case BRINK_AV_PAIR_LOAD: return {u.dst, u.src2};
    case BRINK_AV_PAIR_STORE: return {u.src, u.src2};
    case BRINK_AV_REPEAT_LOAD:
    case BRINK_AV_CONST:
    case BRINK_AV_REPEAT_REG:
    case BRINK_AV_PUT_REG:
    case BRINK_AV_MOVE_REG: return {u.dst};
    case BRINK_AV_GET: return {u.src};
    case BRINK_AV_LANE: return u.index ? std::set<int>{u.dst, u.src} : std::set<int>{u.dst, u.src, u.src2};
    case BRINK_AV_PAIRWISE:
    case BRINK_AV_SHUFFLE:
    case BRINK_AV_TABLE: return {u.dst, u.src, u.src2};
    default: return {u.dst, u.src};
  }
}

// Registers that an instruction has without naming them.
bool Implicit(const Disassembled& d) {
  return d.operands.find_first_of("xw") == std::string::npos || d.mnemonic == "ret";
}

struct Totals {
  uint64_t words = 0, valid = 0, followed = 0, effects = 0, stopped = 0, invalid_effects = 0;
  std::map<std::string, uint64_t> stopped_by;
};

// Compares one word; the difference, or empty.
std::string Compare(uint32_t word, const Disassembled& d, const walk::Lifter& lifter, Totals* totals) {
  uint8_t bytes[4];
  std::memcpy(bytes, &word, 4);
  const auto insn = lifter.One(bytes);
  ++totals->words;
  totals->valid += d.valid;
  if (!insn) return d.mnemonic == "brk" ? "" : "taken for a breakpoint";
  if (IsStop(*insn)) {
    if (d.valid && d.mnemonic != "udf") ++totals->stopped, ++totals->stopped_by[a64::NameOf(a64::FormOf(word))];
    return FlowOf(d).empty() ? "" : "a branch that is not seen";
  }
  const walk::MicroOp& u = insn->uop;
  if (!d.valid) {
    // An undefined word that is followed by its effects is one too many, but ends at the CPU's fault.
    if (u.op == BRINK_A64_CLOBBER) ++totals->invalid_effects;
    return u.op == BRINK_A64_CLOBBER ? "" : "no instruction, but followed";
  }
  if (FlowOf(*insn) != FlowOf(d)) return "flow " + FlowOf(*insn);
  if (insn->target != walk::Insn::kNoTarget && LastImmediate(d.operands) != insn->target) return "target " + std::to_string(insn->target);
  ++(u.op == BRINK_A64_CLOBBER ? totals->effects : totals->followed);
  const std::set<int> general = GeneralRegisters(d.operands), vectors = VectorRegisters(d.operands);
  const std::set<int> ours = GeneralOf(u);
  if (u.op == BRINK_A64_CLOBBER) {
    if (!std::includes(general.begin(), general.end(), ours.begin(), ours.end()) && !Implicit(d)) return "general registers of an effect";
    if ((u.aux & BRINK_A64_LOSE_VECTOR) && FirstVector(d.operands) != u.dst) return "vector of an effect";
    return "";
  }
  // The modifier of an authenticated pointer plays no part.
  const bool modified = u.op == BRINK_A64_PAC || ((u.op == BRINK_A64_BR || u.op == BRINK_A64_BLR) && u.aux != 0);
  if (modified && std::includes(general.begin(), general.end(), ours.begin(), ours.end())) return "";
  if (u.op != BRINK_A64_NOP && ours != general && !(Implicit(d) && general.empty())) return "general registers";
  if (VectorOperands(u.op) && VectorsOf(u) != vectors) return "vectors";
  if (!VectorOperands(u.op) && u.op != BRINK_A64_NOP && !vectors.empty()) return "vectors where none are followed";
  return "";
}

void CompareAll(const std::vector<uint32_t>& words, Totals* totals) {
  const auto text = Disassemble(words);
  ASSERT_TRUE(text.has_value()) << "the disassembler failed";
  const walk::Lifter lifter(walk::LiftOptions::A64());
  std::map<a64::Form, int> shown;
  for (size_t i = 0; i < words.size(); ++i) {
    const Disassembled& d = (*text)[i];
    const std::string difference = Compare(words[i], d, lifter, totals);
    if (difference.empty() || ++shown[a64::FormOf(words[i])] > 3) continue;
    ADD_FAILURE() << Hex(words[i]) << " " << a64::NameOf(a64::FormOf(words[i])) << ": " << (d.valid ? d.mnemonic + d.operands : "invalid") << ": " << difference;
  }
}

void Report(const Totals& totals) {
  std::cout << totals.words << " words, " << totals.valid << " instructions: " << totals.followed << " followed, " << totals.effects << " by effect, "
            << totals.stopped << " end a walk; " << totals.invalid_effects << " undefined words taken for one by effect\n";
  if (!std::getenv("BRINK_VERBOSE")) return;
  for (const auto& [form, count] : totals.stopped_by) std::cout << "  ends: " << form << " " << count << "\n";
}

bool NoDisassembler() {
  const uint32_t nop = 0xd503201f;
  return !Disassemble({&nop, 1}).has_value();
}

TEST(A64Decode, RandomWordsOfEveryClassAreWhatLlvmTakesThemFor) {
  if (NoDisassembler()) GTEST_SKIP() << "needs llvm-mc 19 (package llvm-19)";
  A64Source source(std::getenv("BRINK_SEED") ? std::strtoull(std::getenv("BRINK_SEED"), nullptr, 0) : 7);
  std::vector<uint32_t> words;
  const int each = Long() ? 20'000 : 1'500;
  const a64::Rows rows = a64::AllRows();
  for (const a64::Row* row = rows.begin; row != rows.end; ++row) {
    for (int i = 0; i < each; ++i) words.push_back(source.Word(*row));
  }
  Totals totals;
  CompareAll(words, &totals);
  Report(totals);
  EXPECT_GT(totals.followed, totals.words / 4);
}

TEST(A64Decode, RandomWordsAreWhatLlvmTakesThemFor) {
  if (NoDisassembler()) GTEST_SKIP() << "needs llvm-mc 19 (package llvm-19)";
  std::mt19937 random(11);
  std::vector<uint32_t> words(Long() ? 1'000'000 : 60'000);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  Totals totals;
  CompareAll(words, &totals);
  Report(totals);
}

// Every word of the code that is there: the C library of this architecture, where it is installed.
TEST(A64Decode, CodeOfLibrariesIsWhatLlvmTakesItFor) {
  if (NoDisassembler()) GTEST_SKIP() << "needs llvm-mc 19 (package llvm-19)";
  std::vector<std::string> files;
  for (const char* path : {"/usr/lib/aarch64-linux-gnu/libc.so.6", "/usr/aarch64-linux-gnu/lib/libc.so.6", "/usr/lib/aarch64-linux-gnu/libstdc++.so.6",
                           "/usr/lib/aarch64-linux-gnu/libzstd.so.1"}) {
    if (std::ifstream(path).good()) files.push_back(path);
  }
  if (const char* more = std::getenv("BRINK_A64_FILES")) {
    std::istringstream list(more);
    for (std::string path; std::getline(list, path, ':');) files.push_back(path);
  }
  if (files.empty()) GTEST_SKIP() << "needs libraries of arm64 (package libc6:arm64)";
  Totals totals;
  std::set<uint32_t> seen;
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    // Executable segments of an ELF file of 64 bits.
    uint64_t headers;
    uint16_t count;
    ASSERT_GT(bytes.size(), 64u);
    std::memcpy(&headers, bytes.data() + 32, 8);
    std::memcpy(&count, bytes.data() + 56, 2);
    for (int i = 0; i < count; ++i) {
      uint32_t type, flags;
      uint64_t offset, size;
      ASSERT_LE(headers + 56 * (i + 1), bytes.size());
      std::memcpy(&type, bytes.data() + headers + 56 * i, 4);
      std::memcpy(&flags, bytes.data() + headers + 56 * i + 4, 4);
      std::memcpy(&offset, bytes.data() + headers + 56 * i + 8, 8);
      std::memcpy(&size, bytes.data() + headers + 56 * i + 32, 8);
      if (type != 1 || !(flags & 1)) continue;
      for (uint64_t at = offset; at + 4 <= offset + size && at + 4 <= bytes.size(); at += 4) {
        uint32_t word;
        std::memcpy(&word, bytes.data() + at, 4);
        seen.insert(word);
      }
    }
  }
  CompareAll({seen.begin(), seen.end()}, &totals);
  Report(totals);
  // Code, not data between it: nearly all of it is followed, or by effect.
  EXPECT_LT(totals.stopped - totals.stopped_by["sve"], totals.valid / 50);
}

}  // namespace
}  // namespace brink::walk_test
