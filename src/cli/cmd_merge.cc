#include <cstdio>

#include <absl/strings/str_format.h>

#include "aggregate/file.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/report_options.h"
#include "report/aggregate_io.h"

namespace brink::cli {
namespace {

class MergeCommand : public Command {
 public:
  MergeCommand() {
    spec_.options = {
        {.letter = 'o', .name = "output", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "The aggregate to write; - is standard output. Without it: brink.agg.", .writes = true, .set = StoreString(&output_)},
        {.letter = 'w', .name = "weight", .value = Value::kRequired, .meta = "records|samples|cpu-seconds", .group = "What",
         .help = "What makes the inputs comparable. cpu-seconds (the default): each second on a CPU counts the same, whatever the\n"
                 "frequency and depth of its stacks; samples: each sample does; records: counts are added as they are.",
         .set = [this](std::string_view text) -> Status {
           ASSIGN_OR_RETURN(unit_, aggregate::ParseUnit(text));
           return OkStatus();
         }},
        {.letter = 'q', .name = "quiet", .group = "Output", .help = "Say nothing about the inputs.", .set = StoreFlag(&quiet_)},
    };
    inputs_.AddOptions(&spec_.options, /*with_input=*/false);
  }
  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed&) const override { return std::vector<std::string>{output_}; }
  StatusOr<int> Run(const Parsed& parsed) override {
    if (parsed.rest.empty()) return InvalidArgument("nothing to merge: name recordings or aggregates behind the options");
    RETURN_IF_ERROR(inputs_.Finish());
    aggregate::Data sum;
    sum.unit = unit_;
    int status = kDone;
    for (const std::string& path : parsed.rest) {
      ASSIGN_OR_RETURN(aggregate::Data data, Load(path, &status));
      if (Status weighed = data.Weigh(unit_); !weighed.ok()) return Annotate(weighed, EscapeForTerminal(path));
      RETURN_IF_ERROR(sum.Add(data));
    }
    RETURN_IF_ERROR(aggregate::Write(sum, output_));
    if (!quiet_ && output_ != "-") std::fprintf(stderr, "Next: brink report -i %s\n", EscapeForTerminal(output_).c_str());
    return status;
  }

 private:
  StatusOr<aggregate::Data> Load(const std::string& path, int* status) {
    aggregate::Data data;
    if (aggregate::LooksLikeAggregate(path)) {
      if (!inputs_.load.where.empty() || !inputs_.load.pids.empty() || !inputs_.load.comms.empty()) {
        return InvalidArgument(EscapeForTerminal(path) + " is an aggregate: filters choose among samples, and it has none");
      }
      ASSIGN_OR_RETURN(data, aggregate::Read(path));
    } else {
      inputs_.load.classify = true;
      ASSIGN_OR_RETURN(auto program, report::LoadProgram(path, inputs_.load));
      if (program->aggregate.branch_count == 0) return FailedPrecondition(EscapeForTerminal(path) + " holds no branches; record with brink record, or perf record -b");
      if (ReportDamage("merge", program->facts) != kDone) *status = kIncomplete;
      data = report::ToData(*program);
    }
    if (quiet_) return data;
    for (const auto& [name, population] : data.populations()) {
      const auto& facts = population.facts;
      std::fprintf(stderr, "brink merge: %s\n", absl::StrFormat("%s (%s): %d samples, %d branches counted in %s, %.3f s on CPUs, %d samples lost", EscapeForTerminal(path),
                   EscapeForTerminal(name), facts[aggregate::kSampleTotal], population.branch_count(), std::string(aggregate::UnitName(data.unit)),
                   static_cast<double>(facts[aggregate::kCpuNs]) / 1e9, facts[aggregate::kLostSamples]).c_str());
    }
    return data;
  }

  ReportInputs inputs_;
  std::string output_ = "brink.agg";
  aggregate::Unit unit_ = aggregate::Unit::kCpuSeconds;
  bool quiet_ = false;
  CommandSpec spec_{
      .name = "merge",
      .summary = "add up recordings and aggregates of many hosts",
      .usage = "[options] FILE...",
      .description = "Makes one aggregate (docs/aggregate.md) of recordings and aggregates. Code is known by build id and place in its file, so\n"
                     "hosts, containers and address layouts do not matter, nor does the order of the files. brink report, annotate and\n"
                     "export read the result.",
      .options = {},
      .examples = {{"brink merge -o fleet.agg host*/brink.agg", "Hosts weighed by their time on CPUs."},
                   {"brink merge -w records -o both.agg monday.data tuesday.data", "Two recordings, count for count."}}};
};

}  // namespace

std::unique_ptr<Command> MakeMerge() { return std::make_unique<MergeCommand>(); }

}  // namespace brink::cli
