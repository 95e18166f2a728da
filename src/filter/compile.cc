#include "filter/compile.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "filter/names.h"

namespace brink::filter {
namespace {

using Ops = std::vector<brink_filter_op>;

struct FieldCode {
  Field field;
  uint8_t code;
};
constexpr FieldCode kCodes[] = {
    {Field::kPid, BRINK_FF_PID},           {Field::kTid, BRINK_FF_TID},       {Field::kCpu, BRINK_FF_CPU},
    {Field::kUid, BRINK_FF_UID},           {Field::kCgroup, BRINK_FF_CGROUP}, {Field::kTime, BRINK_FF_TIME},
    {Field::kIp, BRINK_FF_IP},             {Field::kComm, BRINK_FF_COMM},     {Field::kFrom, BRINK_FF_FROM},
    {Field::kTo, BRINK_FF_TO},             {Field::kKind, BRINK_FF_KIND},     {Field::kFromPriv, BRINK_FF_FROM_PRIV},
    {Field::kToPriv, BRINK_FF_TO_PRIV},    {Field::kCrossPriv, BRINK_FF_CROSSING},
    {Field::kMispredicted, BRINK_FF_MISPREDICTED}, {Field::kCycles, BRINK_FF_CYCLES},
    {Field::kInTx, BRINK_FF_IN_TX},        {Field::kAbort, BRINK_FF_ABORT},   {Field::kSpec, BRINK_FF_SPEC}};

std::optional<uint8_t> CodeOf(const Node& node) {
  if (node.field == Field::kExternal) return static_cast<uint8_t>(BRINK_FF_EXT + node.slot);
  for (const FieldCode& c : kCodes) {
    if (c.field == node.field) return c.code;
  }
  return std::nullopt;
}

bool IsSmall(ValueType type) {
  return type == ValueType::kKind || type == ValueType::kPriv || type == ValueType::kSpec || type == ValueType::kBool;
}

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options) : options_(options) {}

  // False where there is no bytecode for it; `why` says what.
  bool Emit(const Expr& expr, Ops& ops, std::string& why) {
    switch (expr->type) {
      case Node::Type::kConst:
        ops.push_back({.code = BRINK_FOP_CONST, .a = static_cast<uint64_t>(expr->constant)});
        return true;
      case Node::Type::kNot:
        if (!Emit(expr->children[0], ops, why)) return false;
        ops.push_back({.code = BRINK_FOP_NOT});
        return true;
      case Node::Type::kAnd:
      case Node::Type::kOr:
        return EmitList(expr, ops, why);
      default:
        return EmitTest(*expr, ops, why);
    }
  }

 private:
  bool EmitList(const Expr& expr, Ops& ops, std::string& why) {
    const uint8_t code = expr->type == Node::Type::kAnd ? BRINK_FOP_AND : BRINK_FOP_OR;
    for (size_t i = 0; i < expr->children.size(); ++i) {
      if (!Emit(expr->children[i], ops, why)) return false;
      if (i > 0) ops.push_back({.code = code});
    }
    return true;
  }

  bool EmitTest(const Node& node, Ops& ops, std::string& why) {
    if (node.field == Field::kCgroupPath && options_.cgroup_id && node.type == Node::Type::kText) return EmitCgroup(node, ops, why);
    auto code = CodeOf(node);
    if (!code) {
      why = std::string(Info(node.field).name) + " is known in user space only";
      return false;
    }
    if (node.type == Node::Type::kIsUnknown) {
      ops.push_back({.code = BRINK_FOP_IS_UNKNOWN, .field = *code});
    } else if (node.type == Node::Type::kBits) {
      ops.push_back({.code = BRINK_FOP_BITS, .field = *code, .a = node.mask, .b = node.equals});
    } else if (node.type == Node::Type::kText) {
      return EmitComm(node, *code, ops, why);
    } else {
      EmitValues(node, *code, ops);
      return true;
    }
    if (node.negated) ops.push_back({.code = BRINK_FOP_NOT});
    return true;
  }

  void EmitValues(const Node& node, uint8_t code, Ops& ops) {
    const auto& ranges = node.values.ranges();
    const bool small = IsSmall(Info(node.field).type);
    if (small || (ranges.size() > 1 && !node.is_signed && ranges.back().hi < 64)) {
      // Bit 0 of a small field would be "not known", which no value has.
      ops.push_back({.code = BRINK_FOP_SET, .field = code, .a = node.values.Mask() & (small ? ~uint64_t{1} : ~uint64_t{0})});
      return;
    }
    if (ranges.empty()) {
      ops.push_back({.code = BRINK_FOP_RANGE, .field = code, .a = 1, .b = 0});
      return;
    }
    // The side with fewer ranges is tested: `!= 5` is one range negated.
    const RangeSet complement = node.values.Complement();
    const bool invert = !complement.empty() && complement.ranges().size() < ranges.size();
    const auto& tested = invert ? complement.ranges() : ranges;
    for (size_t i = 0; i < tested.size(); ++i) {
      ops.push_back(RangeOp(node, code, tested[i]));
      if (i > 0) ops.push_back({.code = BRINK_FOP_OR});
    }
    if (invert) ops.push_back({.code = BRINK_FOP_NOT});
  }

  brink_filter_op RangeOp(const Node& node, uint8_t code, const Range& range) {
    if (!node.is_signed) return {.code = BRINK_FOP_RANGE, .field = code, .a = range.lo, .b = range.hi};
    return {.code = BRINK_FOP_SRANGE, .field = code, .a = static_cast<uint64_t>(FromBiased(range.lo)),
            .b = static_cast<uint64_t>(FromBiased(range.hi))};
  }

  bool EmitComm(const Node& node, uint8_t code, Ops& ops, std::string& why) {
    if (node.field != Field::kComm) {
      why = "text";
      return false;
    }
    for (size_t i = 0; i < node.patterns.size(); ++i) {
      std::string text = node.patterns[i].text;
      uint8_t length = BRINK_FILTER_COMM_LEN;
      if (node.patterns[i].glob) {
        // Only a prefix: "name*".
        if (text.empty() || text.back() != '*' || text.find_first_of("*?") != text.size() - 1 || text.size() < 2 || text.size() > 16) {
          why = "comm patterns other than PREFIX* are matched in user space";
          return false;
        }
        text.pop_back();
        length = static_cast<uint8_t>(text.size());
      }
      if (text.size() >= BRINK_FILTER_COMM_LEN) {
        why = "the kernel keeps 15 bytes of a comm";
        return false;
      }
      brink_filter_op op{.code = BRINK_FOP_COMM, .field = code, .length = length};
      char padded[BRINK_FILTER_COMM_LEN] = {};
      std::memcpy(padded, text.data(), text.size());
      std::memcpy(&op.a, padded, 8);
      std::memcpy(&op.b, padded + 8, 8);
      ops.push_back(op);
      if (i > 0) ops.push_back({.code = BRINK_FOP_OR});
    }
    if (node.negated) ops.push_back({.code = BRINK_FOP_NOT});
    return true;
  }

  bool EmitCgroup(const Node& node, Ops& ops, std::string& why) {
    for (size_t i = 0; i < node.patterns.size(); ++i) {
      auto id = node.patterns[i].glob ? std::nullopt : options_.cgroup_id(node.patterns[i].text);
      if (!id) {
        why = "no cgroup '" + node.patterns[i].text + "' exists now: matched by path in user space";
        return false;
      }
      ops.push_back({.code = BRINK_FOP_RANGE, .field = BRINK_FF_CGROUP, .a = *id, .b = *id});
      if (i > 0) ops.push_back({.code = BRINK_FOP_OR});
    }
    if (node.negated) ops.push_back({.code = BRINK_FOP_NOT});
    return true;
  }

  const CompileOptions& options_;
};

// The truth stack has 32 cells; a program within 32 operations cannot need more.
bool Append(brink_filter_op* program, uint32_t* count, const Ops& ops) {
  const uint32_t join = *count > 0 ? 1 : 0;
  if (*count + ops.size() + join > BRINK_FILTER_MAX_OPS) return false;
  for (const brink_filter_op& op : ops) program[(*count)++] = op;
  if (join) program[(*count)++] = {.code = BRINK_FOP_AND};
  return true;
}

void NoteFields(brink_filter_prog& prog, const Ops& ops) {
  for (const brink_filter_op& op : ops) {
    if (op.code == BRINK_FOP_CONST || op.code >= BRINK_FOP_NOT) continue;
    if (op.field < BRINK_FF_SAMPLE_MAX) prog.fields |= 1u << op.field;
    if (op.field >= BRINK_FF_EXT) prog.ext |= 1u << (op.field - BRINK_FF_EXT);
  }
}

const char* OpName(uint8_t code) {
  constexpr const char* kNames[] = {"const", "range", "srange", "set", "bits", "comm", "is_unknown", "not", "and", "or"};
  return code < BRINK_FOP_MAX ? kNames[code] : "?";
}

std::string FieldName(uint8_t code) {
  if (code >= BRINK_FF_EXT) return absl::StrFormat("ext%d", code - BRINK_FF_EXT);
  for (const FieldCode& c : kCodes) {
    if (c.code == code) return Info(c.field).name;
  }
  return "?";
}

void DisassembleOps(std::string& out, const char* title, const brink_filter_op* ops, uint32_t count) {
  if (count == 0) return;
  absl::StrAppendFormat(&out, "%s: %d of %d operations\n", title, count, BRINK_FILTER_MAX_OPS);
  for (uint32_t i = 0; i < count; ++i) {
    const brink_filter_op& op = ops[i];
    absl::StrAppendFormat(&out, "  %2d %s", i, OpName(op.code));
    if (op.code == BRINK_FOP_CONST) absl::StrAppendFormat(&out, " %d", op.a);
    if (op.code > BRINK_FOP_CONST && op.code < BRINK_FOP_NOT) absl::StrAppendFormat(&out, " %s", FieldName(op.field));
    if (op.code == BRINK_FOP_RANGE || op.code == BRINK_FOP_BITS) absl::StrAppendFormat(&out, " 0x%x 0x%x", op.a, op.b);
    if (op.code == BRINK_FOP_SRANGE) absl::StrAppendFormat(&out, " %d %d", static_cast<int64_t>(op.a), static_cast<int64_t>(op.b));
    if (op.code == BRINK_FOP_SET) absl::StrAppendFormat(&out, " 0x%x", op.a);
    if (op.code == BRINK_FOP_COMM) absl::StrAppendFormat(&out, " %d bytes", op.length);
    out += '\n';
  }
}

}  // namespace

Compiled Compile(const Expr& expr, const CompileOptions& options) {
  Compiled compiled;
  compiled.prog.version = BRINK_FILTER_VERSION;
  Compiler compiler(options);
  for (const Expr& part : Conjuncts(expr)) {
    const bool record = ReadsRecord(part);
    if (part->type == Node::Type::kValues && part->field == Field::kKind && compiled.prog.kinds == 0 && (part->values.Mask() & kAllKinds)) {
      compiled.prog.kinds = static_cast<uint32_t>(part->values.Mask() & kAllKinds);
      continue;
    }
    Ops ops;
    std::string why;
    bool fits = compiler.Emit(part, ops, why);
    if (fits && !Append(record ? compiled.prog.record : compiled.prog.sample, record ? &compiled.prog.record_ops : &compiled.prog.sample_ops, ops)) {
      fits = false;
      why = absl::StrFormat("it does not fit into %d operations", BRINK_FILTER_MAX_OPS);
    }
    if (fits) {
      NoteFields(compiled.prog, ops);
    } else {
      compiled.rest.push_back(part);
      compiled.reasons.push_back(why);
    }
  }
  return compiled;
}

std::string Disassemble(const brink_filter_prog& prog) {
  std::string out;
  if (prog.kinds) absl::StrAppendFormat(&out, "quick test: kind in {%s}\n", KindList(prog.kinds, ", "));
  DisassembleOps(out, "sample program", prog.sample, prog.sample_ops);
  DisassembleOps(out, "record program", prog.record, prog.record_ops);
  return out;
}

}  // namespace brink::filter
