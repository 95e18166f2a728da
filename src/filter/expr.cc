#include "filter/expr.h"

#include <algorithm>

namespace brink::filter {
namespace {

std::shared_ptr<Node> Make(Node::Type type) {
  auto node = std::make_shared<Node>();
  node->type = type;
  return node;
}

bool SameTest(const Node& a, const Node& b) { return a.field == b.field && a.slot == b.slot; }

// Truth of `child` inverted, with `not` pushed down to the tests.
Expr Negate(const Expr& child);

Expr PushNot(const Expr& expr) {
  switch (expr->type) {
    case Node::Type::kNot:
      return Negate(expr->children[0]);
    case Node::Type::kAnd:
    case Node::Type::kOr: {
      std::vector<Expr> children;
      for (const Expr& c : expr->children) children.push_back(PushNot(c));
      return expr->type == Node::Type::kAnd ? And(std::move(children)) : Or(std::move(children));
    }
    default:
      return expr;
  }
}

Expr Negate(const Expr& expr) {
  auto copy = std::make_shared<Node>(*expr);
  switch (expr->type) {
    case Node::Type::kConst:
      return Constant(expr->constant == Truth::kTrue ? Truth::kFalse : expr->constant == Truth::kFalse ? Truth::kTrue : Truth::kUnknown);
    case Node::Type::kNot:
      return PushNot(expr->children[0]);
    case Node::Type::kAnd:
    case Node::Type::kOr: {
      std::vector<Expr> children;
      for (const Expr& c : expr->children) children.push_back(Negate(c));
      return expr->type == Node::Type::kAnd ? Or(std::move(children)) : And(std::move(children));
    }
    case Node::Type::kValues:
      copy->values = expr->values.Complement();
      return copy;
    case Node::Type::kIsUnknown:
    case Node::Type::kText:
    case Node::Type::kBits:
      copy->negated = !expr->negated;
      return copy;
  }
  return expr;
}

// Adds `child` to the list, merging it with a value test of the same field: unions under `or`, intersections under
// `and`. Both sides are unknown together, so the merge keeps three-valued truth.
void Merge(std::vector<Expr>& list, const Expr& child, bool is_and) {
  if (child->type == Node::Type::kValues) {
    for (Expr& other : list) {
      if (other->type != Node::Type::kValues || !SameTest(*other, *child)) continue;
      auto merged = std::make_shared<Node>(*other);
      merged->values = is_and ? other->values.Intersection(child->values) : other->values.Union(child->values);
      other = merged;
      return;
    }
  }
  list.push_back(child);
}

Expr Flatten(const Expr& expr) {
  if (expr->type != Node::Type::kAnd && expr->type != Node::Type::kOr) return expr;
  const bool is_and = expr->type == Node::Type::kAnd;
  const Truth absorbing = is_and ? Truth::kFalse : Truth::kTrue;
  std::vector<Expr> list;
  for (const Expr& raw : expr->children) {
    Expr child = Flatten(raw);
    if (child->type == Node::Type::kConst && child->constant == absorbing) return child;
    if (child->type == Node::Type::kConst && child->constant != Truth::kUnknown) continue;
    if (child->type == expr->type) {
      for (const Expr& grandchild : child->children) Merge(list, grandchild, is_and);
    } else {
      Merge(list, child, is_and);
    }
  }
  if (list.empty()) return Constant(is_and ? Truth::kTrue : Truth::kFalse);
  if (list.size() == 1) return list[0];
  return is_and ? And(std::move(list)) : Or(std::move(list));
}

bool Any(const Expr& expr, const std::function<bool(const Node&)>& predicate) {
  if (predicate(*expr)) return true;
  return std::any_of(expr->children.begin(), expr->children.end(), [&](const Expr& c) { return Any(c, predicate); });
}

bool IsTest(const Node& node) { return node.type >= Node::Type::kValues; }

}  // namespace

Expr Constant(Truth truth) {
  auto node = Make(Node::Type::kConst);
  node->constant = truth;
  return node;
}

Expr And(std::vector<Expr> children) {
  if (children.size() == 1) return children[0];
  auto node = Make(Node::Type::kAnd);
  node->children = std::move(children);
  return node;
}

Expr Or(std::vector<Expr> children) {
  if (children.size() == 1) return children[0];
  auto node = Make(Node::Type::kOr);
  node->children = std::move(children);
  return node;
}

Expr Not(Expr child) {
  auto node = Make(Node::Type::kNot);
  node->children.push_back(std::move(child));
  return node;
}

Expr ValuesTest(Field field, RangeSet values) {
  auto node = Make(Node::Type::kValues);
  node->field = field;
  node->values = std::move(values);
  return node;
}

Expr IsUnknown(Field field) {
  auto node = Make(Node::Type::kIsUnknown);
  node->field = field;
  return node;
}

Expr Simplify(const Expr& expr) { return Flatten(PushNot(expr)); }

std::vector<Expr> Conjuncts(const Expr& expr) {
  if (expr->type == Node::Type::kAnd) return expr->children;
  if (expr->type == Node::Type::kConst && expr->constant == Truth::kTrue) return {};
  return {expr};
}

bool ReadsRecord(const Expr& expr) {
  return Any(expr, [](const Node& n) { return IsTest(n) && Info(n.field).of_record; });
}
bool ReadsField(const Expr& expr, Field field) {
  return Any(expr, [&](const Node& n) { return IsTest(n) && n.field == field; });
}
bool ReadsCgroupNames(const Expr& expr) {
  return ReadsField(expr, Field::kCgroupPath) || ReadsField(expr, Field::kContainer) || ReadsField(expr, Field::kPod);
}

bool ReadsSample(const Expr& expr) {
  return Any(expr, [](const Node& n) { return IsTest(n) && !Info(n.field).of_record; });
}

bool Matches(const Pattern& pattern, std::string_view text) {
  if (!pattern.glob) return pattern.text == text;
  // Greedy with one point of return: linear for each star.
  std::string_view p = pattern.text;
  size_t i = 0, j = 0, star = std::string_view::npos, mark = 0;
  while (j < text.size()) {
    if (i < p.size() && (p[i] == '?' || p[i] == text[j]) && p[i] != '*') {
      ++i, ++j;
    } else if (i < p.size() && p[i] == '*') {
      star = i++;
      mark = j;
    } else if (star != std::string_view::npos) {
      i = star + 1;
      j = ++mark;
    } else {
      return false;
    }
  }
  while (i < p.size() && p[i] == '*') ++i;
  return i == p.size();
}

}  // namespace brink::filter
