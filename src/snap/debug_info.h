// What DWARF says about places and parameters, by libdw: for triggers, which ask once and whose files the user names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "snap/places.h"

namespace brink::snap {

// Where statements of FILE:LINE begin, one address a copy (inlined functions have several); of a line without code the
// next line that has some is taken. NOT_FOUND: no debug information, no such file (nearest names), no code.
StatusOr<std::vector<uint64_t>> AddressesOfLine(const std::string& path, const std::string& file, uint32_t line);

// A function that DWARF knows by inlined copies only.
bool IsInlinedEverywhere(const std::string& path, std::string_view function);

}  // namespace brink::snap
