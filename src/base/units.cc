#include "base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink {
namespace {

constexpr int kMaxCpu = 65535;

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array<Unit, 7> kTimeUnits = {{{"ns", 1},
                                             {"us", 1'000},
                                             {"ms", 1'000'000},
                                             {"s", 1'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"h", 3'600'000'000'000},
                                             {"d", 86'400'000'000'000}}};

Status Bad(std::string_view text, std::string_view wanted) {
  return InvalidArgument("'" + EscapeForTerminal(text) + "': expected " + std::string(wanted));
}

// Splits "12.5ms" into the number's text and the unit's.
size_t NumberLength(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && (std::isdigit(static_cast<unsigned char>(text[n])) || text[n] == '.')) ++n;
  return n;
}

bool ParseDecimal(std::string_view text, double* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, std::chars_format::fixed);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*value);
}

}  // namespace

StatusOr<uint64_t> ParseUint(std::string_view text) {
  int base = 10;
  std::string_view digits = text;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    base = 16;
    digits.remove_prefix(2);
  }
  uint64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return Bad(text, "a number such as 100 or 0x64");
  }
  return value;
}

StatusOr<uint64_t> ParseDurationNs(std::string_view text, uint64_t default_unit_ns) {
  constexpr std::string_view kWanted = "a duration such as 10s, 2.5ms, 100us or 1h";
  size_t digits = NumberLength(text);
  std::string_view unit = text.substr(digits);
  uint64_t factor = default_unit_ns;
  if (!unit.empty()) {
    auto it = std::find_if(kTimeUnits.begin(), kTimeUnits.end(), [&](const Unit& u) { return u.name == unit; });
    if (it == kTimeUnits.end()) return Bad(text, kWanted);
    factor = it->factor;
  }
  double value = 0;
  if (digits == 0 || !ParseDecimal(text.substr(0, digits), &value)) return Bad(text, kWanted);
  double ns = value * static_cast<double>(factor);
  if (ns > 9.2e18) return Bad(text, "a duration below 292 years");
  return static_cast<uint64_t>(std::llround(ns));
}

StatusOr<uint64_t> ParseSize(std::string_view text) {
  constexpr std::string_view kWanted = "a size such as 4096, 64K, 8M or 1G";
  size_t digits = NumberLength(text);
  std::string_view unit = text.substr(digits);
  int shift = 0;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kPrefixes = "KMGT";
    size_t prefix = kPrefixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    std::string_view rest = unit.substr(1);
    if (prefix == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) return Bad(text, kWanted);
    shift = 10 * static_cast<int>(prefix + 1);
  }
  double value = 0;
  if (digits == 0 || !ParseDecimal(text.substr(0, digits), &value)) return Bad(text, kWanted);
  double bytes = std::ldexp(value, shift);
  if (bytes > 9.2e18) return Bad(text, "a size below 8 EiB");
  return static_cast<uint64_t>(bytes);
}

StatusOr<std::vector<int>> ParseCpuList(std::string_view text) {
  constexpr std::string_view kWanted = "a CPU list such as 0-3,7";
  std::vector<int> cpus;
  for (std::string_view piece : Split(Trim(text), ',')) {
    size_t dash = piece.find('-');
    auto first = ParseUint(piece.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : ParseUint(piece.substr(dash + 1));
    if (!first.ok() || !last.ok() || *first > *last || *last > kMaxCpu) return Bad(text, kWanted);
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatSize(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%d B", bytes);
  return absl::StrFormat("%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, kUnits[unit]);
}

std::string FormatDuration(uint64_t ns) {
  constexpr std::array<const char*, 4> kUnits = {"ns", "us", "ms", "s"};
  double value = static_cast<double>(ns);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%d ns", ns);
  return absl::StrFormat("%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, kUnits[unit]);
}

}  // namespace brink
