// --help and man page text from an option table.
#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "cli/options.h"

namespace brink::cli {
namespace {

constexpr size_t kTextColumn = 28;

std::string Label(const Option& option) {
  std::string label = option.letter ? std::string("-") + option.letter : "   ";
  if (option.name) label += std::string(option.letter ? ", --" : " --") + option.name;
  if (option.value == Value::kRequired) label += std::string(option.name ? "=" : " ") + option.meta;
  if (option.value == Value::kOptional) label += std::string(option.name ? "[=" : "[") + option.meta + "]";
  return label;
}

// A heading stands once: commands put shared lists of options together, so those of one heading may be apart. What comes in
// and what is asked for come first, where it goes to last, the rest in the order of the table.
std::vector<const Option*> ByHeading(const CommandSpec& spec) {
  std::vector<std::string_view> headings = {"Input", "What"};
  for (const Option& option : spec.options) {
    const std::string_view heading = option.group;
    if (heading != "Output" && std::find(headings.begin(), headings.end(), heading) == headings.end()) headings.push_back(heading);
  }
  headings.push_back("Output");
  std::vector<const Option*> ordered;
  for (std::string_view heading : headings) {
    for (const Option& option : spec.options) {
      if (!option.hidden && heading == option.group) ordered.push_back(&option);
    }
  }
  return ordered;
}

}  // namespace

std::string ScdocEscape(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (char c : text) {
    if (line_start && c == ' ') continue;
    if (line_start && (c == '-' || c == '.' || c == '|' || c == '!' || c == ';')) out += '\\';
    line_start = c == '\n';
    if (c == '_' || c == '*' || c == '\\' || c == '#' || c == '[' || c == '~') out += '\\';
    out += c;
  }
  return out;
}

std::string HelpText(const CommandSpec& spec) {
  std::string out = absl::StrFormat("brink %s - %s\n\nUsage: brink %s %s\n", spec.name, spec.summary, spec.name, spec.usage);
  if (*spec.description) absl::StrAppendFormat(&out, "\n%s\n", spec.description);
  std::string_view group = "\1";
  for (const Option* entry : ByHeading(spec)) {
    const Option& option = *entry;
    if (group != option.group) {
      group = option.group;
      absl::StrAppendFormat(&out, "\n%s:\n", *option.group ? option.group : "Options");
    }
    std::string line = "  " + Label(option);
    bool fits = line.size() + 2 <= kTextColumn;
    if (fits) line.resize(kTextColumn, ' ');
    out += line;
    bool first = fits;
    for (std::string_view piece : Split(option.help, '\n')) {
      if (!first) out += "\n" + std::string(kTextColumn, ' ');
      out += piece;
      first = false;
    }
    out += '\n';
  }
  absl::StrAppendFormat(&out, "\nOther:\n%s%s\n", std::string("  -h, --help") + std::string(kTextColumn - 12, ' '), "this text");
  if (!spec.examples.empty()) {
    out += "\nExamples:\n";
    for (const Example& example : spec.examples) absl::StrAppendFormat(&out, "  %s\n      %s\n", example.command, example.text);
  }
  return out;
}

std::string ManSource(const CommandSpec& spec) {
  std::string out = absl::StrFormat("brink-%s(1)\n\n# NAME\n\nbrink-%s - %s\n\n# SYNOPSIS\n\n*brink %s* %s\n", spec.name, spec.name,
                                    ScdocEscape(spec.summary), spec.name, ScdocEscape(spec.usage));
  if (*spec.description) absl::StrAppendFormat(&out, "\n# DESCRIPTION\n\n%s\n", ScdocEscape(spec.description));
  out += "\n# OPTIONS\n";
  for (const Option* entry : ByHeading(spec)) {
    const Option& option = *entry;
    std::string help = ScdocEscape(option.help);
    for (size_t at = 0; (at = help.find('\n', at)) != std::string::npos; at += 2) help.replace(at, 1, "\n\t");
    absl::StrAppendFormat(&out, "\n*%s*\n\t%s\n", ScdocEscape(Trim(Label(option))), help);
  }
  if (!spec.examples.empty()) out += "\n# EXAMPLES\n";
  for (const Example& example : spec.examples) {
    absl::StrAppendFormat(&out, "\n*%s*\n\t%s\n", ScdocEscape(example.command), ScdocEscape(example.text));
  }
  return out;
}

}  // namespace brink::cli
