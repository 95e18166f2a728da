// Which inputs can make a tree true: a walk over its disjunctive branches, each holding what is demanded of a field.
#include <algorithm>
#include <map>
#include <set>

#include "filter/expr.h"

namespace brink::filter {
namespace {

// Branches looked at before giving up and answering "possible".
constexpr int kBudget = 20'000;

RangeSet Domain(Field field) {
  switch (Info(field).type) {
    case ValueType::kKind:
      return RangeSet::Between(1, kKindCount - 1);
    case ValueType::kPriv:
      return RangeSet::Between(1, field == Field::kFromPriv ? 2 : 3);
    case ValueType::kSpec:
      return RangeSet::Between(1, 3);
    case ValueType::kBool:
      return RangeSet::Between(kNo, kYes);
    default:
      break;
  }
  if (field == Field::kFrom || field == Field::kTo || field == Field::kCgroup) return RangeSet::Between(1, UINT64_MAX);
  if (field == Field::kCycles) return RangeSet::Between(1, 0xffff);
  if (field == Field::kPid || field == Field::kTid || field == Field::kCpu || field == Field::kUid) return RangeSet::Between(0, UINT32_MAX);
  return RangeSet::All();
}

bool AlwaysKnown(Field field) { return field == Field::kInTx || field == Field::kAbort; }

// What one branch demands of one field.
struct Demand {
  enum class State { kAny, kKnown, kUnknown } state = State::kAny;
  RangeSet values;
  std::optional<std::set<std::string>> texts;  // exact texts that are left
  std::vector<Expr> tests;                     // text tests so far: each must accept what is left
};

using Key = std::pair<Field, uint8_t>;
using Demands = std::map<Key, Demand>;

Demand& At(Demands& demands, Field field, uint8_t slot = 0) {
  auto [it, fresh] = demands.try_emplace({field, slot});
  if (fresh) it->second.values = field == Field::kExternal ? RangeSet::All() : Domain(field);
  return it->second;
}

bool MakeKnown(Demand& demand) {
  if (demand.state == Demand::State::kUnknown) return false;
  demand.state = Demand::State::kKnown;
  return true;
}

bool AcceptsText(const Node& node, const std::string& text) {
  bool hit = std::any_of(node.patterns.begin(), node.patterns.end(), [&](const Pattern& p) { return Matches(p, text); });
  return hit != node.negated;
}

bool AddText(Demand& demand, const Expr& expr) {
  const Node& node = *expr;
  bool exact = std::none_of(node.patterns.begin(), node.patterns.end(), [](const Pattern& p) { return p.glob; });
  if (exact && !node.negated && !demand.texts) {
    demand.texts.emplace();
    for (const Pattern& p : node.patterns) demand.texts->insert(p.text);
  }
  // Objects have several names at once: an exact one says nothing about the others.
  if (node.field == Field::kFromObject || node.field == Field::kToObject) return true;
  demand.tests.push_back(expr);
  if (!demand.texts) return true;
  std::erase_if(*demand.texts, [&](const std::string& text) {
    return std::any_of(demand.tests.begin(), demand.tests.end(), [&](const Expr& test) { return !AcceptsText(*test, text); });
  });
  return !demand.texts->empty();
}

bool AddTest(Demands& demands, const Expr& expr) {
  const Node& node = *expr;
  Demand& demand = At(demands, node.field, node.slot);
  if (node.type == Node::Type::kIsUnknown && !node.negated) {
    if (demand.state == Demand::State::kKnown || AlwaysKnown(node.field)) return false;
    demand.state = Demand::State::kUnknown;
    return true;
  }
  if (!MakeKnown(demand)) return false;
  if (node.type == Node::Type::kValues) {
    demand.values = demand.values.Intersection(node.values);
    return !demand.values.empty();
  }
  if (node.type == Node::Type::kText) return AddText(demand, expr);
  if (node.type == Node::Type::kBits && !node.negated) return (node.equals & ~node.mask) == 0;
  return true;
}

const Demand* Find(const Demands& demands, Field field) {
  auto it = demands.find({field, 0});
  return it == demands.end() || it->second.state != Demand::State::kKnown ? nullptr : &it->second;
}

// Fields that are made from the same bits must agree.
bool Consistent(const Demands& demands) {
  const uint64_t abort_kind = uint64_t{1} << static_cast<int>(Kind::kTxAbort);
  const Demand* kind = Find(demands, Field::kKind);
  const Demand* abort = Find(demands, Field::kAbort);
  if (kind && abort) {
    uint64_t kinds = kind->values.Mask() & (abort->values.Contains(kYes) ? ~uint64_t{0} : ~abort_kind) &
                     (abort->values.Contains(kNo) ? ~uint64_t{0} : abort_kind);
    if (kinds == 0) return false;
  }
  const Demand* from = Find(demands, Field::kFrom);
  const Demand* from_priv = Find(demands, Field::kFromPriv);
  constexpr uint64_t kTop = uint64_t{1} << 63;
  if (from && from_priv) {
    bool user = from_priv->values.Contains(1) && !from->values.Intersection(RangeSet::Between(1, kTop - 1)).empty();
    bool kernel = from_priv->values.Contains(2) && !from->values.Intersection(RangeSet::Between(kTop, UINT64_MAX)).empty();
    if (!user && !kernel) return false;
  }
  const Demand* to_priv = Find(demands, Field::kToPriv);
  const Demand* cross = Find(demands, Field::kCrossPriv);
  if (from_priv && to_priv && cross) {
    uint64_t f = from_priv->values.Mask() & 0xe, t = to_priv->values.Mask() & 0xe;
    bool can_differ = (f | t) != f || (f | t) != t || (f & (f - 1)) != 0;
    bool can_agree = (f & t) != 0;
    if (!((cross->values.Contains(kYes) && can_differ) || (cross->values.Contains(kNo) && can_agree))) return false;
  }
  return true;
}

class Walk {
 public:
  // `visit` gets each consistent branch; it returns true to stop.
  using Visit = std::function<bool(const Demands&)>;
  explicit Walk(Visit visit) : visit_(std::move(visit)) {}

  // True if a visit stopped the walk. exhausted() tells whether the budget ended it.
  bool Run(std::vector<Expr> pending, Demands demands) {
    while (!pending.empty()) {
      if (--budget_ < 0) return false;
      Expr expr = pending.back();
      pending.pop_back();
      switch (expr->type) {
        case Node::Type::kConst:
          if (expr->constant != Truth::kTrue) return false;
          break;
        case Node::Type::kAnd:
          pending.insert(pending.end(), expr->children.begin(), expr->children.end());
          break;
        case Node::Type::kOr:
          for (const Expr& child : expr->children) {
            auto next = pending;
            next.push_back(child);
            if (Run(std::move(next), demands)) return true;
            if (budget_ < 0) return false;
          }
          return false;
        case Node::Type::kNot:
          pending.push_back(Simplify(expr));
          break;
        default:
          if (!AddTest(demands, expr)) return false;
      }
    }
    return Consistent(demands) && visit_(demands);
  }

  bool exhausted() const { return budget_ < 0; }

 private:
  Visit visit_;
  int budget_ = kBudget;
};

// Puts `or` nodes first in the list, so that the tests behind them are taken before branching (the list is a stack).
std::vector<Expr> Order(const Expr& expr) {
  std::vector<Expr> list = Conjuncts(Simplify(expr));
  std::stable_partition(list.begin(), list.end(), [](const Expr& e) { return e->type == Node::Type::kOr; });
  return list;
}

// The operands of the `and`s at the top, as written.
void RawConjuncts(const Expr& expr, std::vector<Expr>& out) {
  if (expr->type != Node::Type::kAnd) {
    out.push_back(expr);
    return;
  }
  for (const Expr& child : expr->children) RawConjuncts(child, out);
}

}  // namespace

bool Satisfiable(const Expr& expr) {
  Walk walk([](const Demands&) { return true; });
  return walk.Run(Order(expr), {}) || walk.exhausted();
}

bool Tautology(const Expr& expr) {
  Walk walk([](const Demands& demands) {
    return std::none_of(demands.begin(), demands.end(), [](const auto& d) { return d.second.state == Demand::State::kUnknown; });
  });
  return !walk.Run(Order(Not(expr)), {}) && !walk.exhausted();
}

Projection Project(const Expr& expr, Field field) {
  Projection projection;
  const RangeSet domain = Domain(field);
  Walk walk([&](const Demands& demands) {
    auto it = demands.find({field, 0});
    if (it == demands.end() || it->second.state == Demand::State::kAny) {
      projection = {domain, !AlwaysKnown(field)};
    } else if (it->second.state == Demand::State::kUnknown) {
      projection.may_be_unknown = true;
    } else {
      projection.values = projection.values.Union(it->second.values);
    }
    return projection.may_be_unknown && projection.values == domain;
  });
  walk.Run(Order(expr), {});
  if (walk.exhausted()) return {domain, !AlwaysKnown(field)};
  return projection;
}

namespace {

// What a field can hold, where that is the reason.
const char* Bounds(const Expr& part) {
  if (ReadsField(part, Field::kFromPriv)) return " (a branch's own level is told by its address, user or kernel; priv, the target's, knows hv)";
  if (ReadsField(part, Field::kCycles)) return " (cycles are 1 to 65535)";
  return "";
}

}  // namespace

std::string ExplainContradiction(const Expr& expr) {
  std::vector<Expr> parts;
  RawConjuncts(expr, parts);
  for (const Expr& part : parts) {
    if (!Satisfiable(part)) return "'" + ToString(part) + "' is never true" + Bounds(part);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = i + 1; j < parts.size() && parts.size() <= 64; ++j) {
      if (!Satisfiable(And({parts[i], parts[j]}))) {
        return "'" + ToString(parts[i]) + "' and '" + ToString(parts[j]) + "' exclude each other";
      }
    }
  }
  return "its parts exclude each other";
}

}  // namespace brink::filter
