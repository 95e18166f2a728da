#include "random_insn.h"

#include <cstring>

#include "walk/ops.h"

namespace brink::walk_test {

InsnSource::InsnSource(uint64_t seed, DiffOptions::Family family) : random_(seed), family_(family) {
  ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

void InsnSource::Draw(uint8_t* bytes) {
  for (int i = 0; i < 16; i += 8) {
    const uint64_t r = random_();
    std::memcpy(bytes + i, &r, 8);
  }
  uint8_t prefix[8];
  int n = 0;
  const uint64_t pick = random_();
  if (family_ == DiffOptions::Family::kString) {  // pcmpestrm, pcmpestri, pcmpistrm, pcmpistri
    const auto opcode = static_cast<uint8_t>(0x60 | (pick >> 8 & 3));
    if (pick & 1) {
      const uint8_t vex[] = {0xc4, static_cast<uint8_t>((bytes[1] & 0xe0) | 3), static_cast<uint8_t>(0x79 | (pick >> 10 & 0x80)), opcode};
      std::memcpy(bytes, vex, sizeof vex);
      return;
    }
    const uint8_t legacy[] = {0x66, static_cast<uint8_t>(0x40 | (pick >> 12 & 15)), 0x0f, 0x3a, opcode};
    std::memmove(bytes + sizeof legacy, bytes, 16 - sizeof legacy);
    std::memcpy(bytes, legacy, sizeof legacy);
    return;
  }
  if (family_ == DiffOptions::Family::kVector && pick % 100 < 75) {
    if (pick % 100 < 30) {  // VEX
      if (pick >> 20 & 1) {
        prefix[n++] = 0xc5;
        n++;  // R vvvv L pp stay random
        std::memcpy(bytes, prefix, 1);
      } else {
        bytes[0] = 0xc4;
        bytes[1] = static_cast<uint8_t>((bytes[1] & 0xe0) | (1 + pick / 100 % 3));
      }
    } else if (pick % 100 < 70) {  // EVEX
      bytes[0] = 0x62;
      bytes[1] = static_cast<uint8_t>((bytes[1] & 0xf0) | (1 + pick / 100 % 3));
      bytes[2] |= 0x04;
      if (pick >> 22 & 1) bytes[3] &= 0xf8;  // unmasked
    } else {
      bytes[0] = 0xc5;
    }
    return;
  }
  if (pick % 4 == 0) prefix[n++] = 0x66;
  if (pick >> 8 & 1) {
    if ((pick >> 9) % 8 == 0) prefix[n++] = 0xf2;
    if ((pick >> 13) % 6 == 0) prefix[n++] = 0xf3;
    if ((pick >> 16) % 32 == 0) prefix[n++] = 0x67;
  }
  if ((pick >> 24) % 4 != 0) prefix[n++] = static_cast<uint8_t>(0x40 | (pick >> 28 & 15));
  const unsigned map = (pick >> 32) % 16;
  if (family_ == DiffOptions::Family::kVector || map >= 8) prefix[n++] = 0x0f;
  if (map == 14) prefix[n++] = 0x38;
  if (map == 15) prefix[n++] = 0x3a;
  if (family_ == DiffOptions::Family::kInteger && map == 7) {  // BMI
    bytes[0] = 0xc4;
    bytes[1] = static_cast<uint8_t>((bytes[1] & 0xe0) | (2 + (pick >> 40) % 2));
    bytes[2] &= 0xfb;
    bytes[3] = static_cast<uint8_t>(0xf0 | (bytes[3] & 7));
    return;
  }
  std::memmove(bytes + n, bytes, 16 - n);
  std::memcpy(bytes, prefix, n);
}

namespace {

bool MayRun(const ZydisDecodedInstruction& insn) {
  switch (insn.mnemonic) {
    // These change the tester itself, or wait.
    case ZYDIS_MNEMONIC_WRFSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_RDFSBASE:
    case ZYDIS_MNEMONIC_RDGSBASE:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_FLDCW:
    case ZYDIS_MNEMONIC_TPAUSE:
    case ZYDIS_MNEMONIC_UMWAIT:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_SERIALIZE:
      return false;
    default:
      return true;
  }
}

bool IsBranch(uint8_t op) {
  return (op >= BRINK_OP_JCC && op <= BRINK_OP_RET) || op == BRINK_OP_JRCXZ || op == BRINK_OP_LOOP || op == BRINK_OP_STOP;
}

}  // namespace

bool InsnSource::Accept(RandomInsn* insn) {
  const auto lifted = lifter_.One({insn->bytes, 15});
  if (!lifted || IsBranch(lifted->uop.op)) return false;
  const bool vector = lifted->uop.op >= BRINK_OP_VECTOR || (lifted->uop.op == BRINK_OP_CLOBBER && lifted->uop.aux);
  if (vector != (family_ != DiffOptions::Family::kInteger)) return false;
  // Pure effects are many encodings with little to compare; a tenth of them is kept.
  if (lifted->uop.op == BRINK_OP_CLOBBER && random_() % 10 != 0) return false;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, insn->bytes, 15, &insn->decoded, insn->operands))) return false;
  if (!MayRun(insn->decoded)) return false;
  if (insn->decoded.attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS)) return false;
  insn->lifted = *lifted;
  insn->memory = -1;
  for (int i = 0; i < insn->decoded.operand_count_visible; ++i) {
    const auto& op = insn->operands[i];
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (op.mem.base == ZYDIS_REGISTER_RIP || op.mem.base == ZYDIS_REGISTER_EIP) return false;  // the two run at different places
    if (op.mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;
    if (op.mem.type != ZYDIS_MEMOP_TYPE_MEM) return false;
    if (op.visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT) continue;
    if (op.mem.base == ZYDIS_REGISTER_NONE) return false;
    insn->memory = i;
  }
  return true;
}

RandomInsn InsnSource::Next() {
  RandomInsn insn;
  do {
    Draw(insn.bytes);
  } while (!Accept(&insn));
  return insn;
}

}  // namespace brink::walk_test
