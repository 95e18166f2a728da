#include "cpu_diff.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "native.h"
#include "walk/hash.h"
#include "random_insn.h"
#include "walk/host_walker.h"
#include "walk/ops.h"
#include "walk/vops.h"

namespace brink::walk_test {
namespace {

constexpr size_t kBuffer = 4096;
constexpr uint64_t kArithmetic = 0x8d5, kDirection = 0x400;

// What both sides start from. The buffer lies below 4 GiB, so 32-bit addresses reach it.
struct Case {
  CpuState cpu;
  uint64_t gpr_unk[16] = {};
  uint32_t flags_unk = 0;
  uint64_t vector_known[32] = {};
  uint64_t k_unk[8] = {};
  uint8_t memory[kBuffer];
  uint64_t line_known[kBuffer / 64];
  bool all_known = true;
};

class Diff {
 public:
  Diff(const DiffOptions& options, DiffResult* result)
      : options_(options), result_(*result), source_(options.seed, options.family), walk_(std::make_unique<brink_walk>()),
        out_(std::make_unique<brink_walk_out>()), uops_(16), pages_(2) {
    // Two guards, so that a wild access faults on both sides.
    auto* area = static_cast<uint8_t*>(mmap(nullptr, 3 * kBuffer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
    if (area == MAP_FAILED || mprotect(area + kBuffer, kBuffer, PROT_READ | PROT_WRITE) != 0) std::abort();
    buffer_ = area + kBuffer;
    for (size_t i = 0; i < pool_.size(); i += 8) {
      const uint64_t v = Random() % 4 ? Random() : Interesting();
      std::memcpy(pool_.data() + i, &v, 8);
    }
    vectors_ = options.family != DiffOptions::Family::kInteger && HasAvx512();
    strings_ = options.family == DiffOptions::Family::kString;
  }

  void Run() {
    while (result_.cases < options_.cases && result_.wrong == 0) {
      const RandomInsn insn = source_.Next();
      ++result_.instructions;
      for (int i = 0; i < 6 && result_.wrong == 0; ++i) One(insn);
    }
  }

 private:
  uint64_t Random() { return source_.random()(); }

  uint64_t Interesting() {
    const uint64_t r = Random(), kind = Random() % 8;
    switch (kind) {
      case 0: return r % 5;
      case 1: return -(r % 5);
      case 2: return uint64_t{1} << (r & 63);
      case 3: return (uint64_t{1} << (r & 63)) - 1;
      case 4: return r & 0xff;
      case 5: return (r & 0x8080808080808080ull) | 0x7f;
      default: return r;
    }
  }

  // A register number and its value; walk numbering.
  void Set(Case* c, ZydisRegister reg, uint64_t value) {
    const int id = ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg));
    c->cpu.gpr[id & 15] = value;
    c->gpr_unk[id & 15] = 0;
  }

  void Place(const RandomInsn& insn, Case* c) {
    const uint64_t start = reinterpret_cast<uint64_t>(buffer_);
    const auto pointer = [&] { return start + 1024 + Random() % 2048; };
    for (int reg : {4, 5, 6, 7}) {
      c->cpu.gpr[reg] = pointer();
      c->gpr_unk[reg] = 0;
    }
    if (insn.lifted.uop.op >= BRINK_OP_MOVS && insn.lifted.uop.op <= BRINK_OP_CMPS) {
      c->cpu.gpr[1] = Random() % 3 ? Random() % 20 : Random() % 60;
      if (insn.lifted.uop.aux || Random() % 2) c->gpr_unk[1] = 0;
      if (Random() % 4 == 0) c->cpu.gpr[7] = c->cpu.gpr[6] + Random() % 24 - 12;  // overlapping
    }
    if (insn.lifted.uop.op == BRINK_OP_DIV || insn.lifted.uop.op == BRINK_OP_IDIV) {
      if (Random() % 2) c->cpu.gpr[2] = Random() % 2 ? 0 : Random() % 100;
      if (Random() % 4 == 0) c->cpu.gpr[2] = static_cast<uint64_t>(static_cast<int64_t>(c->cpu.gpr[0]) >> 63);
    }
    if (insn.memory < 0) return;
    const auto& mem = insn.operands[insn.memory].mem;
    uint64_t where = start + 256 + Random() % (kBuffer - 640);
    if (Random() % 3 == 0) where = (where & ~63ull) + 56 + Random() % 8;  // about the end of a line
    if (Random() % 2) where &= ~63ull;                                   // aligned
    where -= static_cast<uint64_t>(mem.disp.value);
    if (mem.index == ZYDIS_REGISTER_NONE) {
      Set(c, mem.base, where);
    } else if (mem.index == mem.base) {
      Set(c, mem.base, where / (1 + mem.scale));
    } else {
      const uint64_t index = Random() % 32 - 16;
      Set(c, mem.index, index);
      Set(c, mem.base, where - index * mem.scale);
    }
  }

  void Fill(const RandomInsn& insn, Case* c) {
    c->all_known = Random() % 2 == 0;
    for (uint64_t& reg : c->cpu.gpr) reg = Interesting();
    c->cpu.flags = 0x202 | (Random() & kArithmetic) | (Random() % 4 == 0 ? kDirection : 0);
    std::memcpy(c->memory, pool_.data() + Random() % (pool_.size() - kBuffer), kBuffer);
    for (int i = 0; i < 16; ++i) {
      const uint64_t v = Interesting();
      std::memcpy(c->memory + Random() % (kBuffer - 8), &v, 8);
    }
    if (vectors_) {
      for (auto& z : c->cpu.zmm) {
        for (int i = 0; i < 64; i += 8) {
          uint64_t v = Random() % 3 ? Random() : 0;
          if (Random() % 4 == 0) std::memcpy(&v, c->memory + Random() % (kBuffer - 8), 8);
          std::memcpy(z + i, &v, 8);
        }
      }
      for (uint64_t& k : c->cpu.k) k = Random() % 4 == 0 ? Interesting() : Random();
    }
    for (uint64_t& known : c->vector_known) known = ~uint64_t{0};
    for (uint64_t& known : c->line_known) known = ~uint64_t{0};
    for (uint64_t& unk : c->gpr_unk) unk = 0;
    for (uint64_t& unk : c->k_unk) unk = 0;
    c->flags_unk = 0;
    if (!c->all_known) {
      for (uint64_t& unk : c->gpr_unk) unk = Random() % 3 ? 0 : Random() % 2 ? Random() & Random() : 0xffull << (Random() & 56);
      c->flags_unk = static_cast<uint32_t>(Random() & Random() & kArithmetic);
      for (uint64_t& known : c->vector_known) known = Random() % 2 ? ~uint64_t{0} : Random() | Random();
      for (uint64_t& known : c->line_known) known = Random() % 2 ? ~uint64_t{0} : Random() | Random() | Random();
      for (uint64_t& unk : c->k_unk) unk = Random() % 3 ? 0 : Random() & Random();
    }
    if (strings_) FillStrings(c);
    Place(insn, c);
  }

  // Few different characters, so that matches and ends of strings are frequent; lengths about the size of a register.
  void FillStrings(Case* c) {
    const bool words = Random() & 1;
    const uint8_t base = Random() & 1 ? 0 : 0x7e;
    auto draw = [&](uint8_t* at, size_t size) {
      for (size_t i = 0; i < size; ++i) at[i] = words && (i & 1) ? 0 : static_cast<uint8_t>(base + Random() % 6);
      if (Random() % 2) at[Random() % size] = 0;
    };
    for (auto& z : c->cpu.zmm) draw(z, 16);
    for (size_t i = 0; i + 16 <= kBuffer; i += 16) draw(c->memory + i, 16);
    c->cpu.gpr[0] = Random() % 40 - 20;
    c->cpu.gpr[2] = Random() % 40 - 20;
  }

  // Walks the instruction. True when it was executed whole.
  bool Walk(const RandomInsn& insn, const Case& c) {
    brink_walk* w = walk_.get();
    brink_walk_config config{.depth = 16, .max_steps = 400, .budget_ns = 0, .kind_mask = BRINK_WALK_ALL_KINDS};
    walk::CoreBegin(w, config);
    for (int i = 0; i < 16; ++i) w->reg[i] = {c.cpu.gpr[i] & ~c.gpr_unk[i], c.gpr_unk[i]};
    for (int i = 0; i < 8; ++i) w->reg[BRINK_WREG_K0 + i] = {c.cpu.k[i] & ~c.k_unk[i], c.k_unk[i]};
    w->flags = static_cast<uint32_t>(c.cpu.flags) & ~c.flags_unk;
    w->flags_known = kArithmetic & ~c.flags_unk;
    for (int i = 0; i < 32; ++i) {
      w->vknown[i] = vectors_ ? c.vector_known[i] : 0;
      for (int j = 0; j < 64; ++j) w->vreg[i].data[j] = w->vknown[i] >> j & 1 ? c.cpu.zmm[i][j] : 0;
    }
    w->proc = {};
    SetLines(c, w);

    constexpr uint64_t kCode = 0x100000000000;  // never touched natively: addresses of code play no part
    constexpr int kAt = 0x100;
    uint8_t code[4096];
    std::memset(code, 0x90, sizeof code);
    std::memcpy(code + kAt, insn.bytes, insn.lifted.uop.len);
    // One block: head, the line's bytes, the instruction, the end.
    brink_walk_block block{};
    block.lifted = 1;
    constexpr uint32_t kLink = 1u << BRINK_LINK_SHIFT | BRINK_WALK_FIRST_HEAD;
    const walk::PackedInsn packed = walk::Pack(insn.lifted);
    const uint32_t more = packed.other != 0;
    block.more = more;
    const brink_walk_block_ways ways{.more = 0, .line = 64 + kAt / 64, .first = 1, .end = 0};
    std::memcpy(&uops_[1], &block, sizeof block);
    std::memcpy(&uops_[2], &ways, sizeof ways);
    std::memcpy(&uops_[1 + BRINK_WALK_MORE_HEAD], code + kAt, 64);
    pages_[1].line[kAt / 64] = 1;
    brink_uop* uop = &uops_[1 + BRINK_WALK_FIRST_HEAD];
    *uop = packed.uop;
    if (more) {
      uop->len |= BRINK_UOP_MORE;
      const brink_uop_more unit{.reserved = 0, .other = packed.other, .next = kLink + 2};
      std::memcpy(++uop, &unit, sizeof unit);
    }
    *++uop = {};
    uop->op = BRINK_OP_STOP;
    uop->aux = BRINK_STOP_SYSCALL;
    w->reg[BRINK_WREG_IP] = {kCode + kAt, 0};
    w->pc = kLink;
    walk::CoreEnvironment env;
    env.uops = uops_;
    env.pages = pages_;
    env.read = [&](uint64_t address, void* to, size_t size) {
      if (address >= kCode && address + size <= kCode + 4096) {
        std::memcpy(to, code + (address - kCode), size);
        return true;
      }
      const uint64_t start = reinterpret_cast<uint64_t>(buffer_);
      if (address < start || address + size > start + kBuffer) return false;
      std::memcpy(to, c.memory + (address - start), size);
      return true;
    };
    env.translate = [](uint64_t, uint64_t) { return 0u; };
    walk::CoreRun(env, w, out_.get());
    walk::CoreSettleFlags(w);
    return w->stop == BRINK_STOP_SYSCALL;
  }

  // The line of an address that the walk has, or nothing.
  static const brink_walk_line* LineOf(const brink_walk& w, uint64_t address) {
    for (uint32_t i = 0; i < w.nr_lines; ++i) {
      if (w.mem[i].tag == (address | w.gen)) return &w.mem[i];
    }
    return nullptr;
  }

  // Takes a line for an address as the walk itself would.
  static brink_walk_line* AddLine(brink_walk* w, uint64_t address) {
    const uint32_t own = brink_walk_set(address, BRINK_WALK_LINES / 2), other = brink_walk_other_set(address, BRINK_WALK_LINES / 2);
    for (uint32_t i : {own, own + 1, other, other + 1}) {
      if ((w->where[i] & BRINK_WALK_TAG_GEN) == w->gen) continue;
      w->where[i] = address | w->gen | uint64_t{w->nr_lines} << BRINK_WALK_TAG_BITS;
      brink_walk_line* line = &w->mem[w->nr_lines++];
      line->tag = address | w->gen;
      return line;
    }
    return nullptr;
  }

  // Lines with unknown bytes, as if earlier stores had left them.
  void SetLines(const Case& c, brink_walk* w) {
    const uint64_t start = reinterpret_cast<uint64_t>(buffer_);
    w->strays = 1;
    for (size_t i = 0; i < kBuffer / 64; ++i) {
      if (c.line_known[i] == ~uint64_t{0}) continue;
      const uint64_t address = start + 64 * i;
      brink_walk_line& line = *AddLine(w, address);
      line.known = c.line_known[i];
      line.dirty = ~c.line_known[i];
      for (int j = 0; j < 64; ++j) line.data[j] = line.known >> j & 1 ? c.memory[64 * i + j] : 0;
    }
  }

  void Wrong(const RandomInsn& insn, const Case& c, const std::string& what) {
    ++result_.wrong;
    std::string text = what + "\n";
    ZydisFormatter formatter;
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
    char buffer[128] = {};
    ZydisFormatterFormatInstruction(&formatter, &insn.decoded, insn.operands, insn.decoded.operand_count_visible, buffer, sizeof buffer, 0, nullptr);
    text += buffer;
    text += "\n";
    char line[128];
    for (int i = 0; i < insn.lifted.uop.len; ++i) std::snprintf(line, sizeof line, "%02x", insn.bytes[i]), text += line;
    text += "\n";
    for (int i = 0; i < 16; ++i) {
      std::snprintf(line, sizeof line, "r%d %016llx unk %016llx -> cpu %016llx walk %016llx unk %016llx\n", i, static_cast<unsigned long long>(c.cpu.gpr[i]),
                    static_cast<unsigned long long>(c.gpr_unk[i]), static_cast<unsigned long long>(after_.gpr[i]),
                    static_cast<unsigned long long>(walk_->reg[i].val), static_cast<unsigned long long>(walk_->reg[i].unk));
      text += line;
    }
    std::snprintf(line, sizeof line, "flags %llx unk %x -> cpu %llx walk %x known %x\n", static_cast<unsigned long long>(c.cpu.flags), c.flags_unk,
                  static_cast<unsigned long long>(after_.flags), walk_->flags, walk_->flags_known);
    text += line;
    std::snprintf(result_.first_wrong, sizeof result_.first_wrong, "%s", text.c_str());
  }

  std::string CompareRegisters() const {
    const brink_walk& w = *walk_;
    for (int i = 0; i < 16; ++i) {
      if ((after_.gpr[i] ^ w.reg[i].val) & ~w.reg[i].unk) return "register " + std::to_string(i);
      if (w.reg[i].val & w.reg[i].unk) return "unknown bits set in register " + std::to_string(i);
    }
    if ((after_.flags ^ w.flags) & w.flags_known & kArithmetic) return "flags";
    if ((after_.flags ^ w.flags) & kDirection) return "direction flag";
    if (!vectors_) return "";
    for (int i = 0; i < 32; ++i) {
      for (int j = 0; j < 64; ++j) {
        if (w.vknown[i] >> j & 1 && w.vreg[i].data[j] != after_.zmm[i][j]) return "vector register " + std::to_string(i) + " byte " + std::to_string(j);
      }
    }
    for (int i = 0; i < 8; ++i) {
      if ((after_.k[i] ^ w.reg[BRINK_WREG_K0 + i].val) & ~w.reg[BRINK_WREG_K0 + i].unk) return "mask register " + std::to_string(i);
    }
    return "";
  }

  // Memory as the walk left it: what it read, overlaid with what it stored.
  std::string CompareMemory(const Case& c) const {
    const uint64_t start = reinterpret_cast<uint64_t>(buffer_);
    for (size_t i = 0; i < kBuffer / 64; ++i) {
      const uint64_t address = start + 64 * i;
      const brink_walk_line* line = LineOf(*walk_, address);
      if (!line && std::memcmp(buffer_ + 64 * i, c.memory + 64 * i, 64) == 0) continue;
      for (size_t j = 0; j < 64; ++j) {
        const uint8_t real = buffer_[64 * i + j];
        if (line && !(line->known >> j & 1)) continue;
        if (real != (line ? line->data[j] : c.memory[64 * i + j])) return "memory at offset " + std::to_string(64 * i + j);
      }
    }
    return "";
  }

  bool AllKnown() const {
    for (int i = 0; i < 16; ++i) {
      if (walk_->reg[i].unk) return false;
    }
    for (int i = 0; vectors_ && i < 32; ++i) {
      if (~walk_->vknown[i]) return false;
    }
    for (int i = 0; vectors_ && i < 8; ++i) {
      if (walk_->reg[BRINK_WREG_K0 + i].unk) return false;
    }
    return true;
  }

  void One(const RandomInsn& insn) {
    Fill(insn, &case_);
    const bool walked = Walk(insn, case_);
    if (!walked && walk_->stop != BRINK_STOP_FAULT) {
      ++result_.stopped;
      return;
    }
    std::memcpy(buffer_, case_.memory, kBuffer);
    after_ = case_.cpu;
    const bool ran = native_.Run({insn.bytes, insn.lifted.uop.len}, &after_, vectors_);
    if (!ran && !walked) {
      ++result_.faulted;
      return;
    }
    if (!ran) {
      // A fault that the walker does not see coming (floating point, alignment of what it does not compute, the far end of a frame, a
      // quotient that is not known to fit).
      const uint8_t op = insn.lifted.uop.op;
      if (op == BRINK_OP_CLOBBER || op == BRINK_OP_NOP || op == BRINK_OP_ENTER) return;
      if ((op == BRINK_OP_DIV || op == BRINK_OP_IDIV) && !case_.all_known) return;
      Wrong(insn, case_, "the CPU faulted, the walk went on");
      return;
    }
    if (!walked) {
      // The CPU does not fault for elements that a mask leaves out, not even for the alignment of an access that is left
      // out whole; the walker asks for the whole operand, and ends.
      const walk::MicroOp& uop = insn.lifted.uop;
      if (uop.op >= BRINK_OP_VECTOR && BRINK_V_MASK(uop.imm)) {
        ++result_.shortened;
        return;
      }
      Wrong(insn, case_, "the walk saw a fault, the CPU did not");
      return;
    }
    std::string what = CompareRegisters();
    if (what.empty()) what = CompareMemory(case_);
    if (!what.empty()) {
      Wrong(insn, case_, what);
      return;
    }
    ++result_.cases;
    ++result_.by_mnemonic[insn.decoded.mnemonic];
    if (case_.all_known) {
      if (AllKnown()) {
        ++result_.known;
      } else {
        ++result_.vague[insn.decoded.mnemonic];
      }
    }
  }

  DiffOptions options_;
  DiffResult& result_;
  InsnSource source_;
  Native native_;
  Case case_;
  CpuState after_;
  std::unique_ptr<brink_walk> walk_;
  std::unique_ptr<brink_walk_out> out_;
  std::vector<brink_uop> uops_;
  std::vector<brink_walk_page> pages_;
  std::vector<uint8_t> pool_ = std::vector<uint8_t>(1 << 16);
  uint8_t* buffer_ = nullptr;
  bool vectors_ = false;
  bool strings_ = false;
};

}  // namespace

DiffResult RunDiff(const DiffOptions& options) {
  void* shared = mmap(nullptr, sizeof(DiffResult), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* result = new (shared) DiffResult;
  const pid_t child = fork();
  if (child == 0) {
    Diff(options, result).Run();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  DiffResult copy = *result;
  if (status != 0) {
    ++copy.wrong;
    std::snprintf(copy.first_wrong, sizeof copy.first_wrong, "the testing child ended with status 0x%x after %llu cases", status,
                  static_cast<unsigned long long>(copy.cases));
  }
  munmap(shared, sizeof(DiffResult));
  return copy;
}

}  // namespace brink::walk_test
