#include "cli/manual.h"

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::cli {
namespace {

using Commands = std::span<const CommandSpec* const>;

// The option's help as one line without what shells give a meaning inside single quotes and zsh's specs.
std::string OneLine(std::string_view help) {
  std::string out;
  for (char c : help) {
    if (c == '\n') out += ' ';
    else if (c == '\'') out += "’";
    else if (c == '[') out += '(';
    else if (c == ']') out += ')';
    else if (c == ':') out += ',';
    else if (c != '\\') out += c;
  }
  return out;
}

// "-F --freq" of each option that is shown, and --help.
std::string OptionWords(const CommandSpec& spec) {
  std::string out;
  for (const Option& option : spec.options) {
    if (option.hidden) continue;
    if (option.letter) absl::StrAppendFormat(&out, "-%c ", option.letter);
    if (option.name) absl::StrAppendFormat(&out, "--%s ", option.name);
  }
  return out + "--help";
}

// Options whose value is the next word, as alternatives of a case pattern; "" where there is none.
std::string ValuePattern(const CommandSpec& spec) {
  std::string out;
  for (const Option& option : spec.options) {
    if (option.value != Value::kRequired) continue;
    if (option.letter) absl::StrAppendFormat(&out, "%s-%c", out.empty() ? "" : "|", option.letter);
    if (option.name) absl::StrAppendFormat(&out, "%s--%s", out.empty() ? "" : "|", option.name);
  }
  return out;
}

std::string Names(Commands commands) {
  std::string out;
  for (const CommandSpec* spec : commands) absl::StrAppendFormat(&out, "%s%s", out.empty() ? "" : " ", spec->name);
  return out;
}

// Behind `--` and behind the first word that is no option, the words are another program's: its files and commands.
std::string Bash(Commands commands) {
  std::string out = absl::StrFormat(R"(# bash completion of brink; made by `brink completions bash`
_brink() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "%s help man completions --help --version" -- "$word"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [ "${COMP_WORDS[i]}" = -- ]; then
      if [ "$i" -eq $((COMP_CWORD - 1)) ]; then COMPREPLY=($(compgen -c -- "$word")); fi
      return
    fi
  done
  case ${COMP_WORDS[1]} in
  help | man) COMPREPLY=($(compgen -W "%s" -- "$word")) ;;
  completions) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")) ;;
)", Names(commands), Names(commands));
  for (const CommandSpec* spec : commands) {
    absl::StrAppendFormat(&out, "  %s)\n", spec->name);
    std::string values = ValuePattern(*spec);
    if (!values.empty()) absl::StrAppendFormat(&out, "    case $before in %s) return ;; esac\n", values);
    absl::StrAppendFormat(&out, "    [ \"${word:0:1}\" = - ] && COMPREPLY=($(compgen -W \"%s\" -- \"$word\"))\n    ;;\n", OptionWords(*spec));
  }
  return out + "  esac\n}\ncomplete -o default -F _brink brink\n";
}

std::string ZshOption(const Option& option) {
  std::string value = option.value == Value::kNone ? "" : absl::StrFormat(":%s:_files", *option.meta ? OneLine(option.meta) : "value");
  std::string text = OneLine(option.help), out;
  const char* optional = option.value == Value::kOptional ? "-" : "";
  if (option.letter) {
    const char* joined = option.value == Value::kNone ? "" : option.value == Value::kOptional ? "-" : "+";
    absl::StrAppendFormat(&out, " \\\n      '*-%c%s[%s]%s'", option.letter, joined, text, option.value == Value::kOptional ? ":" + value : value);
  }
  if (option.name) {
    const char* joined = option.value == Value::kNone ? "" : "=";
    absl::StrAppendFormat(&out, " \\\n      '*--%s%s%s[%s]%s'", option.name, joined, optional, text, option.value == Value::kOptional ? ":" + value : value);
  }
  return out;
}

std::string Zsh(Commands commands) {
  std::string out = "#compdef brink\n# zsh completion of brink; made by `brink completions zsh`\n_brink() {\n  local -a commands=(\n";
  for (const CommandSpec* spec : commands) absl::StrAppendFormat(&out, "    '%s:%s'\n", spec->name, OneLine(spec->summary));
  out += "    'help:options of a command'\n    'man:man page source of a command'\n    'completions:completion script of a shell'\n  )\n"
         "  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
         "  local command=${words[2]}\n  shift words\n  ((CURRENT--))\n  case $command in\n"
         "  help | man) _describe command commands ;;\n  completions) _values shell bash zsh fish ;;\n";
  for (const CommandSpec* spec : commands) {
    absl::StrAppendFormat(&out, "  %s)\n    _arguments -S", spec->name);
    for (const Option& option : spec->options) {
      if (!option.hidden) out += ZshOption(option);
    }
    out += " \\\n      '(- *)--help[this text]' \\\n      '*::word:_default'\n    ;;\n";
  }
  return out + "  esac\n}\n_brink \"$@\"\n";
}

std::string Fish(Commands commands) {
  std::string out = absl::StrFormat("# fish completion of brink; made by `brink completions fish`\nset -l commands %s help man completions\n", Names(commands));
  for (const CommandSpec* spec : commands) {
    absl::StrAppendFormat(&out, "complete -c brink -n 'not __fish_seen_subcommand_from $commands' -f -a %s -d '%s'\n", spec->name, OneLine(spec->summary));
  }
  for (const char* word : {"help", "man"}) absl::StrAppendFormat(&out, "complete -c brink -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", word, Names(commands));
  out += "complete -c brink -n '__fish_seen_subcommand_from completions' -f -a 'bash zsh fish'\n";
  for (const CommandSpec* spec : commands) {
    for (const Option& option : spec->options) {
      if (option.hidden) continue;
      absl::StrAppendFormat(&out, "complete -c brink -n '__fish_seen_subcommand_from %s'", spec->name);
      if (option.letter) absl::StrAppendFormat(&out, " -s %c", option.letter);
      if (option.name) absl::StrAppendFormat(&out, " -l %s", option.name);
      absl::StrAppendFormat(&out, "%s -d '%s'\n", option.value == Value::kRequired ? " -r" : "", OneLine(option.help));
    }
  }
  return out;
}

}  // namespace

std::string ManOverview(Commands commands) {
  std::string out =
      "brink(1)\n\n# NAME\n\nbrink - branch records with eBPF, on machines with and without branch hardware\n\n# SYNOPSIS\n\n"
      "*brink* COMMAND \\[options\\]\n\n# COMMANDS\n";
  for (const CommandSpec* spec : commands) absl::StrAppendFormat(&out, "\n*brink-%s*(1)\n\t%s\n", spec->name, ScdocEscape(spec->summary));
  return out +
         "\n# EXIT STATUS\n\n*0*\n\tDone.\n\n*1*\n\tFailed; one line says what, why and what to do.\n\n*2*\n\tUsage.\n\n"
         "*3*\n\tDone, but incomplete: damage was skipped, or more was lost than _--max-loss_ allows.\n\n"
         "*4*\n\tThe condition that was asked for was met.\n\n"
         "With a command behind *--* the status is the command's own, 128 + signal, 125 (brink failed), 126 (not executable)\n"
         "or 127 (not found).\n";
}

StatusOr<std::string> CompletionScript(std::string_view shell, Commands commands) {
  if (shell == "bash") return Bash(commands);
  if (shell == "zsh") return Zsh(commands);
  if (shell == "fish") return Fish(commands);
  return InvalidArgument("'" + EscapeForTerminal(shell) + "' is neither bash, zsh nor fish");
}

}  // namespace brink::cli
