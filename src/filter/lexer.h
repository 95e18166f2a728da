// Tokens of the expression language, each with its column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::filter {

struct Token {
  enum class Type { kWord, kQuoted, kPunct, kEnd } type = Type::kEnd;
  std::string text;   // a quoted token's text is unescaped
  size_t column = 1;  // 1-based, in bytes
};

// Where an expression went wrong. `column` is 1-based; one past the end is allowed.
struct SyntaxError {
  size_t column = 0;
  std::string message;
};

// Longest accepted expression.
inline constexpr size_t kMaxExpressionBytes = 65'536;

// The list ends with kEnd. Words hold letters, digits and _ . : / @ * ? $ % # and inner `-` (not after a digit-led
// word, so that 0-3 is a range). Punctuation: ( ) { } , == = != < <= > >= ~ =~ !~ & && || ! .. + -
// On failure returns false and fills `error`.
bool Tokenize(std::string_view text, std::vector<Token>* tokens, SyntaxError* error);

}  // namespace brink::filter
