// Text helpers that keep std types at the surface.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brink {

// Splits at each `separator`; empty pieces are kept. "" gives one empty piece.
std::vector<std::string_view> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);

// Makes untrusted text safe for a terminal or a log line: control characters, ESC and bytes that are not valid UTF-8
// become \xNN; C1 controls and bidirectional overrides too. Printable UTF-8 stays.
std::string EscapeForTerminal(std::string_view text);

// Lower-case hexadecimal of raw bytes (build ids).
std::string HexEncode(std::string_view bytes);

// At most `limit` of `candidates` closest to `name` by edit distance, nearest first: for "did you mean".
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& candidates, size_t limit = 3);

}  // namespace brink
