// Reading values of the expression language: numbers, durations, addresses, names. Internal to the parser.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filter/expr.h"

namespace brink::filter {

// One value of a field as a number (biased where the field is signed). The error says what is accepted.
StatusOr<uint64_t> ParseValue(Field field, bool is_signed, std::string_view text, bool minus);

// Spelling -> field. `is_side` is set for symbol and object, which stand for either side of the branch.
struct FieldName {
  Field field = Field::kPid;
  bool either_side = false;
  bool inverted = false;  // `predicted`
};
std::optional<FieldName> FindField(std::string_view word);
// Names for suggestions.
std::vector<std::string> FieldNames();
// Words that people type for something else, with the remedy ("" if none).
std::string HintFor(std::string_view word);

}  // namespace brink::filter
