// The commands of brink. Each lives in cmd_NAME.cc: it parses its words, calls one thing and prints.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options.h"

namespace brink::cli {

class Command {
 public:
  virtual ~Command() = default;
  // Table bound to this object's own fields; valid as long as the object.
  virtual const CommandSpec& spec() const = 0;
  // After a successful parse. The result is the exit status; a Status becomes one line on stderr and status 1
  // (2 for INVALID_ARGUMENT).
  virtual StatusOr<int> Run(const Parsed& parsed) = 0;
  // Asked after the parse: what the command writes if it only reads what others wrote and so runs confined
  // (confine/confine.h); nothing for a command that must do more. `parsed.outputs` has the options' part.
  virtual std::optional<std::vector<std::string>> Confined(const Parsed&) const { return std::nullopt; }
};

struct CommandEntry {
  const char* name;
  std::unique_ptr<Command> (*make)();
};

// In the order of the help text.
std::span<const CommandEntry> AllCommands();

// brink's whole main: picks the command, parses, runs, reports. Also `brink help NAME`, `brink --version`,
// `brink man [NAME]` (scdoc source), `brink completions SHELL`.
int Main(std::span<const std::string> argv);

}  // namespace brink::cli
