#include "script/names.h"

#include <iterator>
#include <time.h>

#include <absl/strings/str_format.h>

#include "brink/abi/event.h"

namespace brink::script {
namespace {

constexpr std::string_view kSources[] = {"none", "lbr", "walk", "hop", "step", "replay"};
static_assert(std::size(kSources) == BRINK_SOURCE_REPLAY + 1);

}  // namespace

std::string_view SourceName(uint8_t source) { return source < std::size(kSources) ? kSources[source] : "unknown"; }

std::string_view DirectionName(uint8_t direction) {
  if (direction == BRINK_DIR_PAST) return "past";
  return direction == BRINK_DIR_FUTURE ? "future" : "unknown";
}

std::string_view PrivName(uint32_t priv) {
  constexpr std::string_view kNames[] = {"", "user", "kernel", "hypervisor"};
  return priv < std::size(kNames) ? kNames[priv] : "";
}

std::string Rfc3339(uint64_t ns) {
  time_t seconds = static_cast<time_t>(ns / 1'000'000'000);
  struct tm parts;
  gmtime_r(&seconds, &parts);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%09dZ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                         parts.tm_min, parts.tm_sec, static_cast<int>(ns % 1'000'000'000));
}

}  // namespace brink::script
