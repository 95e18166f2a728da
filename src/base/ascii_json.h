// How brink prints JSON.
#pragma once

#include <string>

namespace brink {

// One line without its end, of ASCII only: names in it come from anywhere, and JSON by itself would leave a terminal to obey
// what control characters and direction marks above ASCII say. Bytes that are no UTF-8 become U+FFFD. For nlohmann's types.
template <typename Json>
std::string AsciiJson(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace brink
