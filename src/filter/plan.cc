#include "filter/plan.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "filter/branch_flags.h"
#include "filter/hardware.h"
#include "filter/names.h"

namespace brink::filter {
namespace {

constexpr uint64_t kSyscallOrIrq = KindBit(Kind::kSyscall) | KindBit(Kind::kIrq);

// Fewest perf flags whose kinds include all of `kinds`.
uint64_t FlagsForKinds(uint64_t kinds) {
  if (kinds & (KindBit(Kind::kJump) | KindBit(Kind::kTxAbort))) return kBranchAny;
  uint64_t bits = 0;
  if (kinds & kSyscallOrIrq) bits |= kBranchAnyCall;
  if (kinds & kAnyReturn) bits |= kBranchAnyReturn;
  if (kinds & KindBit(Kind::kCond)) bits |= kBranchCond;
  if (kinds & KindBit(Kind::kIndJump)) bits |= kBranchIndJump;
  if (!(bits & kBranchAnyCall)) {
    if (kinds & KindBit(Kind::kCall)) bits |= kBranchCall;
    if (kinds & KindBit(Kind::kIndCall)) bits |= kBranchIndCall;
  }
  return bits;
}

Expr RecordPart(const Expr& expr) {
  std::vector<Expr> parts;
  for (const Expr& part : Conjuncts(expr)) {
    if (ReadsRecord(part)) parts.push_back(part);
  }
  return parts.empty() ? Constant(Truth::kTrue) : And(std::move(parts));
}

// Whether every user-mode record of these kinds passes `record`, whatever else it is.
bool KeepsAll(const Expr& record, uint64_t kinds) {
  Expr user = ValuesTest(Field::kToPriv, RangeSet::OfMask(kPrivUser));
  Expr from_user = ValuesTest(Field::kFromPriv, RangeSet::OfMask(kPrivUser));
  return Tautology(Or({Not(And({KindTest(kinds), user, from_user})), record}));
}

struct Use {
  const char* name;
  uint64_t kinds;  // that must all be there; 0: see `contiguity`
  bool contiguity;
  const char* needs;
};

constexpr uint64_t kCalls = KindBit(Kind::kCall) | KindBit(Kind::kIndCall);
constexpr uint64_t kRet = KindBit(Kind::kRet);
constexpr uint64_t kIndirect = KindBit(Kind::kIndCall) | KindBit(Kind::kIndJump);
constexpr uint64_t kDirect = KindBit(Kind::kCond) | KindBit(Kind::kJump) | KindBit(Kind::kCall);

constexpr Use kUses[] = {
    {"ranges, fall-throughs, block counts (bolt, profgen, autofdo)", 0, true, "contiguous stacks"},
    {"trip counts, block cycles, paths, branch history", 0, true, "contiguous stacks"},
    {"call graph edges", kCalls, false, "all calls"},
    {"indirect targets", kIndirect, false, "all indirect calls and jumps"},
    {"mispredict rates", 0, false, "predicted and mispredicted records alike"},
    {"CFI P1 return is call-preceded", kRet, false, "all returns"},
    {"CFI P2 calls match returns", kCalls | kRet, false, "all calls and returns"},
    {"CFI P3 indirect call target", KindBit(Kind::kIndCall), false, "all indirect calls"},
    {"CFI P4 indirect jump target", KindBit(Kind::kIndJump), false, "all indirect jumps"},
    {"CFI P5 instruction boundary", kIndirect | kRet, false, "all indirect branches and returns"},
    {"CFI P6 straight-line consistency", 0, true, "contiguous stacks"},
    {"CFI P7 direct target as encoded", kDirect, false, "all direct branches"},
    {"CFI P8 executable memory kind", kIndirect | kRet, false, "all indirect branches and returns"},
    {"CFI P9 gadget score", 0, true, "contiguous stacks"},
    {"CFI P12 learned edges", kIndirect, false, "all indirect branches"},
    {"CFI P13 path to sensitive call", kCalls | kRet, false, "all calls and returns"},
};

void AddUses(Plan& plan, const Expr& record) {
  for (const Use& use : kUses) {
    Survival s{use.name, true, ""};
    if (use.contiguity) {
      s.survives = plan.contiguous;
    } else if (use.kinds) {
      s.survives = KeepsAll(record, use.kinds);
    } else {
      s.survives = !ReadsField(record, Field::kMispredicted);
    }
    if (!s.survives) s.why = std::string("needs ") + use.needs;
    plan.uses.push_back(std::move(s));
  }
}

void ChooseKinds(Plan& plan, const Expr& expr, uint64_t given) {
  Projection kind = Project(expr, Field::kKind);
  plan.kinds = kind.values.Mask() & kAllKinds;
  if (given & kBranchKindMask) {
    plan.branch_bits |= given & kBranchKindMask;
  } else {
    plan.branch_bits |= kind.may_be_unknown || plan.kinds == 0 ? uint64_t{kBranchAny} : FlagsForKinds(plan.kinds);
  }
  const bool tested = ReadsField(expr, Field::kKind);
  plan.kinds_exact = !tested || (!kind.may_be_unknown && KindsOfFlags(plan.branch_bits) == plan.kinds);
  if (tested && !plan.kinds_exact) {
    uint64_t extra = KindsOfFlags(plan.branch_bits) & ~plan.kinds;
    if (kind.may_be_unknown) {
      plan.software.push_back("records of unknown kind are wanted: the hardware records ANY, kinds are tested in BPF");
    } else if (plan.kinds & KindBit(Kind::kJump)) {
      plan.software.push_back("perf has no flag for direct jumps alone: the hardware records ANY, kinds are tested in BPF");
    } else if (plan.kinds & KindBit(Kind::kTxAbort)) {
      plan.software.push_back("no hardware filters on transaction aborts: it records ANY, kinds are tested in BPF");
    } else if (extra) {
      plan.software.push_back(absl::StrFormat("the perf flags also let through: %s; removed in BPF", KindList(extra, ", ")));
    }
  }
  if (tested) plan.branch_bits |= kBranchTypeSave;
}

void ChoosePrivilege(Plan& plan, const Expr& expr, uint64_t given) {
  Projection priv = Project(expr, Field::kToPriv);
  uint64_t wanted = priv.values.Mask() >> 1 & kBranchPrivMask;
  const bool tested = ReadsField(expr, Field::kToPriv) || ReadsField(expr, Field::kCrossPriv);
  if (given & kBranchPrivMask) {
    plan.branch_bits |= given & kBranchPrivMask;
  } else if (!tested || priv.may_be_unknown || wanted == kBranchPrivMask) {
    plan.branch_bits |= kBranchUser | kBranchKernel;
  } else {
    plan.branch_bits |= wanted;
  }
  uint64_t bits = plan.branch_bits & kBranchPrivMask;
  plan.privilege_exact = !tested || (!priv.may_be_unknown && wanted == bits && !ReadsField(expr, Field::kFromPriv) && !ReadsField(expr, Field::kCrossPriv));
  if (bits == kBranchUser && (plan.branch_bits & (kBranchAny | kBranchAnyReturn))) {
    plan.notes.push_back("BRBE with u alone records no syscall, interrupt or exception return; x86 records the returns into user mode. Add -j k where they matter");
  }
}

// Fields that no branch hardware filters on.
void AddSoftware(Plan& plan, const Expr& expr) {
  struct Reason {
    Field field;
    const char* why;
  };
  constexpr Reason kReasons[] = {
      {Field::kMispredicted, "mispredicted: no hardware filters on prediction, entries are spent on the others too"},
      {Field::kCycles, "cycles: known only after the record is made"},
      {Field::kFrom, "from: branch hardware has no address filter"},
      {Field::kTo, "to: branch hardware has no address filter"},
      {Field::kFromPriv, "from.priv: hardware judges the target's privilege (x86) or masks addresses (BRBE)"},
      {Field::kCrossPriv, "crossing priv: no hardware compares the two sides"},
      {Field::kInTx, "in_tx: the driver filters in software on Intel; AMD and Arm refuse the flag"},
      {Field::kAbort, "abort: no hardware filters on aborts"},
      {Field::kSpec, "spec: AMD stores the outcome, nothing filters on it"},
      {Field::kFromSymbol, "from.symbol: resolved in user space"},
      {Field::kToSymbol, "to.symbol: resolved in user space"},
      {Field::kFromObject, "from.object: resolved in user space"},
      {Field::kToObject, "to.object: resolved in user space"},
      {Field::kCrossFunction, "crossing function: resolved in user space"},
      {Field::kCrossObject, "crossing object: resolved in user space"}};
  for (const Reason& r : kReasons) {
    if (ReadsField(expr, r.field)) plan.software.emplace_back(r.why);
  }
}

}  // namespace

StatusOr<Plan> MakePlan(const Expr& raw, const PlanOptions& options) {
  if (!Satisfiable(raw)) return InvalidArgument("nothing can match: " + ExplainContradiction(raw));
  Plan plan;
  plan.expr = Simplify(raw);
  plan.bpf = Compile(plan.expr, options.compile);
  ChooseKinds(plan, plan.expr, options.branch_bits);
  ChoosePrivilege(plan, plan.expr, options.branch_bits);
  plan.branch_bits |= options.branch_bits & ~(kBranchKindMask | kBranchPrivMask);
  AddSoftware(plan, plan.expr);
  plan.hardware_filters = !(plan.branch_bits & kBranchAny) || (plan.branch_bits & kBranchPrivMask & (kBranchUser | kBranchKernel)) != (kBranchUser | kBranchKernel);
  Expr record = RecordPart(plan.expr);
  Expr selected = options.branch_bits ? Simplify(And({record, ExprOfFlags(plan.branch_bits & (kBranchKindMask | kBranchPrivMask))})) : record;
  plan.contiguous = record->type == Node::Type::kConst && !plan.hardware_filters;
  if (plan.branch_bits & kBranchCallStack) {
    plan.contiguous = false;
    plan.notes.push_back("call-stack mode: the entries are the call chain, not a history");
  }
  AddUses(plan, selected);
  return plan;
}

}  // namespace brink::filter
