#include "filter/values.h"

#include <array>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "filter/names.h"

namespace brink::filter {
namespace {

struct Alias {
  std::string_view word;
  FieldName name;
};

constexpr std::array<Alias, 18> kAliases = {{{"tgid", {Field::kPid}},
                                             {"cgroup_id", {Field::kCgroup}},
                                             {"cgroup.id", {Field::kCgroup}},
                                             {"from_priv", {Field::kFromPriv}},
                                             {"to.priv", {Field::kToPriv}},
                                             {"to_priv", {Field::kToPriv}},
                                             {"predicted", {Field::kMispredicted, false, true}},
                                             {"mispred", {Field::kMispredicted}},
                                             {"mispredict", {Field::kMispredicted}},
                                             {"in-tx", {Field::kInTx}},
                                             {"from_symbol", {Field::kFromSymbol}},
                                             {"symbol_from", {Field::kFromSymbol}},
                                             {"to_symbol", {Field::kToSymbol}},
                                             {"symbol_to", {Field::kToSymbol}},
                                             {"from.dso", {Field::kFromObject}},
                                             {"to.dso", {Field::kToObject}},
                                             {"symbol", {Field::kFromSymbol, true}},
                                             {"object", {Field::kFromObject, true}}}};

struct Hint {
  std::string_view word;
  std::string_view text;
};

constexpr std::array<Hint, 12> kHints = {{
    {"type", "the kind of a branch is `kind`"},
    {"branch_type", "the kind of a branch is `kind`"},
    {"privilege", "write `priv == user` (of the target) or `from.priv == user`"},
    {"user", "write `priv == user`"},
    {"kernel", "write `priv == kernel`"},
    {"dso", "write `object`, `from.object` or `to.object`"},
    {"sym", "write `symbol`, `from.symbol` or `to.symbol`"},
    {"address", "write `from` or `to`"},
    {"addr", "write `from` or `to`"},
    {"mpred", "write `mispredicted`; no hardware filters on it"},
    {"process", "write `pid` or `comm`"},
    {"thread", "write `tid`"},
}};

Status Wanted(std::string_view text, std::string_view what) {
  return InvalidArgument("'" + EscapeForTerminal(text) + "' is not " + std::string(what));
}

StatusOr<uint64_t> ParseSigned(std::string_view text, bool minus) {
  uint64_t magnitude = 0;
  if (auto error = ErrnoByName(text)) {
    magnitude = static_cast<uint64_t>(*error);
  } else {
    auto number = ParseUint(text);
    if (!number.ok()) return Wanted(text, "a number (10, -1, 0x40) or an errno name (-EACCES)");
    magnitude = *number;
  }
  if (minus && magnitude > uint64_t{1} << 63) return Wanted(text, "within 64 bits");
  return ToBiased(static_cast<int64_t>(minus ? 0 - magnitude : magnitude));
}

}  // namespace

StatusOr<uint64_t> ParseValue(Field field, bool is_signed, std::string_view text, bool minus) {
  if (is_signed) return ParseSigned(text, minus);
  const FieldInfo& info = Info(field);
  if (minus) return InvalidArgument(std::string(info.name) + " is never negative");
  if (info.type == ValueType::kDuration) return ParseDurationNs(text);
  auto number = ParseUint(text);
  if (number.ok()) {
    if ((field == Field::kPid || field == Field::kTid || field == Field::kCpu || field == Field::kUid) && *number > UINT32_MAX) {
      return Wanted(text, "within 32 bits");
    }
    return *number;
  }
  // A probe's value may be a time in ns (ctx.duration > 5ms).
  if (field == Field::kExternal) {
    if (auto duration = ParseDurationNs(text, 1); duration.ok()) return *duration;
  }
  if (info.type == ValueType::kAddress) {
    return InvalidArgument("'" + EscapeForTerminal(text) + "' is not an address such as 0x401000" +
                           (field == Field::kIp ? std::string() : absl::StrFormat("; for a function write %s.symbol == %s", info.name, EscapeForTerminal(text))));
  }
  return Wanted(text, "a number such as 100 or 0x64");
}

std::optional<FieldName> FindField(std::string_view word) {
  for (const Alias& alias : kAliases) {
    if (alias.word == word) return alias.name;
  }
  for (const FieldInfo& info : AllFields()) {
    if (info.name == word && info.field != Field::kExternal) return FieldName{info.field};
  }
  return std::nullopt;
}

std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  for (const FieldInfo& info : AllFields()) {
    std::string_view name = info.name;
    if (name.find(' ') == std::string_view::npos && info.field != Field::kExternal) names.emplace_back(name);
  }
  for (std::string_view extra : {"predicted", "symbol", "object", "to.priv", "exclude", "include", "within", "crossing", "not"}) {
    names.emplace_back(extra);
  }
  return names;
}

std::string HintFor(std::string_view word) {
  for (const Hint& hint : kHints) {
    if (hint.word == word) return std::string(hint.text);
  }
  if (ValueMask(ValueType::kKind, word)) return absl::StrFormat("write `kind == %s`", std::string(word));
  return "";
}

}  // namespace brink::filter
