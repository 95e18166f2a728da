// Any bytes as a client's: lines are parsed or refused, answers are one well-formed line, and what is parsed is parsed the
// same from its own writing. The same bytes as an HTTP head.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "agent/metrics.h"
#include "agent/protocol.h"

using namespace brink::agent;

namespace {

void CheckLine(const std::string& line) {
  if (line.empty() || line.find('\n') != line.size() - 1) std::abort();
  if (!nlohmann::json::accept(line)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const Figures figures;
  if (!HttpAnswer(text, figures).starts_with("HTTP/1.1 ")) std::abort();
  int64_t id = 0;
  auto request = ParseRequest(text, &id);
  if (!request.ok()) {
    CheckLine(ErrorLine(id, request.status()));
    return 0;
  }
  if (request->id != id) std::abort();
  if (!request->name.empty() && !IsFileName(request->name)) std::abort();
  if (request->name.find('/') != std::string::npos) std::abort();
  CheckLine(RequestLine(*request) + "\n");
  auto again = ParseRequest(RequestLine(*request), nullptr);
  // Words that are no UTF-8 do not get this far: the parser refuses them.
  if (!again.ok() || again->options != request->options || again->verb != request->verb || again->job != request->job || again->name != request->name) std::abort();
  return 0;
}
