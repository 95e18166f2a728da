#include "cli/report_options.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"

namespace brink::cli {
namespace {

Setter StoreIds(std::vector<int32_t>* out) {
  return [out](std::string_view text) -> Status {
    for (std::string_view word : Split(text, ',')) {
      ASSIGN_OR_RETURN(uint64_t id, ParseUint(Trim(word)));
      if (id > INT32_MAX) return InvalidArgument("no process has the number " + EscapeForTerminal(word));
      out->push_back(static_cast<int32_t>(id));
    }
    return OkStatus();
  };
}

Setter AppendList(std::vector<std::string>* out) {
  return [out](std::string_view text) -> Status {
    for (std::string_view word : Split(text, ',')) out->emplace_back(Trim(word));
    return OkStatus();
  };
}

// "1.5,2": seconds of the recording's clock; either may be left out.
Status StoreTime(std::string_view text, report::LoadOptions* load) {
  size_t comma = text.find(',');
  auto seconds = [](std::string_view word, uint64_t none) -> StatusOr<uint64_t> {
    word = Trim(word);
    if (word.empty()) return none;
    return ParseDurationNs(word);
  };
  ASSIGN_OR_RETURN(load->time_from, seconds(text.substr(0, comma), 0));
  if (comma != std::string_view::npos) {
    ASSIGN_OR_RETURN(load->time_to, seconds(text.substr(comma + 1), UINT64_MAX));
  }
  return OkStatus();
}

}  // namespace

void ReportInputs::AddOptions(std::vector<Option>* options, bool with_input) {
  auto add = [&](Option option) { options->push_back(std::move(option)); };
  if (with_input) {
    add({.letter = 'i', .name = "input", .value = Value::kRequired, .meta = "FILE", .group = "Input",
         .help = "The recording, brink's or perf's; - is the standard input. Without it: brink.data.", .set = StoreString(&input)});
  }
  add({.name = "pid", .value = Value::kRequired, .meta = "PIDS", .group = "Filters", .help = "Only samples of these processes.", .set = StoreIds(&load.pids)});
  add({.name = "tid", .value = Value::kRequired, .meta = "TIDS", .group = "Filters", .help = "Only samples of these threads.", .set = StoreIds(&load.tids)});
  add({.letter = 'c', .name = "comm", .value = Value::kRequired, .meta = "NAMES", .group = "Filters", .help = "Only samples of threads with these names.", .set = AppendList(&load.comms)});
  add({.name = "time", .value = Value::kRequired, .meta = "FROM,TO", .group = "Filters", .help = "Only samples within these times, in seconds of the recording's clock; either can be left out.",
       .set = [this](std::string_view text) { return StoreTime(text, &load); }});
  add({.name = "where", .value = Value::kRequired, .meta = "EXPR", .group = "Filters", .help = "Only samples and branches for which EXPR is true; several are ANDed (see brink filter --help).", .set = AppendString(&load.where)});
  add({.name = "brbe-model", .value = Value::kRequired, .meta = "WORDS", .group = "Filters", .help = "Send the stacks through a model of Arm's BRBE first: numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B.", .set = [this](std::string_view v) -> Status {
         ASSIGN_OR_RETURN(load.brbe_model, brbe::ParseStreamOptions(v));
         return OkStatus();
       }});
  add({.name = "symfs", .value = Value::kRequired, .meta = "DIR", .group = "Symbols", .help = "Look for recorded files below DIR only.", .set = StoreString(&load.symbols.locate.symfs)});
  add({.name = "debug-dir", .value = Value::kRequired, .meta = "DIR", .group = "Symbols", .help = "A further place of separate debug files, beside /usr/lib/debug.", .set = AppendString(&load.symbols.locate.debug_dirs)});
  add({.letter = 'k', .name = "vmlinux", .value = Value::kRequired, .meta = "FILE", .group = "Symbols", .help = "Kernel image with symbols. Without it: /proc/kallsyms, if the recording is of the running kernel.", .set = StoreString(&load.symbols.vmlinux)});
  add({.name = "kallsyms", .value = Value::kRequired, .meta = "FILE", .group = "Symbols", .help = "A saved /proc/kallsyms of the recorded kernel.",
       .set = [this](std::string_view path) {
         load.symbols.kallsyms = std::string(path);
         load.symbols.kallsyms_given = true;
         return OkStatus();
       }});
  add({.name = "no-demangle", .group = "Symbols", .help = "Names as the compiler made them.", .set = StoreFlag(&no_demangle)});
  add({.name = "no-lines", .group = "Symbols", .help = "Do not read debug information for source lines.", .set = StoreFlag(&no_lines)});
  add({.name = "color", .value = Value::kRequired, .meta = "auto|always|never", .group = "Output", .help = "Colours; auto: on a terminal.",
       .set = [this](std::string_view value) -> Status {
         if (value != "auto" && value != "always" && value != "never") return InvalidArgument("'" + EscapeForTerminal(value) + "' is none of auto, always, never");
         colour = std::string(value);
         return OkStatus();
       }});
}

Status ReportInputs::Finish() {
  load.symbols.demangle = !no_demangle;
  load.symbols.lines = !no_lines;
  return OkStatus();
}

bool ReportInputs::UseColour() const {
  if (colour != "auto") return colour == "always";
  return isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
}

size_t TerminalWidth() {
  struct winsize size = {};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

int ReportDamage(const char* command, const report::RecordingFacts& facts) {
  for (const std::string& line : facts.filter_lines) std::fprintf(stderr, "brink %s: %s\n", command, line.c_str());
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < facts.problems.size() && i < kShown; ++i) {
    std::fprintf(stderr, "brink %s: %s: %s\n", command, EscapeForTerminal(facts.path).c_str(), EscapeForTerminal(facts.problems[i]).c_str());
  }
  if (facts.problem_count > kShown) std::fprintf(stderr, "brink %s: %zu damaged places in all; the rest was read\n", command, static_cast<size_t>(facts.problem_count));
  return facts.problem_count ? kIncomplete : kDone;
}

Status WriteOutput(const std::string& path, const std::string& text) {
  if (path.empty() || path == "-") return WriteAll(STDOUT_FILENO, text.data(), text.size());
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  return Annotate(WriteAll(fd.get(), text.data(), text.size()), path);
}

}  // namespace brink::cli
