#include "filter/branch_flags.h"

#include <array>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "filter/names.h"

namespace brink::filter {
namespace {

struct Flag {
  const char* name;
  uint64_t bit;
  uint64_t kinds;
};

constexpr std::array<Flag, 20> kFlags = {{{"u", kBranchUser, 0},
                                          {"k", kBranchKernel, 0},
                                          {"hv", kBranchHv, 0},
                                          {"any", kBranchAny, kAllKinds},
                                          {"any_call", kBranchAnyCall, kAnyCall},
                                          {"any_ret", kBranchAnyReturn, kAnyReturn},
                                          {"ind_call", kBranchIndCall, KindBit(Kind::kIndCall)},
                                          {"abort_tx", kBranchAbortTx, KindBit(Kind::kTxAbort)},
                                          {"in_tx", kBranchInTx, 0},
                                          {"no_tx", kBranchNoTx, 0},
                                          {"cond", kBranchCond, KindBit(Kind::kCond)},
                                          {"stack", kBranchCallStack, KindBit(Kind::kCall) | KindBit(Kind::kIndCall) | KindBit(Kind::kRet)},
                                          {"ind_jmp", kBranchIndJump, KindBit(Kind::kIndJump)},
                                          {"call", kBranchCall, KindBit(Kind::kCall)},
                                          {"no_flags", kBranchNoFlags, 0},
                                          {"no_cycles", kBranchNoCycles, 0},
                                          {"save_type", kBranchTypeSave, 0},
                                          {"hw_index", kBranchHwIndex, 0},
                                          {"priv", kBranchPrivSave, 0},
                                          {"counter", kBranchCounters, 0}}};

Status UnknownFlag(std::string_view name, size_t column) {
  std::vector<std::string> names;
  for (const Flag& flag : kFlags) names.emplace_back(flag.name);
  std::string message = absl::StrFormat("-j: column %d: unknown branch filter '%s'", column, EscapeForTerminal(name));
  if (name.find(' ') != std::string_view::npos) return InvalidArgument(message + "; behind -j stand perf's words only: give the expression as another one, both are ANDed");
  if (name == "jmp" || name == "jump" || name == "uncond") {
    return InvalidArgument(message + "; perf has no flag for direct jumps: use --where 'kind == jump'");
  }
  if (name == "mispred" || name == "mispredicted") {
    return InvalidArgument(message + "; no hardware filters on misprediction: use --where mispredicted");
  }
  auto nearest = NearestNames(name, names, 2);
  if (!nearest.empty()) message += "; did you mean " + nearest[0] + (nearest.size() > 1 ? " or " + nearest[1] : "") + "?";
  return InvalidArgument(message);
}

}  // namespace

StatusOr<uint64_t> ParseBranchFlags(std::string_view list) {
  uint64_t bits = 0;
  size_t column = 1;
  for (std::string_view piece : Split(list, ',')) {
    std::string_view name = Trim(piece);
    bool found = false;
    for (const Flag& flag : kFlags) {
      if (name == flag.name || (name == "any_return" && flag.bit == kBranchAnyReturn) || (name == "ind_jump" && flag.bit == kBranchIndJump)) {
        bits |= flag.bit;
        found = true;
        break;
      }
    }
    if (!found) return UnknownFlag(name, column);
    column += piece.size() + 1;
  }
  if (!(bits & (kBranchKindMask | kBranchInTx | kBranchNoTx))) bits |= kBranchAny;
  return bits;
}

std::string BranchFlagNames(uint64_t bits) {
  std::string out;
  for (const Flag& flag : kFlags) {
    if (!(bits & flag.bit)) continue;
    if (!out.empty()) out += ',';
    out += flag.name;
  }
  return out;
}

uint64_t KindsOfFlags(uint64_t bits) {
  uint64_t kinds = 0;
  for (const Flag& flag : kFlags) {
    if (bits & flag.bit) kinds |= flag.kinds;
  }
  return kinds;
}

Expr ExprOfFlags(uint64_t bits) {
  std::vector<Expr> parts;
  // ANY takes records of unknown kind too: no test at all.
  if (bits & kBranchKindMask && !(bits & kBranchAny)) parts.push_back(KindTest(KindsOfFlags(bits)));
  uint64_t priv = bits & kBranchPrivMask;
  // u and k together are everything a sampled task executes: no test, so that stacks stay contiguous.
  const bool both = (priv & (kBranchUser | kBranchKernel)) == (kBranchUser | kBranchKernel);
  if (priv && !both) parts.push_back(ValuesTest(Field::kToPriv, RangeSet::OfMask(priv << 1)));
  if (bits & kBranchInTx && !(bits & kBranchNoTx)) parts.push_back(ValuesTest(Field::kInTx, RangeSet::Of(kYes)));
  if (bits & kBranchNoTx && !(bits & kBranchInTx)) parts.push_back(ValuesTest(Field::kInTx, RangeSet::Of(kNo)));
  if (parts.empty()) return Constant(Truth::kTrue);
  return And(std::move(parts));
}

}  // namespace brink::filter
