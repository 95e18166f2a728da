#include "brbe/dump.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "base/units.h"
#include "brbe/registers.h"

namespace brink::brbe {
namespace {

constexpr size_t kMaxBytes = 1u << 20;
constexpr size_t kMaxRecords = 64;

struct Raw {
  std::array<std::optional<uint64_t>, 3> part;  // INF, SRC, TGT
};
using RawRecords = std::array<Raw, kMaxRecords>;

constexpr std::string_view kParts[3] = {"BRBINF", "BRBSRC", "BRBTGT"};

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// Numbers of dumps are hexadecimal with or without 0x, underscores allowed.
std::optional<uint64_t> HexNumber(std::string_view text) {
  std::string digits;
  for (char c : text) {
    if (c != '_') digits += c;
  }
  if (!digits.starts_with("0x") && !digits.starts_with("0X")) digits = "0x" + digits;
  auto value = ParseUint(digits);
  return value.ok() ? std::optional<uint64_t>(*value) : std::nullopt;
}

// "BRBINF12_EL1", "BRBSRC<3>_EL1", "BRBTGT40" -> part and number.
std::optional<std::pair<int, size_t>> RecordRegister(std::string_view word) {
  std::string upper = Upper(word);
  for (int part = 0; part < 3; ++part) {
    if (!upper.starts_with(kParts[part])) continue;
    std::string digits;
    for (char c : upper.substr(6, upper.find("_EL1") == std::string::npos ? std::string::npos : upper.find("_EL1") - 6)) {
      if (c == '<' || c == '>' || c == '[' || c == ']') continue;
      if (!std::isdigit(static_cast<unsigned char>(c))) return std::nullopt;
      digits += c;
    }
    if (digits.empty() || digits.size() > 2) return std::nullopt;
    return std::pair<int, size_t>(part, *ParseUint(digits));
  }
  return std::nullopt;
}

void Set(RawRecords& raw, size_t index, int part, uint64_t value, Dump& dump) {
  if (index >= kMaxRecords) {
    dump.problems.push_back(absl::StrFormat("record %d does not exist: BRBE has 64 at most", index));
    return;
  }
  auto& cell = raw[index].part[static_cast<size_t>(part)];
  if (cell && *cell != value) dump.problems.push_back(absl::StrFormat("%s of record %d is given twice with different values", std::string(kParts[part]), index));
  cell = value;
}

void Finish(const RawRecords& raw, Dump& dump) {
  size_t count = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (std::any_of(raw[i].part.begin(), raw[i].part.end(), [](const auto& p) { return p.has_value(); })) count = i + 1;
  }
  for (size_t i = 0; i < count; ++i) {
    const auto& p = raw[i].part;
    if (!p[0]) dump.problems.push_back(absl::StrFormat("BRBINF of record %d is missing: taken as invalid", i));
    Record record = DecodeRecord(p[0].value_or(0), p[1].value_or(0), p[2].value_or(0));
    const bool source = record.valid == Valid::kComplete || record.valid == Valid::kSourceOnly;
    const bool target = record.valid == Valid::kComplete || record.valid == Valid::kTargetOnly;
    if (source && !p[1]) dump.problems.push_back(absl::StrFormat("BRBSRC of record %d is missing: taken as 0", i));
    if (target && !p[2]) dump.problems.push_back(absl::StrFormat("BRBTGT of record %d is missing: taken as 0", i));
    dump.records.push_back(record);
  }
}

Status ParseText(std::string_view content, Dump& dump) {
  RawRecords raw;
  size_t bank = 0;
  std::string pending;
  size_t line_number = 0;
  for (std::string_view line : Split(content, '\n')) {
    ++line_number;
    line = line.substr(0, line.find('#'));
    std::string words(line);
    for (char& c : words) {
      if (c == '=' || c == ':' || c == ',' || c == ';' || c == '\t' || c == '\r') c = ' ';
    }
    for (std::string_view word : Split(words, ' ')) {
      if (word.empty()) continue;
      if (pending.empty()) {
        if (RecordRegister(word) || FindRegister(word) || Upper(word) == "BANK") pending = Upper(word);
        continue;  // anything else is decoration
      }
      auto value = HexNumber(word);
      if (!value) return InvalidArgument(absl::StrFormat("line %d: '%s' after %s is not a number", line_number, EscapeForTerminal(word), EscapeForTerminal(pending)));
      if (pending == "BANK") {
        if (*value > 1) return InvalidArgument(absl::StrFormat("line %d: there are banks 0 and 1 only", line_number));
        bank = *value;
      } else if (auto reg = RecordRegister(pending)) {
        Set(raw, reg->second + (reg->second < 32 ? 32 * bank : 0), reg->first, *value, dump);
      } else {
        dump.registers[FindRegister(pending)->name] = *value;
      }
      pending.clear();
    }
  }
  if (!pending.empty()) return InvalidArgument("the dump ends after " + EscapeForTerminal(pending) + ", without its value");
  Finish(raw, dump);
  return OkStatus();
}

std::optional<uint64_t> JsonNumber(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_string()) return HexNumber(value.get<std::string>());
  return std::nullopt;
}

Status JsonRecords(const nlohmann::json& list, size_t first, RawRecords& raw, Dump& dump) {
  if (!list.is_array()) return InvalidArgument("records must be a list");
  constexpr const char* kNames[3] = {"inf", "src", "tgt"};
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) return InvalidArgument(absl::StrFormat("record %d is not an object with inf, src, tgt", i));
    for (int part = 0; part < 3; ++part) {
      auto it = list[i].find(kNames[part]);
      if (it == list[i].end() || it->is_null()) continue;  // not given
      auto value = JsonNumber(*it);
      if (!value) return InvalidArgument(absl::StrFormat("record %d: %s is not a number or a hexadecimal string", i, kNames[part]));
      Set(raw, first + i, part, *value, dump);
    }
  }
  return OkStatus();
}

Status ParseJson(std::string_view content, Dump& dump) {
  auto json = nlohmann::json::parse(content.begin(), content.end(), nullptr, false);
  if (!json.is_object()) return InvalidArgument(json.is_discarded() ? "not JSON" : "a JSON dump is one object with \"records\" or \"banks\"");
  RawRecords raw;
  for (const auto& [key, value] : json.items()) {
    if (key == "records") {
      RETURN_IF_ERROR(JsonRecords(value, 0, raw, dump));
    } else if (key == "banks") {
      if (!value.is_array() || value.size() > 2) return InvalidArgument("banks must be a list of one or two lists");
      for (size_t bank = 0; bank < value.size(); ++bank) RETURN_IF_ERROR(JsonRecords(value[bank], 32 * bank, raw, dump));
    } else if (const RegisterSpec* spec = FindRegister(key)) {
      auto number = JsonNumber(value);
      if (!number) return InvalidArgument(std::string(spec->name) + " is not a number or a hexadecimal string");
      dump.registers[spec->name] = *number;
    } else if (key != "schema" && key != "comment") {
      dump.problems.push_back("unknown key '" + EscapeForTerminal(key) + "' left out");
    }
  }
  Finish(raw, dump);
  return OkStatus();
}

Status ParseBinary(std::string_view content, bool planes, Dump& dump) {
  if (content.size() % 24 != 0) return InvalidArgument(absl::StrFormat("a binary dump is 24 bytes a record (INF, SRC, TGT); %d is no multiple", content.size()));
  const size_t count = content.size() / 24;
  if (count > kMaxRecords) return InvalidArgument(absl::StrFormat("%d records: BRBE has 64 at most", count));
  for (size_t i = 0; i < count; ++i) {
    uint64_t part[3];
    for (size_t k = 0; k < 3; ++k) {
      const size_t word = planes ? k * count + i : i * 3 + k;
      part[k] = 0;
      for (size_t b = 0; b < 8; ++b) part[k] |= static_cast<uint64_t>(static_cast<unsigned char>(content[word * 8 + b])) << (8 * b);
    }
    dump.records.push_back(DecodeRecord(part[0], part[1], part[2]));
  }
  return OkStatus();
}

DumpFormat Guess(std::string_view content) {
  std::string_view trimmed = Trim(content.substr(0, 4096));
  const bool printable = std::all_of(content.begin(), content.end(), [](unsigned char c) { return c >= 0x20 || c == '\n' || c == '\t' || c == '\r'; });
  if (!printable) return DumpFormat::kTriples;
  return trimmed.starts_with("{") ? DumpFormat::kJson : DumpFormat::kText;
}

void AddProblems(Dump& dump) {
  auto idr = dump.registers.find("BRBIDR0_EL1");
  if (idr != dump.registers.end()) {
    const uint64_t numrec = idr->second & 0xff;
    if (dump.records.size() > numrec) dump.problems.push_back(absl::StrFormat("%d records, but BRBIDR0_EL1.NUMREC says %d", dump.records.size(), numrec));
  }
  bool ended = false;
  for (size_t i = 0; i < dump.records.size(); ++i) {
    const bool invalid = dump.records[i].valid == Valid::kInvalid;
    if (!invalid && ended) {
      dump.problems.push_back(absl::StrFormat("record %d is valid behind an invalid one: Linux stops reading at the first invalid record", i));
      break;
    }
    ended |= invalid;
  }
  for (const auto& [name, value] : dump.registers) {
    for (const std::string& problem : DecodeRegister(*FindRegister(name), value).problems) dump.problems.push_back(name + ": " + problem);
  }
}

}  // namespace

StatusOr<Dump> ParseDump(std::string_view content, DumpFormat format) {
  if (content.size() > kMaxBytes) return InvalidArgument("a dump has at most 1 MiB");
  if (format == DumpFormat::kAuto) format = Guess(content);
  Dump dump;
  switch (format) {
    case DumpFormat::kJson:
      RETURN_IF_ERROR(ParseJson(content, dump));
      break;
    case DumpFormat::kTriples:
    case DumpFormat::kPlanes:
      RETURN_IF_ERROR(ParseBinary(content, format == DumpFormat::kPlanes, dump));
      break;
    default:
      RETURN_IF_ERROR(ParseText(content, dump));
  }
  if (dump.records.empty() && dump.registers.empty()) return InvalidArgument("no BRBE registers found (expected names such as BRBINF0_EL1 with values)");
  AddProblems(dump);
  return dump;
}

}  // namespace brink::brbe
