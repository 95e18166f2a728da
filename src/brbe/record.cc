#include "brbe/record.h"

#include <bit>

#include <absl/strings/str_format.h>

#include "brbe/registers.h"

namespace brink::brbe {
namespace {

struct TypeRow {
  uint8_t type;
  const char* name;
  Kind kind;
};

constexpr TypeRow kTypes[] = {
    {kDirect, "direct", Kind::kJump},          {kIndirect, "indirect", Kind::kIndJump},
    {kDirectCall, "direct call", Kind::kCall}, {kIndirectCall, "indirect call", Kind::kIndCall},
    {kReturn, "return", Kind::kRet},           {kExceptionReturn, "exception return", Kind::kEret},
    {kConditional, "conditional", Kind::kCond}, {kDebugHalt, "debug halt", Kind::kUnknown},
    {kCall, "call exception", Kind::kSyscall}, {kTrap, "trap", Kind::kIrq},
    {kSError, "SError", Kind::kIrq},           {kInstDebug, "instruction debug", Kind::kUnknown},
    {kDataDebug, "data debug", Kind::kUnknown}, {kAlignment, "alignment fault", Kind::kIrq},
    {kInstFault, "instruction fault", Kind::kIrq}, {kDataFault, "data fault", Kind::kIrq},
    {kIrq, "IRQ", Kind::kIrq},                 {kFiq, "FIQ", Kind::kIrq},
    {kImpdefEl3, "implementation defined exception to EL3", Kind::kUnknown}, {kDebugExit, "debug state exit", Kind::kUnknown}};

constexpr uint16_t kCcOverflow = 0x3fff;
constexpr unsigned kMaxExponent = 12;  // of a 20-bit counter
constexpr uint64_t kInfFields = uint64_t{1} << 46 | uint64_t{0x3fff} << 32 | 3u << 16 | 0x3fu << 8 | 3u << 6 | 1u << 5 | 3u;

const TypeRow* Row(uint8_t type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

bool IsException(uint8_t type) { return type >> 5 & 1; }

std::string_view TypeName(uint8_t type) {
  const TypeRow* row = Row(type);
  return row ? row->name : "";
}

Kind KindOfType(uint8_t type) {
  const TypeRow* row = Row(type);
  return row ? row->kind : Kind::kUnknown;
}

std::optional<uint8_t> TypeOfKind(Kind kind) {
  switch (kind) {
    case Kind::kCond: return kConditional;
    case Kind::kJump: return kDirect;
    case Kind::kIndJump: return kIndirect;
    case Kind::kCall: return kDirectCall;
    case Kind::kIndCall: return kIndirectCall;
    case Kind::kRet: return kReturn;
    case Kind::kSyscall: return kCall;
    case Kind::kSysret:
    case Kind::kEret: return kExceptionReturn;
    case Kind::kIrq: return kIrq;
    default: return std::nullopt;
  }
}

Record DecodeRecord(uint64_t inf, uint64_t src, uint64_t tgt) {
  Record r;
  r.valid = static_cast<Valid>(inf & 3);
  r.mpred = inf >> 5 & 1;
  r.el = inf >> 6 & 3;
  r.type = inf >> 8 & 0x3f;
  r.transaction = inf >> 16 & 1;
  r.last_failed = inf >> 17 & 1;
  r.cc = inf >> 32 & 0x3fff;
  r.ccu = inf >> 46 & 1;
  r.reserved = inf & ~kInfFields;
  r.source = src;
  r.target = tgt;
  return r;
}

uint64_t EncodeInf(const Record& r) {
  return r.reserved | static_cast<uint64_t>(r.valid) | uint64_t{r.mpred} << 5 | uint64_t{r.el} << 6 | uint64_t{r.type} << 8 |
         uint64_t{r.transaction} << 16 | uint64_t{r.last_failed} << 17 | uint64_t{r.cc} << 32 | uint64_t{r.ccu} << 46;
}

std::vector<std::string> RecordProblems(const Record& r, const RecordRules& rules) {
  std::vector<std::string> problems;
  auto add = [&](std::string text) { problems.push_back(std::move(text)); };
  if (r.valid == Valid::kInvalid) return problems;  // nothing of it counts
  if (r.reserved) add(absl::StrFormat("reserved bits of BRBINF are set: 0x%x", r.reserved));
  if (TypeName(r.type).empty()) add(absl::StrFormat("TYPE 0x%02x is reserved", r.type));
  if (r.mpred && IsException(r.type)) add("MPRED is set on an exception, where it is RES0");
  if (r.mpred && r.valid == Valid::kTargetOnly) add("MPRED is set on a target-only record, where it is not valid");
  if (!r.ccu && CycleCount(r).state == Cycles::State::kReserved) add(absl::StrFormat("cycle count exponent %d is impossible with a 20-bit counter", r.cc >> 8));
  if (r.valid != Valid::kSourceOnly && r.el == 3 && !rules.v1p1) add("EL3 is recorded with FEAT_BRBEv1p1 only");
  if ((r.transaction || r.last_failed) && !rules.tme) add("T or LASTFAILED is set without FEAT_TME");
  return problems;
}

Cycles DecodeCc(uint16_t cc) {
  if (cc == kCcOverflow) return {Cycles::State::kOverflow, 0, 1};
  const unsigned exponent = cc >> 8 & 0x3f;
  const uint64_t mantissa = cc & 0xff;
  if (exponent > kMaxExponent) return {Cycles::State::kReserved, 0, 1};
  if (exponent == 0) return {Cycles::State::kKnown, mantissa, 1};
  return {Cycles::State::kKnown, (256 + mantissa) << (exponent - 1), uint64_t{1} << (exponent - 1)};
}

Cycles CycleCount(const Record& record) { return record.ccu ? Cycles{} : DecodeCc(record.cc); }

uint16_t EncodeCc(uint64_t cycles) {
  if (cycles >> 20) return kCcOverflow;
  if (cycles < 256) return static_cast<uint16_t>(cycles);
  const int exponent = std::bit_width(cycles) - 8;
  return static_cast<uint16_t>(exponent << 8 | (cycles >> (exponent - 1) & 0xff));
}

std::string RecordText(const Record& r, size_t index) {
  if (r.valid == Valid::kInvalid) return absl::StrFormat("%2d invalid", index);
  constexpr const char* kHalves[] = {"", "target only", "source only", "complete"};
  std::string type(TypeName(r.type));
  if (type.empty()) type = absl::StrFormat("reserved type 0x%02x", r.type);
  std::string out = absl::StrFormat("%2d %-11s %-17s", index, kHalves[static_cast<int>(r.valid)], type);
  out += r.valid == Valid::kTargetOnly ? " ?" : absl::StrFormat(" 0x%x", r.source);
  out += r.valid == Valid::kSourceOnly ? " -> ?" : absl::StrFormat(" -> 0x%x EL%d", r.target, r.el);
  if (r.valid != Valid::kTargetOnly && !IsException(r.type)) out += r.mpred ? " mispredicted" : " predicted-or-not-captured";
  const Cycles cycles = CycleCount(r);
  switch (cycles.state) {
    case Cycles::State::kKnown:
      absl::StrAppendFormat(&out, " %d cycles", cycles.value);
      if (cycles.step > 1) absl::StrAppendFormat(&out, " (+%d)", cycles.step - 1);
      break;
    case Cycles::State::kUnknown: out += " cycles unknown"; break;
    case Cycles::State::kOverflow: out += " cycles overflowed"; break;
    case Cycles::State::kReserved: out += " cycles reserved"; break;
  }
  if (r.transaction) out += " in transaction";
  if (r.last_failed) out += " after a failed transaction";
  return out;
}

}  // namespace brink::brbe
