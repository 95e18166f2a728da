#include "cli/commands.h"

#include <array>
#include <cstdio>
#include <optional>

#include <absl/strings/str_format.h>

#include "base/out_of_memory.h"
#include "base/strings.h"
#include "cli/command_list.inc"
#include "cli/manual.h"
#include "cli/version.h"
#include "confine/confine.h"

namespace brink::cli {

// BRINK_COMMANDS(X) lists what the build found as cmd_NAME.cc, in the order of the help text: X(name, MakeName).
#define BRINK_DECLARE_COMMAND(name, make) std::unique_ptr<Command> make();
BRINK_COMMANDS(BRINK_DECLARE_COMMAND)
#undef BRINK_DECLARE_COMMAND

namespace {

#define BRINK_COMMAND_ENTRY(name, make) {#name, make},
constexpr CommandEntry kCommands[] = {BRINK_COMMANDS(BRINK_COMMAND_ENTRY)};
#undef BRINK_COMMAND_ENTRY

std::string Overview() {
  std::string out =
      "brink - branch records with eBPF, on machines with and without branch hardware\n\nUsage: brink COMMAND [options]\n\nCommands:\n";
  for (const CommandEntry& entry : AllCommands()) {
    absl::StrAppendFormat(&out, "  %-10s %s\n", entry.name, entry.make()->spec().summary);
  }
  out += "\n`brink COMMAND --help` shows the options of a command with examples.\n";
  return out;
}

int Fail(std::string_view command, const Status& status) {
  std::fprintf(stderr, "brink %s: %s\n", std::string(command).c_str(), Message(status).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? kUsage : kFailed;
}

const CommandEntry* Find(std::string_view name) {
  for (const CommandEntry& entry : AllCommands()) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

int UnknownCommand(std::string_view name) {
  std::vector<std::string> names;
  for (const CommandEntry& entry : AllCommands()) names.emplace_back(entry.name);
  auto nearest = NearestNames(name, names, 1);
  std::fprintf(stderr, "brink: unknown command '%s'%s; see brink --help\n", EscapeForTerminal(name).c_str(),
               nearest.empty() ? "" : ("; did you mean '" + nearest[0] + "'?").c_str());
  return kUsage;
}

// brink man | completions SHELL: made of all tables together. Nothing for other words.
std::optional<StatusOr<std::string>> Manual(std::span<const std::string> argv) {
  const bool man = argv[1] == "man" && argv.size() == 2;
  if (!man && argv[1] != "completions") return std::nullopt;
  std::vector<std::unique_ptr<Command>> commands;
  std::vector<const CommandSpec*> specs;
  for (const CommandEntry& entry : AllCommands()) {
    commands.push_back(entry.make());
    specs.push_back(&commands.back()->spec());
  }
  if (man) return ManOverview(specs);
  if (argv.size() != 3) return InvalidArgument("say which: bash, zsh or fish");
  return CompletionScript(argv[2], specs);
}

}  // namespace

std::span<const CommandEntry> AllCommands() { return kCommands; }

namespace {

// A link named cyclictest is `brink latency` with cyclictest's format.
std::vector<std::string> WordsOf(std::span<const std::string> argv) {
  std::vector<std::string> words(argv.begin(), argv.end());
  if (words.empty()) return words;
  std::string name = words[0].substr(words[0].rfind('/') + 1);
  if (name == "cyclictest") words.insert(words.begin() + 1, {"latency", "--format=cyclictest"});
  return words;
}

}  // namespace

int Main(std::span<const std::string> words) {
  const std::vector<std::string> all = WordsOf(words);
  std::span<const std::string> argv = all;
  if (argv.size() < 2 || argv[1] == "--help" || argv[1] == "-h" || (argv[1] == "help" && argv.size() == 2)) {
    std::fputs(Overview().c_str(), argv.size() < 2 ? stderr : stdout);
    return argv.size() < 2 ? kUsage : kDone;
  }
  if (argv[1] == "--version" || argv[1] == "-V") {
    std::fputs(VersionText().c_str(), stdout);
    return kDone;
  }
  if ((argv[1] == "help" || argv[1] == "man") && argv.size() == 3) {
    const CommandEntry* entry = Find(argv[2]);
    if (!entry) return UnknownCommand(argv[2]);
    auto command = entry->make();
    std::fputs((argv[1] == "man" ? ManSource(command->spec()) : HelpText(command->spec())).c_str(), stdout);
    return kDone;
  }
  if (auto text = Manual(argv)) {
    if (!text->ok()) return Fail(argv[1], text->status());
    std::fputs((*text)->c_str(), stdout);
    return kDone;
  }
  const CommandEntry* entry = Find(argv[1]);
  if (!entry) return UnknownCommand(argv[1]);
  auto command = entry->make();
  auto parsed = ParseOptions(command->spec(), argv.subspan(1));
  if (!parsed.ok()) {
    Fail(entry->name, parsed.status());
    return kUsage;
  }
  if (parsed->help) {
    std::fputs(HelpText(command->spec()).c_str(), stdout);
    return kDone;
  }
  EndWhenOutOfMemory(parsed->rest.empty() ? kFailed : kBrinkFailed);
  if (auto outputs = command->Confined(*parsed)) (void)Confine({.outputs = *outputs});
  auto status = command->Run(*parsed);
  return status.ok() ? *status : Fail(entry->name, status.status());
}

}  // namespace brink::cli
