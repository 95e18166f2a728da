#include "cli/options.h"

#include <algorithm>
#include <getopt.h>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"

namespace brink::cli {
namespace {

constexpr int kLongBase = 1000;  // getopt_long's return value of option i: kLongBase + i
constexpr int kHelp = 999;

std::string OptionLabel(const Option& option) {
  if (option.name) return std::string("--") + option.name;
  return std::string("-") + option.letter;
}

Status UnknownLong(const CommandSpec& spec, std::string_view word) {
  std::vector<std::string> names = {"--help"};
  for (const Option& option : spec.options) {
    if (option.name && !option.hidden) names.push_back(std::string("--") + option.name);
  }
  std::string_view name = word.substr(0, word.find('='));
  std::string message = "unknown option '" + EscapeForTerminal(name) + "'";
  auto nearest = NearestNames(name, names, 2);
  if (!nearest.empty()) message += "; did you mean " + nearest[0] + (nearest.size() > 1 ? " or " + nearest[1] : "") + "?";
  return InvalidArgument(message + " (see brink " + spec.name + " --help)");
}

// The exact long option a word names. Abbreviations are not accepted: a script must not change its meaning when a
// later version adds an option.
const Option* FindLong(const CommandSpec& spec, std::string_view name) {
  for (const Option& option : spec.options) {
    if (option.name && name == option.name) return &option;
  }
  return nullptr;
}

Status Apply(const Option& option, std::string_view value) {
  if (!option.set) return OkStatus();
  return Annotate(option.set(value), OptionLabel(option));
}

// What `peek` takes: a number, or a set of numbers (0-3, !1, +0, all).
bool LooksLikeNumber(std::string_view word) {
  return word == "all" || (!word.empty() && ((word[0] >= '0' && word[0] <= '9') || word[0] == '!' || word[0] == '+'));
}

}  // namespace

StatusOr<Parsed> ParseOptions(const CommandSpec& spec, std::span<const std::string> argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::string letters = "+:";
  std::vector<struct option> longs;
  for (size_t i = 0; i < spec.options.size(); ++i) {
    const Option& option = spec.options[i];
    int has = option.value == Value::kNone ? no_argument : option.value == Value::kRequired ? required_argument : optional_argument;
    if (option.letter) letters.append(1, option.letter).append(static_cast<size_t>(has), ':');
    if (option.name) longs.push_back({option.name, has, nullptr, kLongBase + static_cast<int>(i)});
  }
  bool own_h = std::any_of(spec.options.begin(), spec.options.end(), [](const Option& o) { return o.letter == 'h'; });
  if (!own_h) letters += "h";
  longs.push_back({"help", no_argument, nullptr, kHelp});
  longs.push_back({nullptr, 0, nullptr, 0});

  Parsed parsed;
  const int count = static_cast<int>(argv.size());
  optind = 0;  // glibc: start over
  opterr = 0;
  while (true) {
    int word_index = optind == 0 ? 1 : optind;
    int c = getopt_long(count, words.data(), letters.c_str(), longs.data(), nullptr);
    if (c == -1) break;
    std::string_view word = word_index < count ? std::string_view(argv[static_cast<size_t>(word_index)]) : std::string_view();
    bool is_long = word.size() > 2 && word.substr(0, 2) == "--";
    if (is_long && c != '?' && c != ':') {
      std::string_view name = word.substr(2, word.find('=') == std::string_view::npos ? std::string_view::npos : word.find('=') - 2);
      if (name != "help" && !FindLong(spec, name)) return UnknownLong(spec, word);
      if (name == "help" && c != kHelp) return UnknownLong(spec, word);
    }
    if (c == kHelp || (c == 'h' && !own_h)) {
      parsed.help = true;
      return parsed;
    }
    if (c == ':') return InvalidArgument("option '" + EscapeForTerminal(word) + "' needs a value");
    if (c == '?') {
      if (!is_long && word.substr(0, 2) == "-?") {
        parsed.help = true;
        return parsed;
      }
      if (!is_long) return InvalidArgument(absl::StrFormat("unknown option '-%c' (see brink %s --help)", optopt ? optopt : '?', spec.name));
      std::string_view name = word.substr(2, word.find('=') - 2);
      if (word.find('=') != std::string_view::npos && FindLong(spec, name)) {
        return InvalidArgument("option '--" + std::string(name) + "' takes no value");
      }
      return UnknownLong(spec, word);
    }
    const Option* option = nullptr;
    if (c >= kLongBase) {
      option = &spec.options[static_cast<size_t>(c - kLongBase)];
    } else {
      auto it = std::find_if(spec.options.begin(), spec.options.end(), [&](const Option& o) { return o.letter == c; });
      option = &*it;
    }
    std::string_view value = optarg ? optarg : "";
    if (!optarg && option->peek && option->value == Value::kOptional && optind < count && LooksLikeNumber(argv[static_cast<size_t>(optind)])) {
      value = words[optind++];
    }
    RETURN_IF_ERROR(Apply(*option, value));
    if (option->writes && !value.empty()) parsed.outputs.emplace_back(value);
  }
  size_t first = static_cast<size_t>(std::min(optind, count));
  parsed.after_dashes = first > 1 && argv[first - 1] == "--";
  parsed.rest.assign(argv.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(first, 1)), argv.end());
  return parsed;
}

Setter StoreString(std::string* out) {
  return [out](std::string_view v) {
    *out = std::string(v);
    return OkStatus();
  };
}

Setter StoreFlag(bool* out, bool value) {
  return [out, value](std::string_view) {
    *out = value;
    return OkStatus();
  };
}

Setter StoreUint(uint64_t* out, uint64_t min, uint64_t max) {
  return [=](std::string_view v) -> Status {
    ASSIGN_OR_RETURN(uint64_t value, ParseUint(v));
    if (value < min || value > max) return InvalidArgument(absl::StrFormat("%d is not within %d..%d", value, min, max));
    *out = value;
    return OkStatus();
  };
}

Setter StoreDuration(uint64_t* out_ns, uint64_t default_unit_ns) {
  return [=](std::string_view v) -> Status {
    ASSIGN_OR_RETURN(*out_ns, ParseDurationNs(v, default_unit_ns));
    return OkStatus();
  };
}

Setter StoreSize(uint64_t* out) {
  return [=](std::string_view v) -> Status {
    ASSIGN_OR_RETURN(*out, ParseSize(v));
    return OkStatus();
  };
}

Setter AppendString(std::vector<std::string>* out) {
  return [out](std::string_view v) {
    out->emplace_back(v);
    return OkStatus();
  };
}

}  // namespace brink::cli
