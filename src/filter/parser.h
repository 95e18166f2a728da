// Text -> expression.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "filter/expr.h"
#include "filter/lexer.h"

namespace brink::filter {

// A value that one command adds to the language: args.NAME, ret, ctx.NAME.
struct ExternalField {
  uint8_t slot = 0;  // index into brink_filter_in.ext, below BRINK_FILTER_MAX_EXT
  bool is_signed = true;
};

struct ParseOptions {
  // Resolves `args.flags`, `ret`, `ctx.cpu`: the error says what is wrong with the name (unknown argument, nearest
  // ones). Without it these fields are refused with a hint at `brink snap --if`.
  std::function<StatusOr<ExternalField>(std::string_view name)> external;
};

// The tree as written (not simplified). An error is INVALID_ARGUMENT: "column 6: unknown field 'knd'; did you mean
// 'kind'?"; ErrorColumn gives the column back. `-j LIST` as the whole text means what perf means by it.
StatusOr<Expr> Parse(std::string_view text, const ParseOptions& options = {});

// Column of a Parse error, 0 for other errors.
size_t ErrorColumn(const Status& status);

// Two lines for a terminal: the expression (around the column) and a caret under it.
std::string CaretLines(std::string_view text, size_t column);

}  // namespace brink::filter
