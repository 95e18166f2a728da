#include "report/disasm.h"

#include <Zydis/Zydis.h>
#include <elf.h>

#include <cstring>

#include "a64/encoding.h"
#include "a64/text.h"
#include "decode/flow.h"

namespace brink::report {
namespace {

Kind KindOf(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  bool direct = instruction.operand_count > 0 && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_COND_BR: return Kind::kCond;
    case ZYDIS_CATEGORY_UNCOND_BR: return direct ? Kind::kJump : Kind::kIndJump;
    case ZYDIS_CATEGORY_CALL: return direct ? Kind::kCall : Kind::kIndCall;
    case ZYDIS_CATEGORY_RET:
      return instruction.mnemonic == ZYDIS_MNEMONIC_RET ? Kind::kRet : Kind::kEret;
    case ZYDIS_CATEGORY_SYSCALL: return Kind::kSyscall;
    case ZYDIS_CATEGORY_SYSRET: return Kind::kSysret;
    default: return Kind::kUnknown;
  }
}

constexpr size_t kA64Bytes = 4;

std::optional<Instruction> DecodeA64(std::string_view code, uint64_t address, bool with_text) {
  if (code.size() < kA64Bytes) return std::nullopt;
  auto insn = decode::DecodeA64({reinterpret_cast<const uint8_t*>(code.data()), code.size()}, address);
  if (!insn) return std::nullopt;
  Instruction out{.address = address, .length = insn->length};
  uint32_t word;
  std::memcpy(&word, code.data(), sizeof word);
  out.kind = decode::KindOf(insn->flow);
  if (a64::FormOf(word) == a64::Form::kExceptionReturn) out.kind = Kind::kEret;
  out.branch = out.kind != Kind::kUnknown;
  const bool direct = insn->flow == decode::Flow::kCond || insn->flow == decode::Flow::kJump || insn->flow == decode::Flow::kCall;
  if (direct) out.target = insn->target;
  if (with_text) out.text = a64::TextOf(word, address);
  return out;
}

}  // namespace

std::optional<Instruction> DecodeOne(std::string_view code, uint64_t address, uint16_t machine, bool with_text) {
  if (machine == EM_AARCH64) return DecodeA64(code, address, with_text);
  if (machine != EM_X86_64 && machine != EM_386) return std::nullopt;
  const bool wide = machine == EM_X86_64;
  static thread_local ZydisDecoder decoders[2];
  static thread_local ZydisFormatter formatter;
  static thread_local bool ready = false;
  if (!ready) {
    ZydisDecoderInit(&decoders[0], ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
    ZydisDecoderInit(&decoders[1], ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE, ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_IMM_PADDING, ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
    ready = true;
  }
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoders[wide], code.data(), code.size(), &decoded, operands))) {
    return std::nullopt;
  }
  Instruction instruction;
  instruction.address = address;
  instruction.length = decoded.length;
  instruction.kind = KindOf(decoded, operands);
  instruction.branch = instruction.kind != Kind::kUnknown;
  ZyanU64 target = 0;
  if (instruction.branch && decoded.operand_count > 0 && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
      ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&decoded, &operands[0], address, &target))) {
    instruction.target = target;
  }
  if (with_text) {
    char text[128];
    if (ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &decoded, operands, decoded.operand_count_visible, text, sizeof text, address, nullptr))) {
      instruction.text = text;
    }
  }
  return instruction;
}

std::vector<Instruction> Disassemble(std::string_view code, uint64_t address, uint16_t machine, bool with_text) {
  std::vector<Instruction> out;
  const bool a64 = machine == EM_AARCH64;
  if (!a64 && machine != EM_X86_64 && machine != EM_386) return out;
  for (size_t at = 0; at < code.size();) {
    auto instruction = DecodeOne(code.substr(at), address + at, machine, with_text);
    if (!instruction) {
      instruction = Instruction{.address = address + at, .length = static_cast<uint8_t>(a64 ? std::min(kA64Bytes, code.size() - at) : 1)};
      instruction->text = "(bad)";
    }
    at += instruction->length;
    out.push_back(*std::move(instruction));
  }
  return out;
}

}  // namespace brink::report
