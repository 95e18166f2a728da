// Canonical text of an expression.
#include <absl/strings/str_format.h>

#include "filter/expr.h"
#include "filter/names.h"

namespace brink::filter {
namespace {

std::string Number(const Node& node, uint64_t value) {
  if (node.is_signed) return absl::StrFormat("%d", FromBiased(value));
  switch (Info(node.field).type) {
    case ValueType::kAddress:
      return absl::StrFormat("0x%x", value);
    case ValueType::kDuration:
      return absl::StrFormat("%dns", value);
    default:
      return absl::StrFormat("%d", value);
  }
}

std::string Name(const Node& node) { return node.field == Field::kExternal ? node.name : Info(node.field).name; }

std::string EnumSet(ValueType type, uint64_t mask) {
  std::string out;
  int count = 0;
  for (uint64_t i = 1; i < 16; ++i) {
    if (!(mask >> i & 1) || ValueName(type, i) == "?") continue;
    out += (count++ ? ", " : "") + std::string(ValueName(type, i));
  }
  return "in {" + out + "}";
}

std::string ValuesText(const Node& node) {
  ValueType type = Info(node.field).type;
  std::string name = Name(node);
  if (type == ValueType::kBool) {
    uint64_t mask = node.values.Mask() & 6;
    if (mask == 1u << kYes) return name;
    if (mask == 1u << kNo) return "not " + name;
    return name + " in {" + (mask ? "true, false" : "") + "}";
  }
  if (type == ValueType::kKind || type == ValueType::kPriv || type == ValueType::kSpec) {
    return name + " " + EnumSet(type, node.values.Mask());
  }
  const auto& ranges = node.values.ranges();
  const uint64_t top = UINT64_MAX;
  if (ranges.size() == 1) {
    const Range& r = ranges[0];
    if (r.lo == r.hi) return name + " == " + Number(node, r.lo);
    if (r.lo == 0 && r.hi != top) return name + " <= " + Number(node, r.hi);
    if (r.hi == top && r.lo != 0) return name + " >= " + Number(node, r.lo);
  }
  if (ranges.size() == 2 && ranges[0].lo == 0 && ranges[1].hi == top && ranges[0].hi + 2 == ranges[1].lo) {
    return name + " != " + Number(node, ranges[0].hi + 1);
  }
  std::string out;
  for (const Range& r : ranges) {
    if (!out.empty()) out += ", ";
    if (r.lo == r.hi) {
      out += Number(node, r.lo);
    } else {
      out += (r.lo == 0 && node.is_signed ? "" : Number(node, r.lo)) + ".." + (r.hi == top ? "" : Number(node, r.hi));
    }
  }
  return name + " in {" + out + "}";
}

std::string TextTest(const Node& node) {
  std::string name = node.field == Field::kCgroupPath ? "cgroup" : Name(node);
  std::string out;
  bool glob = false;
  for (const Pattern& p : node.patterns) {
    std::string quoted = "\"";
    for (char c : p.text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    out += (out.empty() ? "" : ", ") + quoted + "\"";
    glob |= p.glob;
  }
  if (node.patterns.size() == 1) return name + (node.negated ? (glob ? " !~ " : " != ") : (glob ? " ~ " : " == ")) + out;
  return name + (glob ? (node.negated ? " !~ {" : " ~ {") : node.negated ? " not in {" : " in {") + out + "}";
}

}  // namespace

std::string ToString(const Expr& expr) {
  switch (expr->type) {
    case Node::Type::kConst:
      return expr->constant == Truth::kTrue ? "true" : expr->constant == Truth::kFalse ? "false" : "unknown";
    case Node::Type::kNot:
      return "not (" + ToString(expr->children[0]) + ")";
    case Node::Type::kAnd:
    case Node::Type::kOr: {
      std::string out;
      for (const Expr& child : expr->children) {
        bool brackets = child->type == Node::Type::kOr || child->type == Node::Type::kAnd;
        if (!out.empty()) out += expr->type == Node::Type::kAnd ? " and " : " or ";
        out += brackets ? "(" + ToString(child) + ")" : ToString(child);
      }
      return out;
    }
    case Node::Type::kValues:
      return ValuesText(*expr);
    case Node::Type::kBits: {
      std::string test = absl::StrFormat("%s & 0x%x == 0x%x", Name(*expr), expr->mask, expr->equals);
      return expr->negated ? "not (" + test + ")" : test;
    }
    case Node::Type::kText:
      return TextTest(*expr);
    case Node::Type::kIsUnknown:
      return Name(*expr) + (expr->negated ? " is not unknown" : " is unknown");
  }
  return "";
}

}  // namespace brink::filter
