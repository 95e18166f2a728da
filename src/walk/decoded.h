// One decoded instruction and the helpers that turn its operands into fields of a micro-op. Internal to the lifter.
#pragma once

#include <Zydis/Zydis.h>

#include "brink/abi/walk.h"
#include "walk/lifter.h"
#include "walk/ops.h"

namespace brink::walk {

struct Decoded {
  ZydisDecodedInstruction insn;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  LiftOptions options;

  const ZydisDecodedOperand& operand(int i) const { return operands[i]; }
  int visible() const { return insn.operand_count_visible; }
};

// Fills in a micro-op operand by operand. A function returns false when the operand has no place in one: the caller
// then ends the walk at this instruction.
class UopBuilder {
 public:
  UopBuilder(const Decoded& decoded, Insn* out) : d_(decoded), u_(out->uop) {}

  MicroOp& uop() { return u_; }
  // Operand size in bits.
  void Size(unsigned bits) { u_.sh = static_cast<uint8_t>(64 - bits); }
  void SourceSize(unsigned bits) { u_.msh = static_cast<uint8_t>(64 - bits); }
  // Makes operand i the destination: a register, or memory that is stored to (and read first with `load`).
  bool Dst(int i, bool load, bool store = true);
  // Makes operand i the source: register, memory (loaded) or immediate.
  bool Src(int i);
  // Makes operand i, a register or an immediate, the third operand.
  bool Src2(int i);
  // Makes operand i the memory operand, with the given flags beside BRINK_UOP_MEM.
  bool Memory(int i, uint8_t flags);
  // The top of the stack, at `disp` from rsp (or another base).
  void Stack(int32_t disp, uint8_t flags, uint8_t base = 4);

 private:
  const Decoded& d_;
  MicroOp& u_;
};

// General register (high bytes as 0..3 with *high), or nothing.
std::optional<uint8_t> GeneralRegister(ZydisRegister reg, bool* high);
// Number of a vector (xmm, ymm, zmm) or of a mask register (as BRINK_WREG_K0 + n); nothing for others.
std::optional<uint8_t> VectorRegister(ZydisRegister reg);
std::optional<uint8_t> MaskRegister(ZydisRegister reg);

// Each lifts one family. False: not mine.
bool LiftInteger(const Decoded& decoded, Insn* out);
bool LiftControl(const Decoded& decoded, Insn* out);
bool LiftVector(const Decoded& decoded, Insn* out);
// Everything whose only trace in the walker's state is that results become unknown.
bool LiftEffects(const Decoded& decoded, Insn* out);

}  // namespace brink::walk
