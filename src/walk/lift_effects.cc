// Instructions that the core does not compute: floating point, wide vector arithmetic, counters, random numbers. What
// they write becomes unknown; that is read off the decoder's operand list, so only families whose list is complete are
// taken. Everything else ends the walk.
#include "walk/decoded.h"

namespace brink::walk {
namespace {

bool FamilyIsListed(const Decoded& d) {
  switch (d.insn.meta.category) {
    case ZYDIS_CATEGORY_SSE:
    case ZYDIS_CATEGORY_AVX:
    case ZYDIS_CATEGORY_AVX2:
    case ZYDIS_CATEGORY_AVX512:
    case ZYDIS_CATEGORY_AVX512_BITALG:
    case ZYDIS_CATEGORY_AVX512_VBMI:
    case ZYDIS_CATEGORY_VBMI2:
    case ZYDIS_CATEGORY_AES:
    case ZYDIS_CATEGORY_VAES:
    case ZYDIS_CATEGORY_PCLMULQDQ:
    case ZYDIS_CATEGORY_VPCLMULQDQ:
    case ZYDIS_CATEGORY_SHA:
    case ZYDIS_CATEGORY_GFNI:
    case ZYDIS_CATEGORY_IFMA:
    case ZYDIS_CATEGORY_BLEND:
    case ZYDIS_CATEGORY_BROADCAST:
    case ZYDIS_CATEGORY_COMPRESS:
    case ZYDIS_CATEGORY_EXPAND:
    case ZYDIS_CATEGORY_CONFLICT:
    case ZYDIS_CATEGORY_CONVERT:
    case ZYDIS_CATEGORY_KMASK:
    case ZYDIS_CATEGORY_LOGICAL_FP:
    case ZYDIS_CATEGORY_VFMA:
    case ZYDIS_CATEGORY_FMA4:
    case ZYDIS_CATEGORY_FP16:
    case ZYDIS_CATEGORY_STTNI:
    case ZYDIS_CATEGORY_MMX:
    case ZYDIS_CATEGORY_X87_ALU:
    case ZYDIS_CATEGORY_FCMOV:
    case ZYDIS_CATEGORY_DATAXFER:
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_RDRAND:
    case ZYDIS_CATEGORY_RDSEED:
    case ZYDIS_CATEGORY_RDPID:
      return true;
    default:
      break;
  }
  switch (d.insn.mnemonic) {
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_XGETBV:
    case ZYDIS_MNEMONIC_RDPKRU:
    case ZYDIS_MNEMONIC_RDSSPQ:
    case ZYDIS_MNEMONIC_RDSSPD:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_VSTMXCSR:
    case ZYDIS_MNEMONIC_XTEST:
    case ZYDIS_MNEMONIC_TPAUSE:
    case ZYDIS_MNEMONIC_UMWAIT:
      return true;
    default:
      return false;
  }
}

// Memory that these touch is larger than their operand says, or is not told at all.
bool IsExcluded(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVQ:
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FRSTOR:
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FLDENV:
    case ZYDIS_MNEMONIC_XLAT:
    case ZYDIS_MNEMONIC_MOVDIR64B:
      return true;
    default:
      return false;
  }
}

uint32_t FlagsWritten(const ZydisDecodedInstruction& insn) {
  if (!insn.cpu_flags) return 0;
  constexpr uint32_t kArithmetic = 0x8d5;
  return (insn.cpu_flags->modified | insn.cpu_flags->set_0 | insn.cpu_flags->set_1 | insn.cpu_flags->undefined) & kArithmetic;
}

struct Effects {
  uint32_t general = 0;
  int vector = -1;
  int mask = -1;
  int memory = -1;  // operand number
  bool describable = true;
};

void AddRegister(ZydisRegister reg, Effects* e) {
  bool high;
  if (auto general = GeneralRegister(reg, &high)) {
    e->general |= 1u << *general;
  } else if (auto vector = VectorRegister(reg)) {
    e->describable &= e->vector < 0 || e->vector == *vector;
    e->vector = *vector;
  } else if (auto mask = MaskRegister(reg)) {
    e->describable &= e->mask < 0;
    e->mask = *mask;
  } else {
    switch (ZydisRegisterGetClass(reg)) {
      case ZYDIS_REGCLASS_X87:
      case ZYDIS_REGCLASS_MMX:
      case ZYDIS_REGCLASS_FLAGS:
        break;
      default:
        e->describable &= reg == ZYDIS_REGISTER_MXCSR || reg == ZYDIS_REGISTER_X87CONTROL ||
                          reg == ZYDIS_REGISTER_X87STATUS || reg == ZYDIS_REGISTER_X87TAG;
    }
  }
}

Effects Collect(const Decoded& d) {
  Effects e;
  for (int i = 0; i < d.insn.operand_count; ++i) {
    const auto& op = d.operand(i);
    if (!(op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      AddRegister(op.reg.value, &e);
    } else if (op.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      e.describable &= e.memory < 0 && (op.size == 8 || op.size == 16 || op.size == 32 || op.size == 64) &&
                       op.mem.type == ZYDIS_MEMOP_TYPE_MEM;
      e.memory = i;
    } else {
      e.describable = false;
    }
  }
  // A masked store may leave bytes alone; a gather clears its mask as it goes: both are left to the end of the walk.
  if (e.memory >= 0 && d.insn.avx.mask.mode != ZYDIS_MASK_MODE_INVALID && d.insn.avx.mask.mode != ZYDIS_MASK_MODE_DISABLED) e.describable = false;
  return e;
}

}  // namespace

bool LiftEffects(const Decoded& decoded, Insn* out) {
  if (!FamilyIsListed(decoded) || IsExcluded(decoded.insn.mnemonic)) return false;
  const Effects e = Collect(decoded);
  if (!e.describable) return false;
  // Writing a segment register through "mov" changes its base.
  for (int i = 0; i < decoded.visible(); ++i) {
    const auto& op = decoded.operand(i);
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER && op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
        ZydisRegisterGetClass(op.reg.value) == ZYDIS_REGCLASS_SEGMENT) {
      return false;
    }
  }
  const MicroOp before = out->uop;
  MicroOp& u = out->uop;
  UopBuilder builder(decoded, out);
  u.op = BRINK_OP_CLOBBER;
  u.imm = static_cast<int32_t>(e.general | FlagsWritten(decoded.insn) << 16);
  if (e.vector >= 0) {
    u.aux |= 1;
    u.dst = static_cast<uint8_t>(e.vector);
  }
  if (e.mask >= 0) {
    u.aux |= 4;
    u.src2 = static_cast<uint8_t>(e.mask);
  }
  if (e.memory >= 0) {
    u.aux |= 2;
    if (!builder.Memory(e.memory, BRINK_UOP_STORE)) {
      out->uop = before;
      return false;
    }
  }
  return true;
}

}  // namespace brink::walk
