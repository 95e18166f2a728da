// brink cfi replay|explain: control-flow integrity of a recording.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/fd.h"
#include "base/strings.h"
#include "cfi/event_text.h"
#include "cfi/replay.h"
#include "cli/commands.h"
#include "cli/interleave.h"

namespace brink::cli {
namespace {

class CfiCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    ASSIGN_OR_RETURN(std::vector<std::string> words, TakeLaterOptions(spec_, parsed));
    if (words.size() != 2 || (words[0] != "replay" && words[0] != "explain")) {
      return InvalidArgument("say brink cfi replay FILE, or brink cfi explain EVENT");
    }
    return words[0] == "replay" ? RunReplay(words[1]) : RunExplain(words[1]);
  }

 private:
  StatusOr<int> RunReplay(const std::string& path) {
    ASSIGN_OR_RETURN(cfi::ReplayReport report, cfi::Replay(path, options_));
    std::string out;
    size_t number = 0, hidden = 0;
    bool failed = false;
    for (const cfi::Event& event : report.events) {
      failed |= fail_on_ && event.violation.severity >= *fail_on_;
      if (event.violation.severity < least_) {
        ++hidden;
        continue;
      }
      out += json_ ? cfi::EventJson(event) + "\n" : cfi::EventText(event, ++number) + "\n";
    }
    if (json_) {
      out += cfi::SummaryJson(report) + "\n";
    } else {
      if (!number) out += "no violation of severity " + std::string(cfi::SeverityName(least_)) + " or above\n";
      if (hidden) out += std::to_string(hidden) + " places of lower severity are not shown (--min-severity low)\n";
      out += "\n" + cfi::SummaryText(report);
    }
    if (file_.empty()) {
      RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, out.data(), out.size()));
    } else {
      ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(file_, O_WRONLY | O_CREAT | O_TRUNC));
      RETURN_IF_ERROR(WriteAll(fd.get(), out.data(), out.size()));
    }
    return failed ? kConditionMet : report.damaged ? kIncomplete : kDone;
  }

  StatusOr<int> RunExplain(const std::string& word) {
    std::string text = word;
    if (!Trim(word).starts_with("{")) {
      ASSIGN_OR_RETURN(text, ReadFile(word == "-" ? "/dev/stdin" : word, 16u << 20));
    }
    bool any = false;
    for (std::string_view line : Split(text, '\n')) {
      line = Trim(line);
      if (line.empty() || line.find("brink.cfi.summary.v1") != std::string_view::npos) continue;
      ASSIGN_OR_RETURN(std::string words, cfi::Explain(line));
      std::printf("%s%s", any ? "\n" : "", words.c_str());
      any = true;
    }
    if (!any) return InvalidArgument("no event in " + EscapeForTerminal(word));
    return kDone;
  }

  Setter StoreSeverity(std::optional<cfi::Severity>* out) {
    return [out](std::string_view text) -> Status {
      ASSIGN_OR_RETURN(*out, cfi::ParseSeverity(text));
      return OkStatus();
    };
  }

  cfi::ReplayOptions options_;
  cfi::Severity least_ = cfi::Severity::kMedium;
  std::optional<cfi::Severity> fail_on_;
  bool json_ = false;
  std::string file_;
  CommandSpec spec_{
      .name = "cfi",
      .summary = "control-flow integrity of a recording: broken returns, calls and jumps",
      .usage = "replay [options] FILE | explain EVENT",
      .description =
          "replay: runs the policies P1 to P9 over every branch stack of a recording, of brink or perf, and shows each broken edge with\n"
          "its evidence. Facts come from the program files of this machine, found by build-id. What cannot be known raises nothing\n"
          "and is counted.\n"
          "explain: says in words what an event (a line of replay --json, a file of them, or -) means.",
      .options = {{.letter = 0, .name = "min-severity", .value = Value::kRequired, .meta = "S", .help = "show info, low, medium (the default) or high and above",
                   .set = [this](std::string_view text) -> Status {
                     ASSIGN_OR_RETURN(least_, cfi::ParseSeverity(text));
                     return OkStatus();
                   }},
                  {.letter = 0, .name = "fail-on", .value = Value::kRequired, .meta = "S", .help = "exit status 4 where an event is of this severity or above", .set = StoreSeverity(&fail_on_)},
                  {.letter = 0, .name = "jit", .value = Value::kRequired, .meta = "allow|deny", .help = "whether anonymous code is legal; deny is the default, code that a jitdump explains is legal",
                   .set = [this](std::string_view text) -> Status {
                     if (text != "allow" && text != "deny") return InvalidArgument("--jit is allow or deny");
                     options_.jit_allowed = text == "allow";
                     return OkStatus();
                   }},
                  {.letter = 0, .name = "symfs", .value = Value::kRequired, .meta = "DIR", .help = "look for recorded files below DIR only", .set = StoreString(&options_.locate.symfs)},
                  {.letter = 0, .name = "json", .value = Value::kOptional, .meta = "FILE", .help = "JSON lines (docs/schema/cfi.json), on standard output or in FILE",
                   .set = [this](std::string_view file) {
                     json_ = true;
                     file_ = file;
                     return OkStatus();
                   }}},
      .examples = {{"brink cfi replay brink.data", "Broken edges of a recording."},
                   {"brink cfi replay --json perf.data | head -1 | brink cfi explain -", "One of them in words."},
                   {"brink cfi replay --fail-on medium brink.data", "As a check."}}};
};

}  // namespace

std::unique_ptr<Command> MakeCfi() { return std::make_unique<CfiCommand>(); }

}  // namespace brink::cli
