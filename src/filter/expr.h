// The expression language of brink, as data: what --where, --if and policies mean after parsing.
//
// A tree of and, or, not over tests. Truth has three values: a test on a value that is not known is unknown; `not`
// keeps unknown; `and` is false if one side is false, `or` true if one side is true. An expression selects only what
// is true. Trees are immutable and shared; all functions here are pure and may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"
#include "base/status.h"
#include "filter/range_set.h"

namespace brink::filter {

enum class Field : uint8_t {
  // Of the sample.
  kPid, kTid, kCpu, kUid, kCgroup, kTime, kElapsed, kIp, kComm, kCgroupPath, kContainer, kPod,
  // Of each record.
  kFrom, kTo, kKind, kFromPriv, kToPriv, kCrossPriv, kMispredicted, kCycles, kInTx, kAbort, kSpec,
  kFromSymbol, kToSymbol, kFromObject, kToObject, kCrossFunction, kCrossObject,
  // Known to one command only (args.*, ret, ctx.*): Node::slot says which.
  kExternal,
};
inline constexpr size_t kFieldCount = static_cast<size_t>(Field::kExternal) + 1;

enum class ValueType : uint8_t { kNumber, kSigned, kAddress, kDuration, kBool, kKind, kPriv, kSpec, kText };

struct FieldInfo {
  Field field;
  const char* name;
  ValueType type;
  bool of_record;
  const char* help;  // one line for the documentation and `filter check --fields`
};
std::span<const FieldInfo> AllFields();
const FieldInfo& Info(Field field);

// Truth of a test or tree; the values are those of enum brink_filter_result.
enum class Truth : uint8_t { kFalse = 0, kTrue = 1, kUnknown = 2 };

// Yes/no fields: 1 no, 2 yes (as in brink/abi/filter.h).
inline constexpr uint64_t kNo = 1;
inline constexpr uint64_t kYes = 2;

struct Pattern {
  std::string text;
  bool glob = false;  // * and ? are wild
  bool operator==(const Pattern&) const = default;
};
bool Matches(const Pattern& pattern, std::string_view text);

struct Node;
using Expr = std::shared_ptr<const Node>;

struct Node {
  enum class Type : uint8_t { kConst, kAnd, kOr, kNot, kValues, kBits, kText, kIsUnknown };
  Type type = Type::kConst;
  Truth constant = Truth::kTrue;  // kConst
  std::vector<Expr> children;     // kAnd, kOr: two or more; kNot: one
  Field field = Field::kPid;      // tests
  uint8_t slot = 0;               // kExternal
  bool is_signed = false;         // kExternal: values are biased
  bool negated = false;           // kText, kBits: true where nothing matches
  RangeSet values;                // kValues
  uint64_t mask = 0, equals = 0;  // kBits: (value & mask) == equals
  std::vector<Pattern> patterns;  // kText: any of
  std::string name;               // kExternal: as written
};

Expr Constant(Truth truth);
Expr And(std::vector<Expr> children);
Expr Or(std::vector<Expr> children);
Expr Not(Expr child);
Expr ValuesTest(Field field, RangeSet values);
Expr IsUnknown(Field field);
inline Expr KindTest(uint64_t mask) { return ValuesTest(Field::kKind, RangeSet::OfMask(mask)); }

// Pushes `not` into the tests, flattens and/or, merges tests of one field: same truth for every input.
Expr Simplify(const Expr& expr);
// The conjuncts of a simplified tree (one element if it is not an `and`).
std::vector<Expr> Conjuncts(const Expr& expr);

// Canonical text; parsing it again gives the same truth.
std::string ToString(const Expr& expr);

bool ReadsRecord(const Expr& expr);
bool ReadsField(const Expr& expr, Field field);
bool ReadsSample(const Expr& expr);
// Whether the sample's cgroup must be named: its path, its container or its pod.
bool ReadsCgroupNames(const Expr& expr);

// Whether some input makes the tree true. Exact for trees of moderate size; "true" where deciding would take too long.
bool Satisfiable(const Expr& expr);
// Why nothing can match, in words ("kind in {ret} and kind in {call} exclude each other"); empty if unknown.
std::string ExplainContradiction(const Expr& expr);
// True for every input whose fields are all known.
bool Tautology(const Expr& expr);

// Values that `field` can have in an input that makes the tree true; whether it may be unknown then.
struct Projection {
  RangeSet values;
  bool may_be_unknown = false;
};
Projection Project(const Expr& expr, Field field);

}  // namespace brink::filter
