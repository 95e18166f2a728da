#include <cstdio>

#include "base/strings.h"
#include "brbe/diagnose.h"
#include "cli/commands.h"
#include "cli/report_options.h"
#include "report/annotate.h"
#include "report/summary.h"

namespace brink::cli {
namespace {

class AnnotateCommand : public Command {
 public:
  AnnotateCommand() {
    inputs_.AddOptions(&spec_.options);
    std::vector<Option> own = {
        {.letter = 'd', .name = "dso", .value = Value::kRequired, .meta = "NAME", .group = "Filters", .help = "Only functions of this file (name or path).", .set = StoreString(&object_)},
        {.name = "branch-history", .group = "Output", .set = [](std::string_view) -> Status { return InvalidArgument(*brbe::ArticleSpelling("--branch-history")); }, .hidden = true},
        {.name = "all", .group = "Output", .help = "Instructions that were never seen, too.", .set = StoreFlag(&text_.all)},
        {.name = "no-source", .group = "Output", .help = "Assembly only.", .set = StoreFlag(&text_.source, false)},
        {.letter = 'n', .name = "max-functions", .value = Value::kRequired, .meta = "COUNT", .group = "Output", .help = "Functions to show when several match, hottest first. Without it: 1.", .set = StoreUint(&most_, 1, 10000)},
        {.name = "format", .value = Value::kRequired, .meta = "text|json", .group = "Output", .help = "json prints one object an instruction (schema brink.annotate.v1).", .set = [this](std::string_view v) -> Status {
           if (v != "text" && v != "json") return InvalidArgument("'" + EscapeForTerminal(v) + "' is neither text nor json");
           json_ = v == "json";
           return OkStatus();
         }},
        {.name = "json", .value = Value::kOptional, .meta = "FILE", .group = "Output", .help = "The same as --format json, into FILE if one is given.", .writes = true, .set = [this](std::string_view v) {
           json_ = true;
           output_ = std::string(v);
           return OkStatus();
         }},
    };
    for (Option& option : own) spec_.options.push_back(std::move(option));
  }

  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override { return parsed.outputs; }
  StatusOr<int> Run(const Parsed& parsed) override {
    if (parsed.rest.size() > 1) return InvalidArgument("one function at a time; '" + EscapeForTerminal(parsed.rest[1]) + "' is too much");
    RETURN_IF_ERROR(inputs_.Finish());
    ASSIGN_OR_RETURN(auto program, report::LoadProgram(inputs_.input, inputs_.load));
    ASSIGN_OR_RETURN(std::vector<report::FunctionId> functions, Choose(*program, parsed.rest.empty() ? "" : parsed.rest[0]));
    report::Annotator annotator(program.get());
    report::SourceFiles sources(inputs_.load.symbols.locate.symfs);
    text_.colour = inputs_.UseColour() && output_.empty();
    std::string out = json_ ? "" : report::SummaryText(*program) + "\n";
    size_t left_out = functions.size() > most_ ? functions.size() - most_ : 0;
    functions.resize(functions.size() - left_out);
    for (report::FunctionId id : functions) {
      ASSIGN_OR_RETURN(report::AnnotatedFunction annotated, annotator.Annotate(id));
      out += json_ ? report::AnnotateJson(annotated) : report::AnnotateText(annotated, &sources, text_);
    }
    if (left_out && !json_ && !parsed.rest.empty()) out += "# " + std::to_string(left_out) + " more functions match (-n shows more)\n";
    RETURN_IF_ERROR(WriteOutput(output_, out));
    return ReportDamage("annotate", program->facts);
  }

 private:
  // Functions with branches whose name matches, hottest first; all of them for "".
  StatusOr<std::vector<report::FunctionId>> Choose(report::Program& program, const std::string& name) {
    std::map<report::FunctionId, uint64_t> counts;
    std::vector<std::string> known;
    for (const report::BranchStat& branch : program.aggregate.branches) {
      report::FunctionId id = program.FunctionAt(branch.from);
      const symbol::Object& object = program.objects[branch.from.object];
      if (!object_.empty() && object.ShortName() != object_ && object.path != object_) continue;
      if ((*program.symbolizer)[id].resolved()) counts[id] += branch.count;
    }
    std::vector<report::FunctionId> equal, containing;
    for (auto [id, count] : counts) {
      const symbol::Function& function = (*program.symbolizer)[id];
      known.push_back(function.name);
      if (function.name == name || function.mangled == name || function.name.substr(0, function.name.find('(')) == name) equal.push_back(id);
      else if (function.name.find(name) != std::string::npos) containing.push_back(id);
    }
    std::vector<report::FunctionId>& chosen = equal.empty() ? containing : equal;
    if (chosen.empty()) {
      auto nearest = NearestNames(name, known, 2);
      return NotFound("no function '" + EscapeForTerminal(name) + "' with branches in " + inputs_.input +
                      (nearest.empty() ? "; brink report -t functions lists them" : "; did you mean '" + EscapeForTerminal(nearest[0]) + "'?"));
    }
    std::stable_sort(chosen.begin(), chosen.end(), [&](auto a, auto b) { return counts[a] > counts[b]; });
    return chosen;
  }

  ReportInputs inputs_;
  report::AnnotateTextOptions text_;
  std::string object_, output_;
  uint64_t most_ = 1;
  bool json_ = false;
  CommandSpec spec_{
      .name = "annotate",
      .summary = "source and assembly of a function with branch counts",
      .usage = "[options] [FUNCTION]",
      .description = "Shows how often each instruction ran, how often each conditional was taken, how often branches were mispredicted, and\n"
                     "the cycles of the code that ends with them. FUNCTION is a name or a part of one; without it the hottest function.",
      .options = {},
      .examples = {{"brink annotate", "The hottest function."}, {"brink annotate -i perf.data 'Parser::Next'", "One function of any recording."},
                   {"brink annotate --no-source --all memcpy", "Assembly only, the whole function."}}};
};

}  // namespace

std::unique_ptr<Command> MakeAnnotate() { return std::make_unique<AnnotateCommand>(); }

}  // namespace brink::cli
