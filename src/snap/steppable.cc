#include "snap/steppable.h"

#include <algorithm>

#include "decode/flow.h"

namespace brink::snap {
namespace {

#if defined(__x86_64__)

// Bytes of prefix and escape, the opcode's map (1: 0f, 2: 0f 38, 3: 0f 3a, 5, 6: of AVX512-FP16). 0: no such prefix.
struct VectorPrefix {
  size_t bytes = 0;
  unsigned map = 1;
};

VectorPrefix PrefixOf(std::span<const uint8_t> code) {
  if (code.size() >= 3 && code[0] == 0xc5) return {2, 1};
  if (code.size() >= 4 && code[0] == 0xc4) return {3, code[1] & 31u};
  if (code.size() >= 5 && code[0] == 0x62) return {4, code[1] & 7u};
  return {};
}

// What the kernel looks for: push, conditional jumps, nop, far call, popf, returns, far jump, call, jumps.
bool LooksLikeAnother(uint8_t opcode) {
  constexpr uint8_t kOthers[] = {0x90, 0x9a, 0x9d, 0xc2, 0xc3, 0xca, 0xcb, 0xe8, 0xe9, 0xea, 0xeb};
  return (opcode >= 0x50 && opcode <= 0x57) || (opcode >= 0x70 && opcode <= 0x7f) || std::find(std::begin(kOthers), std::end(kOthers), opcode) != std::end(kOthers);
}

// Bytes of ModRM, SIB and displacement.
size_t OperandBytes(std::span<const uint8_t> code) {
  if (code.empty()) return 1;
  const unsigned mod = code[0] >> 6, rm = code[0] & 7;
  if (mod == 3) return 1;
  size_t bytes = 1;
  bool no_base = mod == 0 && rm == 5;
  if (rm == 4) {
    ++bytes;
    no_base = mod == 0 && code.size() > 1 && (code[1] & 7) == 5;
  }
  return bytes + (mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0);
}

bool HasImmediate(unsigned map, uint8_t opcode) { return map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2)); }

#endif

}  // namespace

size_t MangledByUprobe(std::span<const uint8_t> code) {
#if defined(__x86_64__)
  const VectorPrefix prefix = PrefixOf(code);
  if (prefix.bytes == 0) return 0;
  const uint8_t opcode = code[prefix.bytes];
  if (!LooksLikeAnother(opcode)) return 0;
  size_t length = prefix.bytes + 1;
  const bool alone = prefix.map == 1 && opcode == 0x77;  // vzeroupper
  if (!alone) length += OperandBytes(code.subspan(length));
  return length + (HasImmediate(prefix.map, opcode) ? 1 : 0);
#else
  (void)code;
  return 0;
#endif
}

std::optional<Inside> InsideInstruction(std::span<const uint8_t> code, uint64_t offset) {
#if defined(__x86_64__)
  for (uint64_t at = 0; at < offset;) {
    if (at >= code.size()) return std::nullopt;
    auto insn = decode::Decode(code.subspan(at, std::min<size_t>(decode::kMaxInsnBytes, code.size() - at)), at);
    if (!insn || insn->length == 0) return std::nullopt;
    if (at + insn->length > offset) return Inside{.before = at, .after = at + insn->length};
    at += insn->length;
  }
  return std::nullopt;
#else
  (void)code;
  if (offset % 4 == 0) return std::nullopt;
  return Inside{.before = offset & ~uint64_t{3}, .after = (offset & ~uint64_t{3}) + 4};
#endif
}

}  // namespace brink::snap
