#include <algorithm>
#include <cstdlib>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/report_options.h"
#include "cli/table_output.h"
#include "report/diff.h"

namespace brink::cli {
namespace {

using report::Diff;
using report::Programs;

std::string TableHelp() {
  std::string text = "What to compare; several with commas. Without it: functions, branches.\n";
  for (const report::DiffTableKind& kind : report::DiffTables()) text += absl::StrFormat("%-11s %s\n", kind.name, kind.help);
  text.pop_back();
  return text;
}

Status StorePositive(std::string_view text, double most, double* out) {
  std::string word(text);
  if (word.ends_with('%')) word.pop_back();
  char* end = nullptr;
  double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end || !(value >= 0) || value > most) return InvalidArgument(absl::StrFormat("'%s' is no number from 0 to %.0f", EscapeForTerminal(text), most));
  *out = value;
  return OkStatus();
}

class DiffCommand : public Command {
 public:
  DiffCommand() {
    inputs_.AddOptions(&spec_.options, false);
    output_.AddOptions(&spec_.options, "Order of the rows: numbers fall, text rises, -FIELD turns that around. Without it: largest change of share beyond noise first.",
                       "json prints one object a line (docs/schema/diff.json).");
    auto append = [](std::vector<std::string>* out) -> Setter {
      return [out](std::string_view text) -> Status {
        for (std::string_view word : Split(text, ',')) out->emplace_back(Trim(word));
        return OkStatus();
      };
    };
    std::vector<Option> own = {
        {.letter = 't', .name = "table", .value = Value::kRequired, .meta = "NAMES", .group = "What", .help = table_help_.c_str(), .set = append(&tables_)},
        {.name = "noise", .value = Value::kRequired, .meta = "SIGMAS", .group = "What", .help = "Changes within so many standard errors are marked ~. Without it: 3.",
         .set = [this](std::string_view v) { return StorePositive(v, 100, &options_.sigmas); }},
        {.name = "changed", .group = "Filters", .help = "Leave out rows whose change of share is noise.", .set = StoreFlag(&only_changed_)},
        {.name = "fail-above", .value = Value::kRequired, .meta = "POINTS", .group = "Output", .help = "Exit with 4 if a share changed by more percentage points, beyond noise.",
         .set = [this](std::string_view v) { fail_given_ = true; return StorePositive(v, 100, &fail_above_); }},
        {.letter = 'd', .name = "dso", .value = Value::kRequired, .meta = "NAMES", .group = "Filters", .help = "Only rows with an end in these files (name or path).", .set = append(&options_.filter.objects)},
        {.letter = 'S', .name = "symbol", .value = Value::kRequired, .meta = "NAMES", .group = "Filters", .help = "Only rows with an end in functions whose name contains one of these.", .set = append(&options_.filter.symbols)},
    };
    for (Option& option : own) spec_.options.push_back(std::move(option));
  }

  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override { return parsed.outputs; }
  StatusOr<int> Run(const Parsed& parsed) override {
    RETURN_IF_ERROR(inputs_.Finish());
    std::vector<std::string> old_files, new_files;
    RETURN_IF_ERROR(Sides(parsed.rest, &old_files, &new_files));
    Programs old_side, new_side;
    int status = kDone;
    RETURN_IF_ERROR(Load(old_files, &old_side, &status));
    RETURN_IF_ERROR(Load(new_files, &new_side, &status));
    if (tables_.empty()) tables_ = {"functions", "branches"};
    if (output_.format == "csv") tables_.resize(1);
    std::vector<Diff> diffs;
    for (const std::string& name : tables_) {
      ASSIGN_OR_RETURN(Diff diff, report::MakeDiff(name, old_side, new_side, options_));
      diffs.push_back(std::move(diff));
    }
    std::string out;
    if (output_.json()) out = report::DiffSummaryJson(old_side, new_side, diffs[0], options_.sigmas);
    if (output_.text()) out = report::DiffSummaryText(old_side, new_side);
    double largest = 0;
    for (Diff& diff : diffs) {
      largest = std::max(largest, diff.largest);
      ASSIGN_OR_RETURN(std::string text, Show(std::move(diff.table)));
      out += text;
    }
    RETURN_IF_ERROR(WriteOutput(output_.output, out));
    if (fail_given_ && largest * 100 > fail_above_) {
      std::fprintf(stderr, "brink diff: a share changed by %.2f percentage points, more than %.2f\n", largest * 100, fail_above_);
      return kConditionMet;
    }
    return status;
  }

 private:
  // OLD NEW, or OLD... -- NEW...
  static Status Sides(const std::vector<std::string>& words, std::vector<std::string>* old_files, std::vector<std::string>* new_files) {
    auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes == words.end()) {
      if (words.size() != 2) return InvalidArgument("give two recordings, OLD and NEW, or several of each: OLD... -- NEW...");
      *old_files = {words[0]};
      *new_files = {words[1]};
      return OkStatus();
    }
    old_files->assign(words.begin(), dashes);
    new_files->assign(dashes + 1, words.end());
    if (old_files->empty() || new_files->empty()) return InvalidArgument("a recording is needed on both sides of --");
    return OkStatus();
  }

  Status Load(const std::vector<std::string>& files, Programs* side, int* status) {
    for (const std::string& file : files) {
      ASSIGN_OR_RETURN(auto program, report::LoadProgram(file, inputs_.load));
      if (program->aggregate.branch_count == 0) return FailedPrecondition(file + " holds no branches (after the filters); there is nothing to compare");
      *status = std::max(*status, ReportDamage("diff", program->facts));
      side->push_back(std::move(program));
    }
    return OkStatus();
  }

  StatusOr<std::string> Show(report::Table table) {
    const int noise = table.ColumnIndex("noise"), old_share = table.ColumnIndex("old_share"), new_share = table.ColumnIndex("new_share");
    std::erase_if(table.rows, [&](const std::vector<report::Cell>& row) {
      auto at = [&](int column) { return row[static_cast<size_t>(column)]; };
      if (only_changed_ && at(noise) == report::Cell(uint64_t{1})) return true;
      return std::get<double>(at(old_share)) * 100 < output_.percent_limit && std::get<double>(at(new_share)) * 100 < output_.percent_limit;
    });
    return output_.Render(std::move(table), "-noise,size,-delta_share", nullptr, inputs_.UseColour());
  }

  ReportInputs inputs_;
  TableOutput output_;
  report::DiffOptions options_;
  std::string table_help_ = TableHelp();
  std::vector<std::string> tables_;
  double fail_above_ = 0;
  bool only_changed_ = false, fail_given_ = false;
  CommandSpec spec_{
      .name = "diff",
      .summary = "what changed between two recordings, and what is only noise",
      .usage = "[options] OLD NEW  |  brink diff [options] OLD... -- NEW...",
      .description = "Compares counts, shares, misprediction rates and mean cycles of two recordings, row by row. A change that is not larger\n"
                     "than the scatter between the halves of a recording is marked ~. With several recordings a side, the scatter between\n"
                     "these is used, which holds what differs from run to run, too. Rows are matched by name, so two builds of a program\n"
                     "can be compared; docs/report.md says how.",
      .options = {},
      .examples = {{"brink diff before.data after.data", "Functions and branches, largest changes first."},
                   {"brink diff --changed -t lines before.data after.data", "Only what is more than noise, by source line."},
                   {"brink diff a1.data a2.data a3.data -- b1.data b2.data b3.data", "Three runs of each: the best judgement of noise."},
                   {"brink diff --fail-above 2 base.data new.data", "Exit status 4 if a function's share moved by more than 2 points."}}};
};

}  // namespace

std::unique_ptr<Command> MakeDiff() { return std::make_unique<DiffCommand>(); }

}  // namespace brink::cli
