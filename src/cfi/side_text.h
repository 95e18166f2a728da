// What the texts of events and alarms share: the sides of an edge, and JSON spelled one way.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cfi/process_map.h"

namespace brink::cfi {

std::string Hex(uint64_t value);                                 // "0x1f"
std::string Print(const nlohmann::ordered_json& json);           // one line; bytes that are no UTF-8 are replaced
nlohmann::ordered_json OrNull(const std::string& text);          // "" is null
nlohmann::ordered_json SideJson(const EventSide& side);
std::string Where(const EventSide& side);                        // "symbol+0x4 [file]"; not escaped

}  // namespace brink::cfi
