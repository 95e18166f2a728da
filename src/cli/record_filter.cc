#include "cli/record_filter.h"

#include <sys/stat.h>

#include "filter/branch_flags.h"
#include "filter/parser.h"
#include "filter/plan.h"
#include "session/run_cgroup.h"

namespace brink::cli {
namespace {

// Id of a cgroup v2 path as the kernel knows it: the inode of its directory.
std::optional<uint64_t> CgroupId(std::string_view path) {
  static const SessionMounts mounts = ReadCgroupMounts();
  struct stat info;
  std::string directory = mounts.v2 + std::string(path.starts_with("/") ? "" : "/") + std::string(path);
  if (mounts.v2.empty() || stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  return info.st_ino;
}

struct Wanted {
  filter::Expr expr;          // null: everything
  uint64_t branch_bits = 0;   // of -j
};

StatusOr<Wanted> Read(const RecordOptions& options) {
  Wanted wanted;
  if (options.branch_any) wanted.branch_bits |= filter::kBranchAny;
  if (!options.branch_filter.empty()) {
    ASSIGN_OR_RETURN(uint64_t bits, filter::ParseBranchFlags(options.branch_filter));
    if (bits & filter::kBranchCallStack) {
      return InvalidArgument("-j stack: call-stack mode records call chains, not branches; say -g for call chains");
    }
    wanted.branch_bits |= bits;
  }
  std::vector<filter::Expr> parts;
  for (const std::string& where : options.where) {
    auto expr = filter::Parse(where);
    if (!expr.ok()) return Annotate(expr.status(), "--where '" + where + "'");
    parts.push_back(*expr);
  }
  if (wanted.branch_bits) {
    filter::Expr said = filter::ExprOfFlags(wanted.branch_bits);
    if (said->type != filter::Node::Type::kConst) parts.push_back(said);
  }
  if (!parts.empty()) wanted.expr = filter::And(std::move(parts));
  return wanted;
}

}  // namespace

StatusOr<uint64_t> HardwareBranchBits(const RecordOptions& options) {
  ASSIGN_OR_RETURN(Wanted wanted, Read(options));
  filter::PlanOptions plan_options;
  plan_options.branch_bits = wanted.branch_bits;
  ASSIGN_OR_RETURN(filter::Plan plan, filter::MakePlan(wanted.expr ? wanted.expr : filter::Constant(filter::Truth::kTrue), plan_options));
  const bool privilege = (wanted.branch_bits & filter::kBranchPrivMask) ||
                         (wanted.expr && (filter::ReadsField(plan.expr, filter::Field::kToPriv) || filter::ReadsField(plan.expr, filter::Field::kCrossPriv)));
  // Without a word about privilege it is the event's.
  return privilege ? plan.branch_bits : plan.branch_bits & ~uint64_t{filter::kBranchPrivMask};
}

Status FillFilter(const RecordOptions& options, RecordSpec* spec) {
  RecordFilter& filter = spec->filter;
  if (!options.brbe_model.empty()) {
    ASSIGN_OR_RETURN(filter.model, brbe::ParseStreamOptions(options.brbe_model));
  }
  ASSIGN_OR_RETURN(Wanted wanted, Read(options));
  if (!wanted.expr) return OkStatus();
  filter::PlanOptions plan_options;
  plan_options.branch_bits = wanted.branch_bits;
  plan_options.compile.cgroup_id = CgroupId;
  ASSIGN_OR_RETURN(filter::Plan plan, filter::MakePlan(wanted.expr, plan_options));
  filter.expr = plan.expr;
  filter.branch_bits = plan.branch_bits;
  filter.records = filter::ReadsRecord(plan.expr);
  filter.compile = plan_options.compile;
  return OkStatus();
}

}  // namespace brink::cli
