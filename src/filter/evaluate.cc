// Three-valued evaluation on the tree: the meaning that the bytecode is measured against.
#include <algorithm>

#include "filter/sample_filter.h"

namespace brink::filter {
namespace {

Truth Of(bool value) { return value ? Truth::kTrue : Truth::kFalse; }
Truth Negated(Truth t) { return t == Truth::kUnknown ? t : Of(t == Truth::kFalse); }

class Evaluator {
 public:
  Evaluator(const SampleView& sample, const BranchEntry* entry, CodeResolver* resolver) : sample_(sample), entry_(entry), resolver_(resolver) {}

  Truth Run(const Expr& expr) {
    switch (expr->type) {
      case Node::Type::kConst:
        return expr->constant;
      case Node::Type::kNot:
        return Negated(Run(expr->children[0]));
      case Node::Type::kAnd:
        return List(expr, Truth::kFalse, Truth::kTrue);
      case Node::Type::kOr:
        return List(expr, Truth::kTrue, Truth::kFalse);
      default:
        return Test(*expr);
    }
  }

 private:
  // `winner` decides at once; otherwise unknown if any child is, else `neutral`.
  Truth List(const Expr& expr, Truth winner, Truth neutral) {
    Truth result = neutral;
    for (const Expr& child : expr->children) {
      Truth t = Run(child);
      if (t == winner) return winner;
      if (t == Truth::kUnknown) result = t;
    }
    return result;
  }

  Truth Test(const Node& node) {
    if (Info(node.field).type == ValueType::kText) return TextTest(node);
    std::optional<uint64_t> value = Value(node);
    if (node.type == Node::Type::kIsUnknown) return Of(!value.has_value() != node.negated);
    if (!value) return Truth::kUnknown;
    if (node.type == Node::Type::kBits) return Of(((*value & node.mask) == node.equals) != node.negated);
    return Of(node.values.Contains(node.is_signed ? ToBiased(static_cast<int64_t>(*value)) : *value));
  }

  std::optional<uint64_t> Value(const Node& node) {
    switch (node.field) {
      case Field::kPid: return sample_.pid;
      case Field::kTid: return sample_.tid;
      case Field::kCpu: return sample_.cpu;
      case Field::kUid: return sample_.uid;
      case Field::kCgroup: return sample_.cgroup_id && *sample_.cgroup_id ? sample_.cgroup_id : std::nullopt;
      case Field::kTime: return sample_.time_ns;
      case Field::kElapsed:
        if (!sample_.time_ns || *sample_.time_ns < sample_.first_time_ns) return std::nullopt;
        return *sample_.time_ns - sample_.first_time_ns;
      case Field::kIp: return sample_.ip;
      case Field::kExternal:
        if (!(sample_.external_known >> node.slot & 1) || node.slot >= sample_.external.size()) return std::nullopt;
        return sample_.external[node.slot];
      default: return entry_ ? RecordValue(node.field) : std::nullopt;
    }
  }

  std::optional<uint64_t> RecordValue(Field field) {
    auto known = [](uint64_t value) { return value ? std::optional<uint64_t>(value) : std::nullopt; };
    switch (field) {
      case Field::kFrom: return known(entry_->from);
      case Field::kTo: return known(entry_->to);
      case Field::kKind: return known(static_cast<uint64_t>(entry_->kind()));
      case Field::kFromPriv: return known(AddressPriv(entry_->from));
      case Field::kToPriv: return known(TargetPriv());
      case Field::kCrossPriv: {
        uint64_t from = AddressPriv(entry_->from), to = TargetPriv();
        return from && to ? std::optional<uint64_t>(from == to ? kNo : kYes) : std::nullopt;
      }
      case Field::kMispredicted:
        if (entry_->prediction() == Prediction::kUnknown) return std::nullopt;
        return entry_->prediction() == Prediction::kMispredicted ? kYes : kNo;
      case Field::kCycles: return known(entry_->cycles());
      case Field::kInTx: return entry_->in_tx() ? kYes : kNo;
      case Field::kAbort: return entry_->abort() ? kYes : kNo;
      case Field::kSpec: return known(static_cast<uint64_t>(entry_->spec()));
      case Field::kCrossFunction: return Cross(true);
      case Field::kCrossObject: return Cross(false);
      default: return std::nullopt;
    }
  }

  static uint64_t AddressPriv(uint64_t address) {
    if (address == 0) return 0;
    return static_cast<uint64_t>(address >> 63 ? Priv::kKernel : Priv::kUser);
  }
  uint64_t TargetPriv() const {
    Priv stored = entry_->priv();
    if (stored == Priv::kUser || stored == Priv::kKernel || stored == Priv::kHv) return static_cast<uint64_t>(stored);
    return AddressPriv(entry_->to);
  }

  std::optional<uint64_t> Cross(bool function) {
    if (!resolver_ || !entry_->from || !entry_->to) return std::nullopt;
    CodePlace from = resolver_->Lookup(sample_, entry_->from);
    std::string object(from.build_id.empty() ? from.object : from.build_id);
    CodePlace to = resolver_->Lookup(sample_, entry_->to);
    std::string_view other = from.build_id.empty() || to.build_id.empty() ? to.object : to.build_id;
    if (from.build_id.empty() != to.build_id.empty()) object = std::string(from.object);
    if (object.empty() || other.empty()) return std::nullopt;
    if (!function || object != other) return object == other ? kNo : kYes;
    if (!from.function || !to.function) return std::nullopt;
    return from.function == to.function ? kNo : kYes;
  }

  Truth TextTest(const Node& node) {
    // Objects have several names: the path, its last part, the build-id.
    std::vector<std::string_view> names = Names(node.field);
    if (node.type == Node::Type::kIsUnknown) return Of(names.empty() != node.negated);
    if (names.empty()) return Truth::kUnknown;
    bool hit = std::any_of(node.patterns.begin(), node.patterns.end(), [&](const Pattern& p) {
      return std::any_of(names.begin(), names.end(), [&](std::string_view n) { return Matches(p, n); });
    });
    return Of(hit != node.negated);
  }

  std::vector<std::string_view> Names(Field field) {
    auto of = [](std::span<const std::string_view> texts) { return std::vector<std::string_view>(texts.begin(), texts.end()); };
    switch (field) {
      case Field::kComm: return sample_.comm ? std::vector<std::string_view>{*sample_.comm} : std::vector<std::string_view>{};
      case Field::kCgroupPath: return of(sample_.cgroup_path);
      case Field::kContainer: return of(sample_.container);
      case Field::kPod: return of(sample_.pod);
      default: break;
    }
    if (!entry_ || !resolver_) return {};
    const bool from = field == Field::kFromSymbol || field == Field::kFromObject;
    uint64_t address = from ? entry_->from : entry_->to;
    if (!address) return {};
    CodePlace place = resolver_->Lookup(sample_, address);
    std::vector<std::string_view> names;
    if (field == Field::kFromSymbol || field == Field::kToSymbol) {
      if (!place.symbol.empty()) names.push_back(place.symbol);
      return names;
    }
    if (!place.object.empty()) names = {place.object, place.object.substr(place.object.rfind('/') + 1)};
    if (!place.build_id.empty()) names.push_back(place.build_id);
    return names;
  }

  const SampleView& sample_;
  const BranchEntry* entry_;
  CodeResolver* resolver_;
};

}  // namespace

Truth Evaluate(const Expr& expr, const SampleView& sample, const BranchEntry* entry, CodeResolver* resolver) {
  return Evaluator(sample, entry, resolver).Run(expr);
}

}  // namespace brink::filter
