// The aggregate file: lines of text, zstd around them (docs/aggregate.md).
#pragma once

#include <string>
#include <string_view>

#include "aggregate/data.h"
#include "base/status.h"

namespace brink::aggregate {

// The text. Rows are sorted: equal data gives equal bytes.
std::string ToText(const Data& data);
// INVALID_ARGUMENT or DATA_LOSS with the line's number; lines of kinds that are not known are skipped.
StatusOr<Data> FromText(std::string_view text);

// Writes beside `path` and renames, so readers never see half a file. "-" is standard output.
Status Write(const Data& data, const std::string& path);
// Reads both the compressed and the plain form. "-" is the standard input.
StatusOr<Data> Read(const std::string& path);

// Whether a file begins like an aggregate, compressed or not. False for "-" and for what cannot be read.
bool LooksLikeAggregate(const std::string& path);

}  // namespace brink::aggregate
