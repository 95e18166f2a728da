#include "cfi/side_text.h"

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/strings.h"

namespace brink::cfi {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }
std::string Print(const Json& json) { return AsciiJson(json); }
Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json SideJson(const EventSide& side) {
  return {{"address", Hex(side.address)}, {"module", OrNull(side.module)}, {"build_id", OrNull(HexEncode(side.build_id))},
          {"offset", side.offset ? Json(Hex(side.offset)) : Json(nullptr)}, {"symbol", OrNull(side.symbol)}, {"bytes", OrNull(HexEncode(side.bytes))}};
}

std::string Where(const EventSide& side) {
  const std::string file = side.module.substr(side.module.rfind('/') + 1);
  if (side.symbol.empty()) return Hex(side.address) + (file.empty() ? "" : " [" + file + "]");
  return side.symbol + " [" + file + "]";
}

}  // namespace brink::cfi
