#include <cstdio>
#include <cstdlib>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/report_options.h"
#include "cli/table_output.h"
#include "elf/file.h"
#include "perfdata/repair.h"
#include "report/html.h"
#include "report/summary.h"
#include "report/tables.h"

namespace brink::cli {
namespace {

using report::Table;
using report::TableKind;

std::string TableHelp() {
  std::string text = "What to show; several with commas:\n";
  for (const TableKind& kind : report::AllTables()) text += absl::StrFormat("%-11s %s\n", kind.name, kind.help);
  text.pop_back();
  return text;
}

class ReportCommand : public Command {
 public:
  ReportCommand() {
    inputs_.AddOptions(&spec_.options);
    std::vector<Option> own = {
        {.letter = 't', .name = "table", .value = Value::kRequired, .meta = "NAMES", .group = "What", .help = table_help_.c_str(), .set = [this](std::string_view v) { return StoreTables(v); }},
        {.name = "mispredict", .group = "What", .help = "Which badly predicted branches make how much of the loss, and what to try.", .set = [this](std::string_view) { return StoreTables("mispredict"); }},
        {.name = "quality", .group = "What", .help = "Whether the recording is good enough, overall and by function.", .set = StoreFlag(&quality_)},
        {.name = "indirect-targets", .group = "What", .help = "Targets of each indirect call and jump, their shares and misprediction: --table calls.", .set = [this](std::string_view) { return StoreTables("calls"); }},
        {.letter = 'd', .name = "dso", .value = Value::kRequired, .meta = "NAMES", .group = "Filters", .help = "Only rows with an end in these files (name or path).", .set = Append(&filter_.objects)},
        {.letter = 'S', .name = "symbol", .value = Value::kRequired, .meta = "NAMES", .group = "Filters", .help = "Only rows with an end in functions whose name contains one of these.", .set = Append(&filter_.symbols)},
        {.name = "path-length", .value = Value::kRequired, .meta = "COUNT", .group = "What", .help = "Branches in a row of --table paths. Without it: 4.", .set = StoreUint(&path_length_, 1, 64)},
        {.name = "html", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Everything as one page for a browser, into FILE: tables, code with counts, branch maps, a flame graph of paths.\nIt needs no network.", .writes = true, .set = StoreString(&html_)},
        {.name = "repair", .group = "Input", .help = "Complete the recording of a collector that was killed, in place, before reading it.", .set = StoreFlag(&repair_)},
    };
    for (Option& option : own) spec_.options.push_back(std::move(option));
    output_.AddOptions(&spec_.options, "Order of the rows: numbers fall, text rises, -FIELD turns that around.\nperf's symbol_from,symbol_to (and dso_from, dso_to) choose --table edges.",
                       "json prints one object a line (docs/schema/report.json).");
  }

  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override {
    std::vector<std::string> outputs = parsed.outputs;
    if (repair_) outputs.push_back(inputs_.input);  // in place
    return outputs;
  }
  StatusOr<int> Run(const Parsed& parsed) override {
    if (!parsed.rest.empty()) return InvalidArgument("unexpected word '" + EscapeForTerminal(parsed.rest[0]) + "'; the recording is given by -i");
    RETURN_IF_ERROR(inputs_.Finish());
    ApplyPerfSort();
    for (const TableKind* kind : tables_) {
      inputs_.load.loops |= std::string_view(kind->name) == "loops";
      if (std::string_view(kind->name) == "paths") inputs_.load.path_length = path_length_;
    }
    if (repair_) RETURN_IF_ERROR(Repair());
    if (!html_.empty()) {
      inputs_.load.loops = inputs_.load.flame = true;
      inputs_.load.path_length = path_length_;
    }
    ASSIGN_OR_RETURN(auto program, report::LoadProgram(inputs_.input, inputs_.load));
    if (program->aggregate.samples > 0 && !program->facts.branch_stacks) {
      return FailedPrecondition(inputs_.input + " holds samples without branch stacks; record with brink record, or perf record -b");
    }
    if (!html_.empty()) {
      report::SourceFiles sources(inputs_.load.symbols.locate.symfs);
      RETURN_IF_ERROR(WriteOutput(html_, report::RenderHtml(program.get(), &sources, {})));
      if (tables_.empty() && !quality_ && output_.text()) return ReportDamage("report", program->facts);
    }
    std::string out = output_.json() ? report::SummaryJson(*program) : output_.text() ? report::SummaryText(*program) : "";
    if (quality_) {
      report::Quality quality = report::Judge(*program);
      out += output_.json() ? report::QualityJson(quality) : output_.text() ? report::QualityText(quality) : "";
      ASSIGN_OR_RETURN(std::string text, output_.Render(report::QualityTable(*program), "branches", "share", inputs_.UseColour()));
      out += text;
    }
    bool overview = tables_.empty() && !quality_;
    if (overview) {
      for (const char* name : {"functions", "branches"}) tables_.push_back(*report::FindTable(name));
      if (!output_.rows_given) output_.max_rows = 15;
      if (output_.format == "csv") tables_.erase(tables_.begin());
    }
    for (const TableKind* kind : tables_) {
      ASSIGN_OR_RETURN(std::string text, output_.Render(kind->make(*program, filter_), kind->default_sort, kind->share_column, inputs_.UseColour()));
      out += text;
    }
    RETURN_IF_ERROR(WriteOutput(output_.output, out));
    return ReportDamage("report", program->facts);
  }

 private:
  Status StoreTables(std::string_view names) {
    for (std::string_view name : Split(names, ',')) {
      ASSIGN_OR_RETURN(const TableKind* kind, report::FindTable(Trim(name)));
      tables_.push_back(kind);
    }
    return OkStatus();
  }
  Status Repair() {
    perfdata::RepairOptions options;
    options.build_id_of = [](const std::string& path) {
      auto file = elf::File::Open(path);
      return file.ok() ? file->BuildId().value_or("") : "";
    };
    ASSIGN_OR_RETURN(perfdata::RepairReport done, perfdata::RepairFile(inputs_.input, options));
    if (done.changed) {
      std::fprintf(stderr, "brink report: repaired %s: %llu records, %llu samples, %llu bytes of a cut record dropped\n", EscapeForTerminal(inputs_.input).c_str(),
                   static_cast<unsigned long long>(done.records), static_cast<unsigned long long>(done.samples), static_cast<unsigned long long>(done.dropped_bytes));
    } else {
      std::fprintf(stderr, "brink report: %s is complete; nothing to repair\n", EscapeForTerminal(inputs_.input).c_str());
    }
    return OkStatus();
  }
  static Setter Append(std::vector<std::string>* out) {
    return [out](std::string_view text) -> Status {
      for (std::string_view word : Split(text, ',')) out->emplace_back(Trim(word));
      return OkStatus();
    };
  }
  // perf's --sort chooses what is summed; brink has a table for that.
  void ApplyPerfSort() {
    constexpr std::pair<std::string_view, std::string_view> kKeys[] = {{"symbol_from", "from_symbol"}, {"symbol_to", "to_symbol"}, {"dso_from", "from_object"}, {"dso_to", "to_object"}};
    std::string fields;
    // What is summed by container is a table as well.
    if (output_.sort == "container" || output_.sort == "cgroup") {
      output_.sort.clear();
      if (tables_.empty()) tables_.push_back(*report::FindTable("containers"));
      return;
    }
    for (std::string_view word : Split(output_.sort, ',')) {
      bool known = false;
      for (auto [theirs, ours] : kKeys) {
        if (word != theirs) continue;
        fields += "," + std::string(ours);
        known = true;
      }
      if (!known) return;
    }
    if (fields.empty()) return;
    output_.sort.clear();
    if (tables_.empty()) tables_.push_back(*report::FindTable("edges"));
    if (output_.fields.empty()) output_.fields = "share,count" + fields;
  }

  ReportInputs inputs_;
  std::string table_help_ = TableHelp();
  std::vector<const TableKind*> tables_;
  report::TableFilter filter_;
  TableOutput output_;
  std::string html_;
  uint64_t path_length_ = 4;
  bool quality_ = false, repair_ = false;
  CommandSpec spec_{
      .name = "report",
      .summary = "show what a recording says: branches, functions, loops, mispredictions",
      .usage = "[options]",
      .description = "Reads a recording with branch stacks, brink's or of any perf version, and shows tables of it. Without options: the\n"
                     "functions and branches with most executions. What is unknown (predictions and cycles of software records) is shown\n"
                     "as -, never as 0. docs/report.md says by which rules entries and ranges are counted or refused.",
      .options = {},
      .examples = {{"brink report", "Functions and branches of brink.data."},
                   {"brink report --mispredict", "The branches that cost most, with advice."},
                   {"brink report -t loops,calls -n 10", "Trip counts of loops, targets of indirect calls."},
                   {"brink report -i perf.data --sort symbol_from,symbol_to", "The same sums as perf report, several times faster."},
                   {"brink report -t branches --where 'kind == cond' --percent-limit 0.5 --csv=out.csv", "Conditional branches for a spreadsheet."},
                   {"brink report --html page.html", "A page to look around in and to pass on."},
                   {"brink report --quality", "Is this recording enough for a profile?"}}};
};

}  // namespace

std::unique_ptr<Command> MakeReport() { return std::make_unique<ReportCommand>(); }

}  // namespace brink::cli
