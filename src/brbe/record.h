// One branch record of BRBE: BRBINF, BRBSRC and BRBTGT as a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"

namespace brink::brbe {

enum class Valid : uint8_t { kInvalid = 0, kTargetOnly = 1, kSourceOnly = 2, kComplete = 3 };

// BRBINF.TYPE. Bit 5 marks exceptions.
enum Type : uint8_t {
  kDirect = 0x00, kIndirect = 0x01, kDirectCall = 0x02, kIndirectCall = 0x03, kReturn = 0x05, kExceptionReturn = 0x07,
  kConditional = 0x08, kDebugHalt = 0x21, kCall = 0x22, kTrap = 0x23, kSError = 0x24, kInstDebug = 0x26, kDataDebug = 0x27,
  kAlignment = 0x2a, kInstFault = 0x2b, kDataFault = 0x2c, kIrq = 0x2e, kFiq = 0x2f, kImpdefEl3 = 0x30, kDebugExit = 0x39,
};
bool IsException(uint8_t type);      // TYPE[5]
std::string_view TypeName(uint8_t type);  // "" for reserved encodings
Kind KindOfType(uint8_t type);       // brink's kind; unknown for reserved and debug types
// TYPE that stands for a kind of another machine's stream; nullopt where BRBE has none (tx_abort, unknown).
std::optional<uint8_t> TypeOfKind(Kind kind);

struct Record {
  Valid valid = Valid::kInvalid;
  uint8_t type = 0;  // six bits
  uint8_t el = 0;    // of the target
  bool mpred = false;
  bool ccu = false;
  uint16_t cc = 0;  // exponent << 8 | mantissa, 14 bits
  bool transaction = false;
  bool last_failed = false;
  uint64_t reserved = 0;  // bits of BRBINF outside all fields
  uint64_t source = 0;
  uint64_t target = 0;
  bool operator==(const Record&) const = default;
};

// Exact inverses of each other, reserved bits included.
Record DecodeRecord(uint64_t inf, uint64_t src, uint64_t tgt);
uint64_t EncodeInf(const Record& record);

// What is impossible or reserved about a record, in words; empty for a sound one.
struct RecordRules {
  bool v1p1 = true;  // EL3 can be recorded
  bool tme = true;   // T and LASTFAILED exist
};
std::vector<std::string> RecordProblems(const Record& record, const RecordRules& rules);

// The cycle count of a record.
struct Cycles {
  enum class State : uint8_t { kKnown, kUnknown, kOverflow, kReserved } state = State::kUnknown;
  uint64_t value = 0;  // kKnown: the count, rounded down to a multiple of `step`
  uint64_t step = 1;
};
Cycles CycleCount(const Record& record);
Cycles DecodeCc(uint16_t cc);
// Rounds down; counts of 2^20 and more give the overflow code 0x3FFF.
uint16_t EncodeCc(uint64_t cycles);

// One line: "0 complete cond EL0 0x401000 -> 0x401020 mispredicted 12 cycles".
std::string RecordText(const Record& record, size_t index);

}  // namespace brink::brbe
