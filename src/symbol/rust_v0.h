// Rust's v0 mangling (RFC 2603), without the crate disambiguators and hashes, as rustfilt prints it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace brink::symbol {

// `name` starts with "_R". Nothing for names outside the grammar or beyond the limits of demangle.h.
std::optional<std::string> DemangleRustV0(std::string_view name);

}  // namespace brink::symbol
