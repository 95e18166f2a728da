// Expression -> bytecode of brink/abi/filter.h, for BPF and for the same core in user space.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brink/abi/filter.h"
#include "filter/expr.h"

namespace brink::filter {

struct CompileOptions {
  // Turns the path of a cgroup into its id, where it exists. Without it paths stay in user space.
  std::function<std::optional<uint64_t>(std::string_view path)> cgroup_id;
};

// What became of an expression: its conjuncts are either in `prog` or in `rest`.
struct Compiled {
  brink_filter_prog prog{};
  std::vector<Expr> rest;
  std::vector<std::string> reasons;  // for each of `rest`, why the bytecode cannot hold it
};

// Takes a simplified expression apart at its top-level `and`. A conjunct that has no bytecode, or that no longer fits
// into the 32 operations, goes to `rest`. The kept records of `prog` and then `rest` are those of the expression.
Compiled Compile(const Expr& expr, const CompileOptions& options = {});

// One operation a line, for `explain`.
std::string Disassemble(const brink_filter_prog& prog);

}  // namespace brink::filter
