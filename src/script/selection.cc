#include "script/selection.h"

namespace brink::script {

StatusOr<Selection> Selection::Create(const Options& options) {
  Selection selection;
  ASSIGN_OR_RETURN(selection.filter_, filter::SampleFilter::Create(options.where));
  if (selection.filter_.needs_symbols()) {
    return InvalidArgument("--where: symbols and files are resolved by brink report; script knows addresses only");
  }
  if (filter::ReadsCgroupNames(selection.filter_.expr())) selection.cgroups_ = std::make_unique<CgroupNames>(ResolverOptions{}, /*live=*/false);
  if (filter::ReadsField(selection.filter_.expr(), filter::Field::kComm)) selection.tasks_.emplace(/*maps=*/false);
  if (options.brbe_model) {
    ASSIGN_OR_RETURN(brbe::StreamModel model, brbe::StreamModel::Create(*options.brbe_model));
    selection.model_.emplace(std::move(model));
  }
  return selection;
}

void Selection::Observe(const perfdata::Record& record) {
  if (tasks_) tasks_->Observe(record);
  if (const auto* cgroup = std::get_if<perfdata::Cgroup>(&record.body); cgroup && cgroups_) cgroups_->Learn(cgroup->id, cgroup->path);
}

const perfdata::Sample* Selection::Choose(const perfdata::Sample& sample) {
  if (!first_time_) first_time_ = sample.time;
  if (!model_ && filter_.empty()) return &sample;
  filter::SampleView view{.pid = sample.pid, .tid = sample.tid, .ip = sample.ip, .first_time_ns = first_time_};
  if (sample.cpu != UINT32_MAX) view.cpu = sample.cpu;
  if (sample.time) view.time_ns = sample.time;
  if (sample.cgroup) view.cgroup_id = sample.cgroup;
  if (tasks_) {
    // ":TID" stands for a name that the recording does not give.
    std::string_view name = tasks_->Comm(sample.tid);
    if (!name.starts_with(':')) view.comm = name;
  }
  if (cgroups_) {
    const CgroupNames::Names& names = cgroups_->Of(sample.cgroup);
    view.cgroup_path = names.path;
    view.container = names.container;
    view.pod = names.pod;
  }
  if (!filter_.KeepSample(view)) return nullptr;
  if (!sample.has_branches || (!model_ && !filter_.filters_records())) return &sample;
  if (model_) {
    entries_ = model_->Apply(sample.branches);
  } else {
    entries_.assign(sample.branches.begin(), sample.branches.end());
  }
  entries_.resize(filter_.FilterRecords(view, entries_));
  copy_ = sample;
  copy_.branches = entries_;
  copy_.counters = {};  // one a branch: they no longer fit
  return &copy_;
}

void Selection::Describe(std::vector<std::string>* notes) const {
  if (!filter_.empty()) notes->push_back(filter::Describe(filter_.counters()));
  if (cgroups_ && cgroups_->unknown()) {
    notes->push_back("filter: " + std::to_string(cgroups_->unknown()) + " samples are of a cgroup that the recording does not name; record with --all-cgroups");
  }
  if (model_) notes->push_back(brbe::Describe(model_->counters()));
}

}  // namespace brink::script
