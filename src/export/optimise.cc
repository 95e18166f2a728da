#include "export/optimise.h"

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::exporter {
namespace {

using report::Rule;

std::vector<std::string> NotesOf(const Binary& binary, const OptimiserText& profile, const report::Aggregate& aggregate) {
  const Written& written = profile.written;
  std::vector<std::string> notes;
  std::string name = EscapeForTerminal(binary.path());
  if (!binary.build_id().empty()) name += " (build id " + HexEncode(binary.build_id()).substr(0, 12) + (binary.verified() ? ")" : ", not in the recording: matched by name)");
  notes.push_back(absl::StrFormat("%s: %d branches, %d straight ranges in %d rows", name, written.branches, written.ranges, written.rows));
  if (written.elsewhere) notes.push_back(absl::StrFormat("%d branches in other files are left out", written.elsewhere));
  if (written.no_address) notes.push_back(absl::StrFormat("%d branches lie in no segment of the file and are left out", written.no_address));
  for (size_t i = 0; i < report::kRuleCount; ++i) {
    const Rule rule = static_cast<Rule>(i);
    if (aggregate.rules[rule]) notes.push_back(absl::StrFormat("%d %s", aggregate.rules[rule], std::string(report::RuleText(rule))));
  }
  return notes;
}

void ChainNotes(const ChainCounts& counts, std::vector<std::string>* notes) {
  auto add = [&](uint64_t count, const char* text) {
    if (count) notes->push_back(absl::StrFormat("%d samples left out: %s", count, text));
  };
  add(counts.no_chain, "no call chain");
  add(counts.broken, "calls and returns contradict the call chain");
  add(counts.outside_leaf, "their end lies outside of the binary");
  add(counts.far_leaf, "their end is 256 bytes or more behind the newest branch");
}

}  // namespace

Status RequireContiguous(const report::Aggregate& aggregate, const std::string& input) {
  const std::string name = EscapeForTerminal(input);
  if (aggregate.rules[Rule::kRangeCallStack]) {
    return FailedPrecondition(name + " was recorded in call-stack mode: no straight code can be read off it; record with -b (all branches), or say --branches-only");
  }
  if (aggregate.rules[Rule::kRangeRefused] || (aggregate.branch_count && !aggregate.any_contiguous)) {
    return FailedPrecondition(name + ": branches were filtered out of the stacks, so what ran between two of them is not known; "
                              "record all branches (brink record without -j kinds and record filters in --where), or say --branches-only");
  }
  return OkStatus();
}

StatusOr<OptimiseResult> Optimise(const std::string& input, report::LoadOptions load, const OptimiseOptions& options) {
  const bool by_stack = options.format == Optimiser::kProfgen;
  std::optional<TraceCollector> traces;
  std::optional<StackCollector> stacks;
  load.classify = true;
  load.observe = [&](report::Program& program) -> report::StackObserver* {
    if (by_stack) return &stacks.emplace(&program, options.chains);
    return &traces.emplace(&program.spaces);
  };
  OptimiseResult result;
  ASSIGN_OR_RETURN(result.program, report::LoadProgram(input, load));
  report::Program& program = *result.program;
  const report::Aggregate& aggregate = program.aggregate;
  if (aggregate.branch_count == 0) return FailedPrecondition(EscapeForTerminal(input) + " holds no branches" + (aggregate.samples ? " in its samples" : "") + "; record with brink record, or perf record -b");
  if (!options.branches_only) RETURN_IF_ERROR(RequireContiguous(aggregate, input));
  if (by_stack && stacks->distinct() == 0 && !options.chains) {
    return FailedPrecondition(EscapeForTerminal(input) + " is an aggregate: it has counts, not stacks; say --format profgen-unsymbolized");
  }
  if (options.chains && stacks && stacks->distinct() == 0) return FailedPrecondition(EscapeForTerminal(input) + " holds no call chains that fit its stacks; record with brink record -g");

  std::vector<Trace> list;
  if (traces) list = traces->Take();
  if (list.empty()) list = TracesOf(aggregate);  // an aggregate file: no stacks were seen
  std::vector<std::string> wanted = options.binaries;
  if (wanted.empty()) wanted.emplace_back();
  for (const std::string& name : wanted) {
    ASSIGN_OR_RETURN(Binary binary, Binary::Choose(program, name));
    OptimiserText text;
    ChainCounts chain_counts;
    switch (options.format) {
      case Optimiser::kBolt: text = BoltText(list, binary, options.dialect); break;
      case Optimiser::kProfgenUnsymbolized: text = UnsymbolizedText(list, binary); break;
      case Optimiser::kAutofdo: text = AutofdoText(list, aggregate.ips, binary); break;
      case Optimiser::kProfgen: text = options.chains ? stacks->PerfscriptWithChains(binary, &chain_counts) : stacks->Perfscript(binary, options.branches_only); break;
    }
    std::vector<std::string> notes = NotesOf(binary, text, aggregate);
    if (options.chains) ChainNotes(chain_counts, &notes);
    result.profiles.push_back({std::move(binary), std::move(text), std::move(notes)});
  }
  return result;
}

}  // namespace brink::exporter
