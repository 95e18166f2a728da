// A small interpreter of eBPF, to count the instructions that a program executes (the kernel counts time only). It runs
// the program as libbpf relocated it, before the verifier removes dead code: an upper bound of what the kernel runs.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <cstring>
#include <functional>

namespace brink::testing_support {

class Interpreter {
 public:
  // `value_of` gives the host address of a map's value (or nullptr) by its descriptor.
  Interpreter(const bpf_insn* insns, size_t count, std::function<void*(int fd)> value_of) : insns_(insns), count_(count), value_of_(std::move(value_of)) {}

  // Runs from `pc` to its exit with r1, r2. False where it meets something it does not know.
  bool Run(size_t pc, uint64_t r1, uint64_t r2, uint64_t* result) {
    uint64_t r[11] = {};
    alignas(8) unsigned char stack[512] = {};
    r[1] = r1;
    r[2] = r2;
    r[10] = reinterpret_cast<uint64_t>(stack + sizeof stack);
    while (pc < count_ && executed_ < 10'000'000) {
      const bpf_insn& i = insns_[pc++];
      ++executed_;
      const unsigned cls = i.code & 7;
      if (cls == BPF_ALU || cls == BPF_ALU64) {
        if (!Alu(i, r)) return false;
      } else if (cls == BPF_LD) {
        Load64(pc - 1, r);
        ++pc;
      } else if (cls == BPF_LDX) {
        r[i.dst_reg] = Read(r[i.src_reg] + static_cast<uint64_t>(int64_t{i.off}), i.code & 0x18);
      } else if (cls == BPF_ST || cls == BPF_STX) {
        uint64_t value = cls == BPF_ST ? static_cast<uint64_t>(int64_t{i.imm}) : r[i.src_reg];
        if (cls == BPF_STX && (i.code & 0xe0) != BPF_MEM) return false;
        Write(r[i.dst_reg] + static_cast<uint64_t>(int64_t{i.off}), i.code & 0x18, value);
      } else if (i.code == (BPF_JMP | BPF_EXIT)) {
        *result = r[0];
        return true;
      } else if (i.code == (BPF_JMP | BPF_CALL)) {
        if (!Call(i, pc, r)) return false;
      } else if ((i.code & 0xf0) == BPF_JA || Taken(i, r)) {
        pc = static_cast<size_t>(static_cast<int64_t>(pc) + i.off);
      }
    }
    return false;
  }
  uint64_t executed() const { return executed_; }

 private:
  static bool Alu(const bpf_insn& i, uint64_t* r) {
    const bool wide = (i.code & 7) == BPF_ALU64;
    uint64_t b = i.code & BPF_X ? r[i.src_reg] : static_cast<uint64_t>(int64_t{i.imm});
    uint64_t a = r[i.dst_reg];
    if (!wide) a = static_cast<uint32_t>(a), b = static_cast<uint32_t>(b);
    const unsigned mask = wide ? 63 : 31;
    switch (i.code & 0xf0) {
      case BPF_ADD: a += b; break;
      case BPF_SUB: a -= b; break;
      case BPF_MUL: a *= b; break;
      case BPF_DIV: a = b ? a / b : 0; break;
      case BPF_MOD: a = b ? a % b : a; break;
      case BPF_OR: a |= b; break;
      case BPF_AND: a &= b; break;
      case BPF_XOR: a ^= b; break;
      case BPF_LSH: a <<= b & mask; break;
      case BPF_RSH: a >>= b & mask; break;
      case BPF_ARSH: a = wide ? static_cast<uint64_t>(static_cast<int64_t>(a) >> (b & mask)) : static_cast<uint32_t>(static_cast<int32_t>(a) >> (b & mask)); break;
      case BPF_NEG: a = -a; break;
      case BPF_MOV: a = b; break;
      default: return false;
    }
    r[i.dst_reg] = wide ? a : static_cast<uint32_t>(a);
    return true;
  }

  static bool Taken(const bpf_insn& i, const uint64_t* r) {
    uint64_t a = r[i.dst_reg], b = i.code & BPF_X ? r[i.src_reg] : static_cast<uint64_t>(int64_t{i.imm});
    int64_t sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
    if ((i.code & 7) == BPF_JMP32) {
      a = static_cast<uint32_t>(a), b = static_cast<uint32_t>(b);
      sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
    }
    switch (i.code & 0xf0) {
      case BPF_JEQ: return a == b;
      case BPF_JNE: return a != b;
      case BPF_JGT: return a > b;
      case BPF_JGE: return a >= b;
      case BPF_JLT: return a < b;
      case BPF_JLE: return a <= b;
      case BPF_JSET: return a & b;
      case BPF_JSGT: return sa > sb;
      case BPF_JSGE: return sa >= sb;
      case BPF_JSLT: return sa < sb;
      default: return sa <= sb;
    }
  }

  void Load64(size_t at, uint64_t* r) {
    const bpf_insn &low = insns_[at], &high = insns_[at + 1];
    uint64_t value = static_cast<uint32_t>(low.imm) | static_cast<uint64_t>(static_cast<uint32_t>(high.imm)) << 32;
    if (low.src_reg == BPF_PSEUDO_MAP_FD) value = static_cast<uint32_t>(low.imm);
    if (low.src_reg == BPF_PSEUDO_MAP_VALUE) value = reinterpret_cast<uint64_t>(value_of_(low.imm)) + static_cast<uint32_t>(high.imm);
    if (low.src_reg == BPF_PSEUDO_FUNC) value = at + 1 + static_cast<uint64_t>(int64_t{low.imm});
    r[low.dst_reg] = value;
  }

  bool Call(const bpf_insn& i, size_t pc, uint64_t* r) {
    if (i.src_reg == BPF_PSEUDO_CALL) return Run(pc + static_cast<uint64_t>(int64_t{i.imm}), r[1], r[2], &r[0]);
    if (i.imm == BPF_FUNC_map_lookup_elem) {
      r[0] = reinterpret_cast<uint64_t>(value_of_(static_cast<int>(r[1])));
      return true;
    }
    if (i.imm != BPF_FUNC_loop) return false;
    const uint64_t times = r[1], callback = r[2], context = r[3];
    for (uint64_t n = 0; n < times; ++n) {
      uint64_t stop = 0;
      if (!Run(callback, n, context, &stop)) return false;
      if (stop) break;
    }
    r[0] = times;
    return true;
  }

  static size_t SizeOf(unsigned code) { return code == BPF_DW ? 8 : code == BPF_W ? 4 : code == BPF_H ? 2 : 1; }
  static uint64_t Read(uint64_t address, unsigned code) {
    uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(address), SizeOf(code));
    return value;
  }
  static void Write(uint64_t address, unsigned code, uint64_t value) { std::memcpy(reinterpret_cast<void*>(address), &value, SizeOf(code)); }

  const bpf_insn* insns_;
  size_t count_;
  std::function<void*(int fd)> value_of_;
  uint64_t executed_ = 0;
};

}  // namespace brink::testing_support
