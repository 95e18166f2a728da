#include "cli/record_exact.h"

#include "exact/exact_source.h"
#include "filter/branch_flags.h"

namespace brink::cli {
namespace {

Status CheckTarget(const RecordOptions& options, const std::string& name) {
  if (options.all_cpus || !options.cpus.empty() || !options.cgroups.empty()) {
    return InvalidArgument("--source " + name + " follows threads by ptrace: give a command, -p or -t, not -a, -C or -G");
  }
  if (options.delay_ms) return InvalidArgument("--source " + name + " begins at once: -D is not for it");
  if (options.inherited_events) return InvalidArgument("--source " + name + " opens its own events: --inherited-events is not for it");
  return OkStatus();
}

}  // namespace

Status UseExact(const RecordOptions& options, bool hop, RecordRequest* request) {
  std::string name = hop ? "hop" : "step";
  RETURN_IF_ERROR(CheckTarget(options, name));
  if (options.whole_run && hop) return InvalidArgument("--whole-run: every branch is recorded by --source step");
  ExactOptions exact;
  ptrace::FollowConfig& follow = exact.follow;
  follow.hop = hop;
  follow.whole_run = options.whole_run;
  follow.call_chain = options.call_graph || !options.call_graph_mode.empty();
  follow.depth = options.depth ? static_cast<uint32_t>(options.depth) : options.whole_run ? 1024 : 32;
  uint64_t flags = filter::kBranchAny;
  if (!options.branch_filter.empty()) {
    ASSIGN_OR_RETURN(flags, filter::ParseBranchFlags(options.branch_filter));
  }
  if (flags & filter::kBranchKernel) return InvalidArgument("--source " + name + " sees user mode only: no -j k");
  if (!(flags & filter::kBranchAny)) {
    if (uint64_t kinds = filter::KindsOfFlags(flags)) follow.kinds = static_cast<uint32_t>(kinds);
  }
  exact.branch_sample_type = flags | filter::kBranchUser | filter::kBranchTypeSave;
  exact.tids = request->spec.session.target.tids;
  follow.follow_children = exact.tids.empty() && request->spec.session.target.follow_children;
  request->source = std::make_unique<ExactSource>(std::move(exact));
  return OkStatus();
}

}  // namespace brink::cli
