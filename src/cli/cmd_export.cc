#include <cstdio>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/report_options.h"
#include "export/optimise.h"
#include "export/rewrite.h"
#include "export/rows.h"
#include "export/timeline.h"

namespace brink::cli {
namespace {

using exporter::Optimiser;

enum class Shape { kOptimiser, kRows, kTimeline, kRecording };

struct FormatEntry {
  const char* name;
  const char* help;
  Shape shape;
  Optimiser optimiser = Optimiser::kBolt;
};

constexpr FormatEntry kFormats[] = {
    {"bolt", "Pre-aggregated profile for perf2bolt -pa.", Shape::kOptimiser, Optimiser::kBolt},
    {"profgen", "Stacks for llvm-profgen --perfscript; with --cs with call chains.", Shape::kOptimiser, Optimiser::kProfgen},
    {"profgen-unsymbolized", "Counts for llvm-profgen --unsymbolized-profile.", Shape::kOptimiser, Optimiser::kProfgenUnsymbolized},
    {"autofdo", "Text for create_llvm_prof and create_gcov --profiler=text.", Shape::kOptimiser, Optimiser::kAutofdo},
    {"folded", "Call stacks a line with counts, for flame graphs.", Shape::kTimeline},
    {"pprof", "Profile for go tool pprof and its relatives.", Shape::kTimeline},
    {"perfetto", "Trace for ui.perfetto.dev: stacks of each thread over time.", Shape::kTimeline},
    {"speedscope", "Profile for speedscope.app.", Shape::kTimeline},
    {"firefox", "Profile for profiler.firefox.com.", Shape::kTimeline},
    {"json", "Branches and straight code, one object a line.", Shape::kRows},
    {"csv", "The same for spreadsheets.", Shape::kRows},
    {"perfdata", "A recording again: filtered, or several (-i) as one.", Shape::kRecording},
};

std::string FormatHelp() {
  std::string text = "What to write:\n";
  for (const FormatEntry& format : kFormats) text += absl::StrFormat("%-20s %s\n", format.name, format.help);
  text.pop_back();
  return text;
}

class ExportCommand : public Command {
 public:
  ExportCommand() {
    std::vector<Option> own = {
        {.letter = 'i', .name = "input", .value = Value::kRequired, .meta = "FILE", .group = "Input", .help = "The recording or aggregate; - is the standard input. Without it: brink.data.\nSeveral for --format perfdata.", .set = AppendString(&inputs_list_)},
        {.letter = 'f', .name = "format", .value = Value::kRequired, .meta = "NAME", .group = "What", .help = format_help_.c_str(), .set = [this](std::string_view v) { return StoreFormat(v); }},
        {.letter = 'o', .name = "output", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Where to write. Without it: standard output.\nWith several --binary: %b stands for the binary's name, %i for its build id.", .writes = true, .set = StoreString(&output_)},
        {.letter = 'b', .name = "binary", .value = Value::kRequired, .meta = "FILE", .group = "Optimisers", .help = "The program to optimise: a file here, or name or build id of a recorded one; several are\nwritten one by one. A vmlinux with symbols stands for the kernel. Without it: the recorded file with most branches.", .set = AppendString(&optimise_.binaries)},
        {.name = "bolt-dialect", .value = Value::kRequired, .meta = "old|new|latest", .group = "Optimisers", .help = "Lines of --format bolt: old (B, F, f) is for LLVM up to 19 and read by all; new has T; latest T and R with mispredictions.", .set = [this](std::string_view v) -> Status {
           ASSIGN_OR_RETURN(optimise_.dialect, exporter::ParseBoltDialect(v));
           return OkStatus();
         }},
        {.name = "cs", .group = "Optimisers", .help = "Context-sensitive --format profgen, from a recording with call chains (brink record -g).", .set = StoreFlag(&optimise_.chains)},
        {.name = "unsymbolized", .group = "Optimisers", .help = "The same as --format profgen-unsymbolized.", .set = [this](std::string_view) { return StoreFormat("profgen-unsymbolized"); }},
        {.name = "branches-only", .group = "Optimisers", .help = "Take stacks from which branches were filtered out, too, and write branches without the code between them.", .set = StoreFlag(&optimise_.branches_only)},
        {.letter = 'q', .name = "quiet", .group = "Output", .help = "Say nothing of what was left out.", .set = StoreFlag(&quiet_)},
    };
    spec_.options = std::move(own);
    inputs_.AddOptions(&spec_.options, /*with_input=*/false);
  }

  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override { return parsed.outputs; }
  StatusOr<int> Run(const Parsed& parsed) override {
    if (!parsed.rest.empty()) return InvalidArgument("unexpected word '" + EscapeForTerminal(parsed.rest[0]) + "'; the recording is given by -i");
    RETURN_IF_ERROR(inputs_.Finish());
    if (!format_) return InvalidArgument("--format is needed: " + FormatNames());
    if (optimise_.chains && std::string_view(format_->name) != "profgen") return InvalidArgument("--cs is for --format profgen");
    if (inputs_list_.size() > 1 && format_->shape != Shape::kRecording) {
      return InvalidArgument("several -i are for --format perfdata; add up counts by brink merge first");
    }
    if (!inputs_list_.empty()) inputs_.input = inputs_list_[0];
    switch (format_->shape) {
      case Shape::kOptimiser: return RunOptimiser();
      case Shape::kRows: return RunRows();
      case Shape::kTimeline: return RunTimeline();
      case Shape::kRecording: return RunRecording();
    }
    return Internal("a format without a shape");
  }

 private:
  static std::string FormatNames() {
    std::string names;
    for (const FormatEntry& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
    return names;
  }
  Status StoreFormat(std::string_view name) {
    std::vector<std::string> names;
    for (const FormatEntry& format : kFormats) {
      names.emplace_back(format.name);
      if (name != format.name) continue;
      format_ = &format;
      return OkStatus();
    }
    std::string message = "no format '" + EscapeForTerminal(name) + "'";
    for (const std::string& near : NearestNames(std::string(name), names, 1)) message += "; did you mean " + near + "?";
    return InvalidArgument(message + " There are " + FormatNames());
  }

  void Say(const std::vector<std::string>& notes) const {
    if (quiet_) return;
    for (const std::string& note : notes) std::fprintf(stderr, "brink export: %s\n", note.c_str());
  }

  std::string OutputFor(const exporter::Binary& binary) const {
    std::string name;
    for (size_t i = 0; i < output_.size(); ++i) {
      const char next = i + 1 < output_.size() ? output_[i + 1] : 0;
      if (output_[i] != '%' || (next != 'b' && next != 'i' && next != '%')) {
        name += output_[i];
        continue;
      }
      ++i;
      if (next == 'b') name += binary.path().substr(binary.path().rfind('/') + 1);
      else if (next == 'i') name += HexEncode(binary.build_id());
      else name += '%';
    }
    return name;
  }

  StatusOr<int> RunOptimiser() {
    optimise_.format = format_->optimiser;
    if (optimise_.binaries.size() > 1 && output_.find("%b") == std::string::npos && output_.find("%i") == std::string::npos) {
      return InvalidArgument("several --binary need an -o with %b (the name) or %i (the build id) in it");
    }
    ASSIGN_OR_RETURN(exporter::OptimiseResult result, exporter::Optimise(inputs_.input, inputs_.load, optimise_));
    for (const exporter::BinaryProfile& profile : result.profiles) {
      Say(profile.notes);
      RETURN_IF_ERROR(WriteOutput(OutputFor(profile.binary), profile.profile.text));
    }
    return ReportDamage("export", result.program->facts);
  }

  StatusOr<int> RunRows() {
    inputs_.load.classify = true;
    ASSIGN_OR_RETURN(auto program, report::LoadProgram(inputs_.input, inputs_.load));
    report::Table table = exporter::Rows(*program);
    RETURN_IF_ERROR(WriteOutput(output_, std::string_view(format_->name) == "json" ? report::RenderJsonLines(table) : report::RenderCsv(table)));
    return ReportDamage("export", program->facts);
  }

  StatusOr<std::string> Timeline(const exporter::SampleCollector& samples, report::Program& program) {
    const std::string_view name = format_->name;
    if (name == "folded") return exporter::FoldedText(samples, program);
    if (name == "pprof") return exporter::PprofBytes(samples, program);
    if (!samples.samples().empty() && samples.samples()[0].tid < 0) {
      return FailedPrecondition(EscapeForTerminal(inputs_.input) + " is an aggregate: it knows no times; folded and pprof can be made of it");
    }
    if (name == "perfetto") return exporter::PerfettoJson(samples, program);
    if (name == "speedscope") return exporter::SpeedscopeJson(samples, program, inputs_.input);
    return exporter::FirefoxJson(samples, program, inputs_.input);
  }

  StatusOr<int> RunTimeline() {
    std::optional<exporter::SampleCollector> samples;
    inputs_.load.classify = true;  // calls and returns
    inputs_.load.observe = [&](report::Program& program) { return &samples.emplace(&program); };
    ASSIGN_OR_RETURN(auto program, report::LoadProgram(inputs_.input, inputs_.load));
    if (samples->samples().empty()) samples->AddAddresses(program->aggregate);
    if (samples->samples().empty()) return FailedPrecondition(EscapeForTerminal(inputs_.input) + " holds no samples");
    if (samples->derived()) Say({absl::StrFormat("%d of %d samples have no call chain: their callers are those that their branches show (brink record -g records chains)", samples->derived(), samples->samples().size())});
    ASSIGN_OR_RETURN(std::string text, Timeline(*samples, *program));
    RETURN_IF_ERROR(WriteOutput(output_, text));
    return ReportDamage("export", program->facts);
  }

  StatusOr<int> RunRecording() {
    if (output_.empty()) return InvalidArgument("--format perfdata needs -o FILE (or -o - for a stream)");
    if (inputs_list_.empty()) inputs_list_.push_back(inputs_.input);
    for (const std::string& path : inputs_list_) {
      if (path == output_) return InvalidArgument("input and output are one file");
    }
    ASSIGN_OR_RETURN(exporter::RewriteResult result, exporter::Rewrite(inputs_list_, output_, inputs_.load));
    Say({absl::StrFormat("%d samples with %d branches", result.samples, result.branches)});
    Say(result.notes);
    if (result.problems) std::fprintf(stderr, "brink export: the input is damaged; what could be read was written\n");
    return result.problems ? kIncomplete : kDone;
  }

  ReportInputs inputs_;
  std::vector<std::string> inputs_list_;
  std::string format_help_ = FormatHelp();
  const FormatEntry* format_ = nullptr;
  exporter::OptimiseOptions optimise_;
  std::string output_;
  bool quiet_ = false;
  CommandSpec spec_{
      .name = "export",
      .summary = "write a recording as other tools want it",
      .usage = "--format NAME [options]",
      .description = "Turns a recording with branch stacks, brink's or of any perf version, into the input of other tools. Profiles for\n"
                     "optimisers are about one binary, which is found in the recording by its build id; addresses become those of\n"
                     "the file, so several processes, position-independent programs and the kernel need no further care.\n"
                     "What needs the code between two branches refuses recordings whose stacks are not whole. docs/export.md has the rules.",
      .options = {},
      .examples = {{"brink export -f bolt -b ./server -o server.preagg", "Then: perf2bolt -pa -p server.preagg -o server.fdata ./server"},
                   {"brink export -f profgen -b ./server -o server.perfscript", "Then: llvm-profgen --perfscript=server.perfscript --binary=./server --output=server.prof"},
                   {"brink export -f autofdo -b ./server -o server.txt", "Then: create_llvm_prof --profiler=text --profile=server.txt --binary=./server --out=server.prof"},
                   {"brink export -f bolt -b ./server -b libcrypto.so.3 -o %b.preagg", "One file for each of two binaries."},
                   {"brink export -f perfetto -o trace.json", "Open it at ui.perfetto.dev."},
                   {"brink export -f perfdata --where 'comm == \"nginx\"' -o nginx.data", "The part of a recording that perf is to look at."}}};
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<ExportCommand>(); }

}  // namespace brink::cli
