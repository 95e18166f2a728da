// Where each part of an expression is decided: branch hardware, BPF, user space; and what that leaves possible.
#pragma once

#include <string>
#include <vector>

#include "filter/compile.h"
#include "filter/expr.h"

namespace brink::filter {

// A use of branch records and whether it still means something after the filter.
struct Survival {
  std::string name;
  bool survives = true;
  std::string why;  // empty if it survives without a condition
};

struct Plan {
  Expr expr;  // simplified
  // What to open the branch event with: kinds, privilege, save_type where kinds are tested.
  uint64_t branch_bits = 0;
  uint64_t kinds = 0;            // kinds (enum Kind bits) that can satisfy the expression
  bool kinds_exact = true;       // the kind bits select exactly these
  bool privilege_exact = true;   // the privilege bits select exactly what the expression asks
  bool hardware_filters = false; // the bits keep something out: entries of the hardware buffer are not wasted on it
  Compiled bpf;                  // evaluated in BPF; its `rest` in user space
  std::vector<std::string> software;  // what the hardware cannot do, and why
  std::vector<std::string> notes;
  bool contiguous = true;        // stacks keep every taken branch
  std::vector<Survival> uses;    // analyses, exports and CFI policies
};

struct PlanOptions {
  CompileOptions compile;
  // From -j: added to what the expression needs (0 = none given). Kinds and privileges given here are the user's own
  // words to the hardware.
  uint64_t branch_bits = 0;
};

// The error says what excludes what: "nothing can match: 'kind in {ret}' and 'kind in {call}' exclude each other".
StatusOr<Plan> MakePlan(const Expr& expr, const PlanOptions& options = {});

// For people and for programs.
std::string ExplainText(const Plan& plan);
std::string ExplainJson(const Plan& plan);

}  // namespace brink::filter
