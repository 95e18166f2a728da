#include "walk/stack_check.h"

#include <cstring>
#include <optional>

#include <Zydis/Zydis.h>
#include <absl/strings/str_format.h>

namespace brink::testing_support {
namespace {

constexpr size_t kLongestRange = 1 << 16;
constexpr size_t kMaxComplaints = 10;

struct Decoded {
  uint8_t length = 0;
  Kind kind = Kind::kUnknown;  // unknown: no branch
  uint64_t target = 0;         // direct branches
  std::string text;
};

uint64_t Displaced(uint64_t address, uint32_t word, int low, int bits) {
  const auto field = static_cast<int64_t>(uint64_t{word >> low} << (64 - bits)) >> (64 - bits);
  return address + static_cast<uint64_t>(field * 4);
}

// A64: branches by their words, as the architecture's manual has them.
std::optional<Decoded> A64At(const std::string& code, uint64_t address) {
  uint32_t word;
  if (code.size() < sizeof word) return std::nullopt;
  std::memcpy(&word, code.data(), sizeof word);
  Decoded decoded{.length = sizeof word, .text = absl::StrFormat("%08x", word)};
  if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
    decoded.kind = Kind::kCond;
    decoded.target = Displaced(address, word, 5, 19);
  } else if ((word & 0x7e000000) == 0x36000000) {
    decoded.kind = Kind::kCond;
    decoded.target = Displaced(address, word, 5, 14);
  } else if ((word & 0x7c000000) == 0x14000000) {
    decoded.kind = word >> 31 ? Kind::kCall : Kind::kJump;
    decoded.target = Displaced(address, word, 0, 26);
  } else if ((word & 0xfe800000) == 0xd6000000) {
    constexpr Kind kKinds[] = {Kind::kIndJump, Kind::kIndCall, Kind::kRet, Kind::kUnknown};
    decoded.kind = kKinds[word >> 21 & 3];
  } else if ((word & 0xffe0001f) == 0xd4000001) {
    decoded.kind = Kind::kSyscall;
  }
  return decoded;
}

class X86Decoder {
 public:
  X86Decoder() { ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64); }

  std::optional<Decoded> At(const std::string& code, uint64_t address) const {
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, code.data(), code.size(), &insn, operands))) return std::nullopt;
    Decoded decoded{.length = insn.length, .text = ZydisMnemonicGetString(insn.mnemonic)};
    bool direct = insn.operand_count > 0 && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operands[0].imm.is_relative;
    switch (insn.meta.category) {
      case ZYDIS_CATEGORY_COND_BR: decoded.kind = Kind::kCond; break;
      case ZYDIS_CATEGORY_UNCOND_BR: decoded.kind = direct ? Kind::kJump : Kind::kIndJump; break;
      case ZYDIS_CATEGORY_CALL: decoded.kind = direct ? Kind::kCall : Kind::kIndCall; break;
      case ZYDIS_CATEGORY_RET: decoded.kind = Kind::kRet; break;
      case ZYDIS_CATEGORY_SYSCALL: decoded.kind = Kind::kSyscall; break;
      default: break;
    }
    if (direct) {
      ZyanU64 target = 0;
      ZydisCalcAbsoluteAddress(&insn, &operands[0], address, &target);
      decoded.target = target;
    }
    return decoded;
  }

 private:
  ZydisDecoder decoder_;
};

class Checker {
 public:
  Checker(Text text, const CodeAt& code, StackVerdict* verdict) : text_(text), code_(code), verdict_(*verdict) {}

  void Record(const BranchEntry& entry) {
    ++verdict_.entries;
    std::string code = code_(entry.from, 15);
    if (code.empty()) return Unreadable();
    auto insn = At(code, entry.from);
    if (!insn || insn->kind == Kind::kUnknown) {
      return Complain("%#x is no branch (%s)", entry.from, insn ? insn->text : "?");
    }
    if (insn->kind != entry.kind()) {
      return Complain("%#x: recorded as %s, is %s", entry.from, KindName(entry.kind()), KindName(insn->kind));
    }
    if (insn->target && insn->target != entry.to) {
      return Complain("%#x leads to %#x, recorded %#x", entry.from, insn->target, entry.to);
    }
  }

  // From `begin` straight on to the branch at `end`.
  void Range(uint64_t begin, uint64_t end) {
    ++verdict_.ranges;
    if (begin > end || end - begin > kLongestRange) return Complain("%#x..%#x is no straight piece", begin, end);
    std::string code = code_(begin, end - begin + 15);
    if (code.size() <= end - begin) return Unreadable();
    for (uint64_t at = begin; at != end;) {
      auto insn = At(code.substr(at - begin, 15), at);
      if (!insn) return Complain("%#x cannot be decoded (range %#x..%#x)", at, begin, end);
      if (insn->kind != Kind::kUnknown && insn->kind != Kind::kCond) {
        return Complain("%#x (%s) leaves the range %#x..%#x", at, insn->text, begin, end);
      }
      at += insn->length;
      if (at > end) return Complain("%#x is not at an instruction's start (range from %#x)", end, begin);
    }
  }

 private:
  std::optional<Decoded> At(const std::string& code, uint64_t address) const { return text_ == Text::kA64 ? A64At(code, address) : x86_.At(code, address); }
  void Unreadable() { ++verdict_.unreadable; }

  template <typename... Args>
  void Complain(const absl::FormatSpec<Args...>& format, const Args&... args) {
    ++verdict_.wrong;
    if (verdict_.complaints.size() < kMaxComplaints) verdict_.complaints.push_back(absl::StrFormat(format, args...));
  }

  const Text text_;
  const CodeAt& code_;
  StackVerdict& verdict_;
  X86Decoder x86_;
};

}  // namespace

void CheckStack(std::span<const BranchEntry> newest_first, uint64_t start, const CodeAt& code, StackVerdict* verdict, Text text) {
  Checker checker(text, code, verdict);
  ++verdict->stacks;
  for (size_t i = newest_first.size(); i-- > 0;) {
    const BranchEntry& entry = newest_first[i];
    uint64_t begin = i + 1 < newest_first.size() ? newest_first[i + 1].to : start;
    if (begin) checker.Range(begin, entry.from);
    checker.Record(entry);
  }
}

}  // namespace brink::testing_support
