// Names for people: C++ (Itanium), Rust legacy and Rust v0. Untrusted input.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace brink::symbol {

inline constexpr size_t kMaxMangled = 8192;     // longer names stay as they are
inline constexpr size_t kMaxDemangled = 65536;  // a name that would become longer stays as it is

// The demangled name, or `name` itself where it is not mangled, damaged, or beyond the limits. Suffixes that compilers
// add to clones (".cold", ".constprop.0", ".llvm.123", ".part.1") are kept behind a blank in brackets: "f() [.cold]".
std::string Demangle(std::string_view name);

// The pieces.
std::optional<std::string> DemangleCxx(std::string_view name);
std::optional<std::string> DemangleRust(std::string_view name);  // legacy and v0; the hash is left out

// "std::vector<int>::push_back(int const&)" -> "std::vector::push_back": for narrow tables. Operators stay whole.
std::string ShortenName(std::string_view demangled);

}  // namespace brink::symbol
