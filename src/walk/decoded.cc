#include "walk/decoded.h"

namespace brink::walk {

std::optional<uint8_t> GeneralRegister(ZydisRegister reg, bool* high) {
  *high = false;
  if (reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH) {
    *high = true;
    return static_cast<uint8_t>(reg - ZYDIS_REGISTER_AH);
  }
  if (reg >= ZYDIS_REGISTER_AL && reg <= ZYDIS_REGISTER_BL) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_AL);
  if (reg >= ZYDIS_REGISTER_SPL && reg <= ZYDIS_REGISTER_R15B) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_SPL + 4);
  if (reg >= ZYDIS_REGISTER_AX && reg <= ZYDIS_REGISTER_R15W) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_AX);
  if (reg >= ZYDIS_REGISTER_EAX && reg <= ZYDIS_REGISTER_R15D) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_EAX);
  if (reg >= ZYDIS_REGISTER_RAX && reg <= ZYDIS_REGISTER_R15) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_RAX);
  return std::nullopt;
}

std::optional<uint8_t> VectorRegister(ZydisRegister reg) {
  if (reg >= ZYDIS_REGISTER_XMM0 && reg <= ZYDIS_REGISTER_XMM31) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_XMM0);
  if (reg >= ZYDIS_REGISTER_YMM0 && reg <= ZYDIS_REGISTER_YMM31) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_YMM0);
  if (reg >= ZYDIS_REGISTER_ZMM0 && reg <= ZYDIS_REGISTER_ZMM31) return static_cast<uint8_t>(reg - ZYDIS_REGISTER_ZMM0);
  return std::nullopt;
}

std::optional<uint8_t> MaskRegister(ZydisRegister reg) {
  if (reg < ZYDIS_REGISTER_K0 || reg > ZYDIS_REGISTER_K7) return std::nullopt;
  return static_cast<uint8_t>(BRINK_WREG_K0 + (reg - ZYDIS_REGISTER_K0));
}

namespace {

std::optional<uint8_t> AddressRegister(ZydisRegister reg) {
  if (reg == ZYDIS_REGISTER_NONE) return uint8_t{BRINK_WREG_ZERO};
  if (reg == ZYDIS_REGISTER_RIP) return uint8_t{BRINK_WREG_IP};
  bool high;
  return GeneralRegister(reg, &high);
}

}  // namespace

bool UopBuilder::Memory(int i, uint8_t flags) {
  const ZydisDecodedOperand& op = d_.operand(i);
  if (op.type != ZYDIS_OPERAND_TYPE_MEMORY) return false;
  // SIB base 5 with mod 0 is an address without base; Zydis 4.0.0 names r13d there under a REX.B and an address prefix.
  if (d_.insn.raw.modrm.mod == 0 && d_.insn.raw.modrm.rm == 4 && d_.insn.raw.sib.base == 5 && op.mem.base != ZYDIS_REGISTER_NONE &&
      (d_.insn.attributes & ZYDIS_ATTRIB_HAS_SIB)) {
    return false;
  }
  auto base = AddressRegister(op.mem.base), index = AddressRegister(op.mem.index);
  if (!base || !index) return false;
  int64_t disp = op.mem.disp.value;
  if (*base == BRINK_WREG_IP) disp += d_.insn.length;
  if (disp != static_cast<int32_t>(disp)) return false;
  u_.base = *base;
  u_.index = *index;
  u_.scale = op.mem.scale == 8 ? 3 : op.mem.scale == 4 ? 2 : op.mem.scale == 2 ? 1 : 0;
  u_.disp = static_cast<int32_t>(disp);
  u_.flags |= BRINK_UOP_MEM | flags;
  if (op.mem.segment == ZYDIS_REGISTER_FS) u_.flags |= BRINK_UOP_FS;
  if (op.mem.segment == ZYDIS_REGISTER_GS) u_.flags |= BRINK_UOP_GS;
  if (d_.insn.address_width != 64) u_.flags |= BRINK_UOP_A32;
  if (op.size == 8 || op.size == 16 || op.size == 32 || op.size == 64) SourceSize(op.size);
  return true;
}

bool UopBuilder::Dst(int i, bool load, bool store) {
  const ZydisDecodedOperand& op = d_.operand(i);
  if (op.type == ZYDIS_OPERAND_TYPE_MEMORY) {
    u_.dst = BRINK_WREG_MEM;
    return Memory(i, static_cast<uint8_t>((load ? BRINK_UOP_LOAD : 0) | (store ? BRINK_UOP_STORE : 0)));
  }
  if (op.type != ZYDIS_OPERAND_TYPE_REGISTER) return false;
  bool high;
  auto reg = GeneralRegister(op.reg.value, &high);
  if (!reg) return false;
  u_.dst = *reg;
  if (high) u_.flags |= BRINK_UOP_HI_DST;
  return true;
}

bool UopBuilder::Src(int i) {
  const ZydisDecodedOperand& op = d_.operand(i);
  if (op.type == ZYDIS_OPERAND_TYPE_MEMORY) {
    u_.src = BRINK_WREG_MEM;
    return Memory(i, BRINK_UOP_LOAD);
  }
  if (op.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    u_.src = BRINK_WREG_IMM;
    u_.imm = static_cast<int32_t>(op.imm.value.s);
    return true;
  }
  if (op.type != ZYDIS_OPERAND_TYPE_REGISTER) return false;
  bool high;
  auto reg = GeneralRegister(op.reg.value, &high);
  if (!reg) return false;
  u_.src = *reg;
  if (high) u_.flags |= BRINK_UOP_HI_SRC;
  return true;
}

bool UopBuilder::Src2(int i) {
  const ZydisDecodedOperand& op = d_.operand(i);
  if (op.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    u_.src2 = BRINK_WREG_IMM;
    u_.imm = static_cast<int32_t>(op.imm.value.s);
    return true;
  }
  bool high;
  auto reg = op.type == ZYDIS_OPERAND_TYPE_REGISTER ? GeneralRegister(op.reg.value, &high) : std::nullopt;
  if (!reg || high) return false;
  u_.src2 = *reg;
  return true;
}

void UopBuilder::Stack(int32_t disp, uint8_t flags, uint8_t base) {
  u_.base = base;
  u_.index = BRINK_WREG_ZERO;
  u_.scale = 0;
  u_.disp = disp;
  u_.flags |= BRINK_UOP_MEM | flags;
}

}  // namespace brink::walk
