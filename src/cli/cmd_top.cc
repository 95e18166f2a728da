#include <cstdio>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/record_options.h"
#include "cli/report_options.h"
#include "top/top.h"

namespace brink::cli {
namespace {

// Options of record that say what is recorded and how; the others are about its file.
bool Taken(const Option& option) {
  const std::string_view group = option.group, name = option.name ? option.name : "";
  if (option.hidden || name == "delay" || name == "whole-run" || name == "duration") return false;
  return group == "What to record" || group == "When and what to take" || group == "Walk source";
}

class TopCommand : public Command {
 public:
  TopCommand() {
    for (const Option& option : record_.command.options) {
      if (Taken(option)) spec_.options.push_back(Forwarded(option));
    }
    std::vector<Option> inputs;
    inputs_.AddOptions(&inputs, false);
    for (Option& option : inputs) {
      if (std::string_view(option.group) == "Symbols") spec_.options.push_back(std::move(option));
    }
    spec_.options.push_back({.letter = 'd', .name = "delay", .value = Value::kRequired, .meta = "TIME", .group = "Picture", .help = "Between two pictures (default 2s).", .set = [this](std::string_view text) -> Status {
                               RETURN_IF_ERROR(StoreDuration(&top_.delay_ns, 1'000'000'000)(text));
                               return top_.delay_ns < 50'000'000 ? InvalidArgument("at least 50ms") : OkStatus();
                             }});
    spec_.options.push_back({.name = "input", .value = Value::kRequired, .meta = "FILE", .group = "What to record", .help = "Look at a recording instead, or with - at a stream of brink record -o - or perf record -o -.", .set = StoreString(&top_.input)});
  }

  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    RETURN_IF_ERROR(inputs_.Finish());
    top_.load = inputs_.load;
    top_.load.loops = true;
    if (!top_.input.empty()) {
      if (!forwarded_.empty() || !parsed.rest.empty()) return InvalidArgument("--input is a recording that exists; it goes with no option that says what to record, and no command");
      top_.what = top_.input == "-" ? "standard input" : top_.input;
    } else {
      RETURN_IF_ERROR(ForRecorder(parsed.rest));
    }
    ASSIGN_OR_RETURN(top::TopResult result, top::Run(top_));
    std::printf("brink top: %s\n", absl::StrFormat("%d samples, %d branches%s", result.samples, result.branches,
                                                     result.lost ? absl::StrFormat(", %d LOST", result.lost) : "").c_str());
    return result.problems ? kIncomplete : kDone;
  }

 private:
  // Checked as record does, then handed on.
  Option Forwarded(const Option& option) {
    Option out = option;
    out.set = [this, set = option.set, name = std::string(option.name ? option.name : ""), letter = option.letter, value = option.value](std::string_view text) -> Status {
      if (set) RETURN_IF_ERROR(set(text));
      std::string word = name.empty() ? std::string("-") + letter : "--" + name;
      if (value != Value::kNone && !text.empty()) word += "=" + std::string(text);
      forwarded_.push_back(std::move(word));
      return OkStatus();
    };
    return out;
  }

  Status ForRecorder(const std::vector<std::string>& command) {
    top_.record = {"record", "-q", "-o", "-"};
    top_.record.insert(top_.record.end(), forwarded_.begin(), forwarded_.end());
    const bool target = !record_.pids.empty() || !record_.tids.empty() || !record_.cpus.empty() || !record_.cgroups.empty() || record_.all_cpus;
    if (!target && command.empty()) top_.record.push_back("-a");
    for (const std::string& word : forwarded_) top_.what += (top_.what.empty() ? "" : " ") + word;
    if (!target && command.empty()) top_.what = "all CPUs" + (top_.what.empty() ? "" : " " + top_.what);
    if (command.empty()) return OkStatus();
    top_.record.push_back("--");
    top_.record.insert(top_.record.end(), command.begin(), command.end());
    top_.what += (top_.what.empty() ? "" : " ") + command[0];
    return OkStatus();
  }

  RecordOptions record_;
  ReportInputs inputs_;
  top::TopSpec top_;
  std::vector<std::string> forwarded_;
  CommandSpec spec_{
      .name = "top",
      .summary = "watch branches live on the terminal",
      .usage = "[options] [-- command [args...]]",
      .description = "Records as brink record does and shows functions, branches, lines, indirect calls, loops and mispredictions while it\n"
                     "goes on. Without a target: everything on all CPUs. A command's output is not shown. h lists the keys; q ends.",
      .options = {},
      .examples = {{"brink top", "everything, on all CPUs"},
                   {"brink top -p 1234", "one process"},
                   {"brink top -F 2000 -- ./server", "a command, from its start"},
                   {"ssh host brink record -a -o - | brink top --input -", "another host"},
                   {"brink top --input brink.data", "a recording, to look around in"}}};
};

}  // namespace

std::unique_ptr<Command> MakeTop() { return std::make_unique<TopCommand>(); }

}  // namespace brink::cli
