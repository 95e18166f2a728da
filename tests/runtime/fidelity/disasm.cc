#include "disasm.h"

#include <cstring>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#ifdef __aarch64__
#include "a64/encoding.h"
#else
#include <Zydis/Zydis.h>
#endif

namespace brink::fidelity {

#ifdef __aarch64__

// Class and word: who looks at a wrong walk has a disassembler at hand.
std::string DisassembleAt(uint64_t ip, decode::Memory& memory) {
  uint32_t word = 0;
  if (memory.Read(ip, &word, sizeof word) != sizeof word) return absl::StrFormat("%x (unreadable)", ip);
  return absl::StrFormat("%x %08x %s", ip, word, a64::NameOf(a64::FormOf(word)));
}

std::string MnemonicAt(uint64_t ip, decode::Memory& memory) {
  uint32_t word = 0;
  if (memory.Read(ip, &word, sizeof word) != sizeof word) return "?";
  return absl::StrFormat("%s %08x", a64::NameOf(a64::FormOf(word)), word & ~0x3ffu);
}

#else

namespace {

struct Decoded {
  ZydisDecodedInstruction insn;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  uint8_t bytes[decode::kMaxInsnBytes];
  size_t size = 0;
  bool ok = false;
};

Decoded DecodeAt(uint64_t ip, decode::Memory& memory) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  Decoded d;
  d.size = memory.Read(ip, d.bytes, sizeof d.bytes);
  d.ok = ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, d.bytes, d.size, &d.insn, d.operands));
  return d;
}

}  // namespace

std::string DisassembleAt(uint64_t ip, decode::Memory& memory) {
  Decoded d = DecodeAt(ip, memory);
  if (d.size == 0) return absl::StrFormat("%x (unreadable)", ip);
  size_t length = d.ok ? d.insn.length : d.size;
  std::string hex;
  for (size_t i = 0; i < length; ++i) absl::StrAppend(&hex, absl::Hex(d.bytes[i], absl::kZeroPad2), " ");
  if (!d.ok) return absl::StrFormat("%x %-33s (bad)", ip, hex);
  char text[128];
  ZydisFormatter formatter;
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
  ZydisFormatterFormatInstruction(&formatter, &d.insn, d.operands, d.insn.operand_count_visible, text, sizeof text, ip,
                                  nullptr);
  return absl::StrFormat("%x %-33s %s", ip, hex, text);
}

std::string MnemonicAt(uint64_t ip, decode::Memory& memory) {
  Decoded d = DecodeAt(ip, memory);
  return d.ok ? ZydisMnemonicGetString(d.insn.mnemonic) : "?";
}

#endif

}  // namespace brink::fidelity
