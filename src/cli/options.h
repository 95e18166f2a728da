// Options are data: one table a command gives parsing (getopt_long), --help, the man page and the completions.
//
// Rules: parsing stops at the first word that is no option ("+" mode), so `record -F 99 -- cmd -x` and
// `record -F 99 cmd -x` leave cmd's own options alone. Abbreviated long options are refused. `--name=VALUE`,
// `--name VALUE`, `-xVALUE` and `-x VALUE` are the same; an optional value is `--name=VALUE` or `-xVALUE` only,
// unless `peek` is set (cyclictest's `-a 3`): then a following word that looks like a number or a set is taken too.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::cli {

enum class Value { kNone, kRequired, kOptional };

// Takes the value ("" where there is none) and stores it; the error names what was wrong with it.
using Setter = std::function<Status(std::string_view value)>;

struct Option {
  char letter = 0;             // 0: long only
  const char* name = nullptr;  // long name; nullptr: letter only
  Value value = Value::kNone;
  const char* meta = "";       // shown for the value: FILE, HZ, PID
  const char* group = "";      // heading in --help
  const char* help = "";       // one sentence; may hold newlines for paragraphs
  bool writes = false;         // the value is a file that the command writes (Parsed::outputs)
  Setter set;
  bool peek = false;
  bool hidden = false;         // left out of --help (test-only)
};

struct Example {
  const char* command;
  const char* text;
};

// Everything that is said about one command. `run` gets the words after the options; its result is the exit status.
struct CommandSpec {
  const char* name = "";
  const char* summary = "";                // one line
  const char* usage = "";                  // after "brink NAME "
  const char* description = "";            // paragraphs for --help and the man page
  std::vector<Option> options;
  std::vector<Example> examples;
};

// Exit statuses of brink (design section 6).
enum ExitStatus { kDone = 0, kFailed = 1, kUsage = 2, kIncomplete = 3, kConditionMet = 4, kBrinkFailed = 125 };

struct Parsed {
  std::vector<std::string> rest;  // words after the options, "--" removed
  bool after_dashes = false;      // a "--" stood before `rest`
  std::vector<std::string> outputs;  // values of the options that name files to write
  bool help = false;              // --help was asked for (and nothing else is to be done)
};

// argv[0] is the command's name. Errors are usage errors (status 2): "unknown option --jso; did you mean --json?".
StatusOr<Parsed> ParseOptions(const CommandSpec& spec, std::span<const std::string> argv);

// Texts made from the table.
std::string HelpText(const CommandSpec& spec);
std::string ManSource(const CommandSpec& spec);  // scdoc source of brink-NAME(1)
std::string ScdocEscape(std::string_view text);  // what scdoc would give a meaning

// Setters for the usual types.
Setter StoreString(std::string* out);
Setter StoreFlag(bool* out, bool value = true);
Setter StoreUint(uint64_t* out, uint64_t min, uint64_t max);
Setter StoreDuration(uint64_t* out_ns, uint64_t default_unit_ns);
Setter StoreSize(uint64_t* out);
Setter AppendString(std::vector<std::string>* out);

}  // namespace brink::cli
