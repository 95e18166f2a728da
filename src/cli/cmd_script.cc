#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/script_symbols.h"
#include "perfdata/reader.h"
#include "script/script.h"

namespace brink::cli {
namespace {

// One line a problem, a few of them, then the sum.
int ReportProblems(const perfdata::Reader& reader) {
  const perfdata::ReadStats& stats = reader.stats();
  if (stats.complete()) return kDone;
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < stats.problems.size() && i < kShown; ++i) {
    const perfdata::Problem& problem = stats.problems[i];
    std::fprintf(stderr, "brink script: %s at offset %s: %s (%s)\n", reader.name().c_str(), absl::StrFormat("0x%x", problem.offset).c_str(),
                 problem.what.c_str(), (std::to_string(problem.bytes) + " bytes lost").c_str());
  }
  std::fprintf(stderr, "brink script: %s is damaged in %s; %s could not be read, everything else was\n", reader.name().c_str(),
               stats.problem_count == 1 ? "one place" : absl::StrFormat("%d places", stats.problem_count).c_str(),
               absl::StrFormat("%d bytes", stats.bytes_lost).c_str());
  return kIncomplete;
}

Status StoreIds(std::string_view text, std::vector<uint32_t>* out) {
  for (std::string_view word : Split(text, ',')) {
    ASSIGN_OR_RETURN(uint64_t id, ParseUint(word));
    if (id > INT32_MAX) return InvalidArgument("no process has the number " + std::string(word));
    out->push_back(static_cast<uint32_t>(id));
  }
  return OkStatus();
}

class ScriptCommand : public Command {
 public:
  ScriptCommand() {
    using script::BrstackStyle;
    spec_.options = {
        {.letter = 'i', .name = "input", .value = Value::kRequired, .meta = "FILE", .group = "Input",
         .help = "The recording, brink's or perf's; - is the standard input. Without it: brink.data.", .set = StoreString(&input_)},
        {.letter = 'F', .name = "fields", .value = Value::kRequired, .meta = "LIST", .group = "Output",
         .help = "perf's text with these fields: comm pid tid time cpu period event addr ip sym brstack brstacksym weight.",
         .set = [this](std::string_view v) -> Status {
           ASSIGN_OR_RETURN(options_.fields, script::ParseFields(v));
           return OkStatus();
         }},
        {.name = "brstack-style", .value = Value::kRequired, .meta = "perf61|new", .group = "Output",
         .help = "Branch text as perf up to 6.1 prints it (the default), or as later versions do, with the speculation outcome.",
         .set = [this](std::string_view v) -> Status {
           if (v != "perf61" && v != "new") return InvalidArgument("'" + EscapeForTerminal(v) + "' is neither perf61 nor new");
           options_.brstack = v == "new" ? BrstackStyle::kNew : BrstackStyle::kPerf61;
           return OkStatus();
         }},
        {.name = "ns", .group = "Output", .help = "Nanoseconds in perf's time field.", .set = StoreFlag(&options_.nanoseconds)},
        {.name = "format", .value = Value::kRequired, .meta = "text|json", .group = "Output",
         .help = "json prints one object a line and sample (schema brink.sample.v1).", .set = StoreString(&format_)},
        {.name = "json", .value = Value::kOptional, .meta = "FILE", .group = "Output", .help = "The same as --format json, into FILE if one is given.", .writes = true,
         .set = [this](std::string_view v) {
           format_ = "json";
           output_ = std::string(v);
           return OkStatus();
         }},
        {.name = "dump-header", .group = "Output",
         .help = "Print what the recording says about itself instead of its samples.", .set = StoreFlag(&dump_header_)},
        {.name = "no-symbols", .group = "Output", .help = "Addresses only: no names and source lines are looked up.", .set = StoreFlag(&no_symbols_)},
        {.letter = 'n', .name = "limit", .value = Value::kRequired, .meta = "COUNT", .group = "Output", .help = "Stop after COUNT samples.",
         .set = [this](std::string_view v) -> Status {
           ASSIGN_OR_RETURN(options_.limit, ParseUint(v));
           return OkStatus();
         }},
        {.letter = 'C', .name = "cpu", .value = Value::kRequired, .meta = "CPUS", .group = "Filters", .help = "Only samples of these CPUs: 0-3,7.",
         .set = [this](std::string_view v) -> Status {
           ASSIGN_OR_RETURN(options_.cpus, ParseCpuList(v));
           return OkStatus();
         }},
        {.name = "pid", .value = Value::kRequired, .meta = "PIDS", .group = "Filters", .help = "Only samples of these processes.",
         .set = [this](std::string_view v) { return StoreIds(v, &options_.pids); }},
        {.name = "tid", .value = Value::kRequired, .meta = "TIDS", .group = "Filters", .help = "Only samples of these threads.",
         .set = [this](std::string_view v) { return StoreIds(v, &options_.tids); }},
        {.name = "time", .value = Value::kRequired, .meta = "FROM,TO", .group = "Filters",
         .help = "Only samples within these times, in seconds of the recording's clock; either can be left out.",
         .set = [this](std::string_view v) { return script::ParseTimeRange(v, &options_); }},
        {.name = "where", .value = Value::kRequired, .meta = "EXPR", .group = "Filters",
         .help = "Only samples and branches for which EXPR is true; several are ANDed (brink filter --help).", .set = AppendString(&options_.where)},
        {.name = "brbe-model", .value = Value::kRequired, .meta = "WORDS", .group = "Filters",
         .help = "Send the stacks through a model of Arm's BRBE first: numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B.",
         .set = [this](std::string_view v) -> Status {
           ASSIGN_OR_RETURN(options_.brbe_model, brbe::ParseStreamOptions(v));
           return OkStatus();
         }},
    };
  }

  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override { return parsed.outputs; }
  StatusOr<int> Run(const Parsed& parsed) override {
    if (!parsed.rest.empty()) return InvalidArgument("unexpected word '" + EscapeForTerminal(parsed.rest[0]) + "'; the recording is given by -i");
    if (format_ != "text" && format_ != "json") return InvalidArgument("--format: '" + EscapeForTerminal(format_) + "' is neither text nor json");
    const bool json = format_ == "json";
    if (json && options_.fields != 0) return InvalidArgument("-F chooses the fields of perf's text; JSON has all of them");
    options_.style = json ? script::Style::kJson : options_.fields != 0 ? script::Style::kPerf : script::Style::kReadable;
    ASSIGN_OR_RETURN(auto reader, perfdata::Reader::Open(input_));
    UniqueFd file;
    if (!output_.empty()) {
      ASSIGN_OR_RETURN(file, OpenFile(output_, O_WRONLY | O_CREAT | O_TRUNC));
    }
    script::TextBuffer out(file.valid() ? file.get() : STDOUT_FILENO);
    if (dump_header_) {
      RETURN_IF_ERROR(ReadStreamHeader(*reader));
      out.Text(script::HeaderFacts(*reader, json));
      RETURN_IF_ERROR(out.Flush());
    } else {
      std::unique_ptr<script::Symbols> symbols;
      const bool perf = options_.style == script::Style::kPerf;
      if (perf ? (options_.fields & (script::kSym | script::kBrstacksym)) != 0 : !no_symbols_) symbols = MakeScriptSymbols(*reader, !perf);
      std::vector<std::string> notes;
      RETURN_IF_ERROR(script::WriteSamples(*reader, options_, symbols.get(), &out, &notes));
      for (const std::string& note : notes) std::fprintf(stderr, "brink script: %s\n", note.c_str());
    }
    return ReportProblems(*reader);
  }

 private:
  // A stream describes itself by records before the first one of the kernel.
  static Status ReadStreamHeader(perfdata::Reader& reader) {
    if (!reader.facts().pipe) return OkStatus();
    perfdata::Record record;
    StatusOr<bool> more = true;
    do {
      more = reader.Next(&record);
      if (!more.ok()) return more.status();
    } while (*more && record.type >= perfdata::kRecordUserFirst);
    return OkStatus();
  }

  std::string input_ = "brink.data";
  std::string format_ = "text", output_;
  bool dump_header_ = false;
  bool no_symbols_ = false;
  script::Options options_;
  CommandSpec spec_{
      .name = "script",
      .summary = "print the samples of a recording",
      .usage = "[options]",
      .description = "Reads a recording of brink or of any perf version, file or stream, and prints its samples with their branch stacks in the\n"
                     "order of their times. A damaged recording is read as far as possible; then the exit status is 3.",
      .options = {},
      .examples = {{"brink script -n 3", "The first samples of brink.data, readable."},
                   {"brink script -F ip,brstack", "The same text as perf script prints, several times faster."},
                   {"brink script -i perf.data --format json | jq .branches[0]", "One JSON object a sample."},
                   {"brink script --dump-header", "Machine, events, times and build ids of the recording."}}};
};

}  // namespace

std::unique_ptr<Command> MakeScript() { return std::make_unique<ScriptCommand>(); }

}  // namespace brink::cli
