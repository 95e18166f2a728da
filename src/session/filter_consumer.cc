#include "session/filter_consumer.h"

#include <linux/perf_event.h>

#include <cstring>

#include <absl/strings/str_format.h>

#include "session/run_cgroup.h"

namespace brink {
namespace {

constexpr size_t kMostNames = 65536;

Status Refuse(const filter::Expr& expr) {
  using filter::Field;
  for (Field field : {Field::kFromSymbol, Field::kToSymbol, Field::kFromObject, Field::kToObject, Field::kCrossFunction, Field::kCrossObject,
                      Field::kElapsed}) {
    if (filter::ReadsField(expr, field)) {
      return InvalidArgument(std::string("--where: ") + filter::Info(field).name + " is not known while recording; record without it, then: brink report --where ...");
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<FilterConsumer>> FilterConsumer::Create(const RecordFilter& spec, bool in_bpf, Consumer& next) {
  if (!spec.expr && !spec.model) return std::unique_ptr<FilterConsumer>();
  std::unique_ptr<FilterConsumer> consumer(new FilterConsumer(next));
  filter::Expr left = spec.expr ? filter::Simplify(spec.expr) : filter::Constant(filter::Truth::kTrue);
  RETURN_IF_ERROR(Refuse(left));
  if (spec.model) {
    ASSIGN_OR_RETURN(brbe::StreamModel model, brbe::StreamModel::Create(*spec.model));
    consumer->model_.emplace(std::move(model));
  } else if (in_bpf) {
    filter::Compiled compiled = filter::Compile(left, spec.compile);
    consumer->program_ = compiled.prog;
    left = compiled.rest.empty() ? filter::Constant(filter::Truth::kTrue) : filter::And(compiled.rest);
  }
  if (filter::ReadsCgroupNames(left)) {
    // Samples carry the id of cgroup v2.
    ContainerHierarchy hierarchy{.controller = "", .mount = ReadCgroupMounts().v2};
    consumer->cgroups_ = std::make_unique<CgroupNames>(ResolverOptions{.runtime_root = "", .hierarchy = std::move(hierarchy)}, /*live=*/true);
  }
  consumer->follow_names_ = filter::ReadsField(left, filter::Field::kComm);
  consumer->filter_ = filter::SampleFilter(left, spec.compile);
  return consumer;
}

Status FilterConsumer::OnSample(const SampleView& sample) {
  const brink_sample& head = *sample.head;
  filter::SampleView view{.pid = head.tgid, .tid = head.tid, .cpu = head.cpu, .time_ns = head.time_ns, .ip = head.ip};
  if (head.cgroup_id) view.cgroup_id = head.cgroup_id;
  if (follow_names_) {
    if (auto it = names_.find(head.tid); it != names_.end()) view.comm = it->second;
  }
  if (cgroups_) {
    const CgroupNames::Names& names = cgroups_->Of(head.cgroup_id);
    view.cgroup_path = names.path;
    view.container = names.container;
    view.pod = names.pod;
  }
  if (!filter_.KeepSample(view)) return OkStatus();
  if (!model_ && !filter_.filters_records()) return next_.OnSample(sample);
  brink_sample copy = head;
  if (model_) {
    const uint64_t lost_before = model_->counters().unclassified + model_->counters().not_branches;
    entries_ = model_->Apply(sample.branches);
    const bool gap = model_->counters().unclassified + model_->counters().not_branches != lost_before;
    if (gap || entries_.size() < sample.branches.size()) copy.flags |= BRINK_SAMPLE_FILTERED;
  } else {
    entries_.assign(sample.branches.begin(), sample.branches.end());
  }
  if (filter_.filters_records()) {
    entries_.resize(filter_.FilterRecords(view, entries_));
    copy.flags |= BRINK_SAMPLE_FILTERED;
  }
  copy.nr = static_cast<uint16_t>(entries_.size());
  return next_.OnSample({.head = &copy, .branches = entries_, .chain = sample.chain});
}

Status FilterConsumer::OnPerfRecord(const PerfRecordView& view) {
  perf_event_header header;
  std::memcpy(&header, view.record.data(), sizeof(header));
  if (follow_names_ && header.type == PERF_RECORD_COMM && view.record.size() > 16) {
    uint32_t tid;
    std::memcpy(&tid, view.record.data() + 12, 4);
    const char* name = reinterpret_cast<const char*>(view.record.data() + 16);
    if (names_.size() < kMostNames || names_.contains(tid)) names_[tid].assign(name, strnlen(name, view.record.size() - 16));
  }
  if (cgroups_ && header.type == PERF_RECORD_CGROUP && view.record.size() > 16) {
    uint64_t id;
    std::memcpy(&id, view.record.data() + 8, 8);
    const char* path = reinterpret_cast<const char*>(view.record.data() + 16);
    cgroups_->Learn(id, std::string_view(path, strnlen(path, view.record.size() - 16)));
  }
  return next_.OnPerfRecord(view);
}

void FilterConsumer::Report(const BpfCounters& counters, std::vector<StatLine>* lines) const {
  if (program_) {
    uint64_t dropped = counters[BRINK_CNT_RECORDS_FILTERED], unknown = counters[BRINK_CNT_RECORDS_UNKNOWN], samples = counters[BRINK_CNT_FILTER_UNKNOWN];
    std::string text = absl::StrFormat("filter in BPF: %d branch records removed", dropped + unknown);
    if (unknown) absl::StrAppendFormat(&text, ", %d of them because a value was unknown", unknown);
    if (samples) absl::StrAppendFormat(&text, "; %d samples removed because a value was unknown", samples);
    lines->push_back({"bpf_records_filtered", static_cast<double>(dropped), text});
    lines->push_back({"bpf_records_unknown", static_cast<double>(unknown), ""});
  }
  if (model_) lines->push_back({"brbe_records", static_cast<double>(model_->counters().recorded), brbe::Describe(model_->counters())});
  if (!filter_.empty()) {
    const filter::FilterCounters& c = filter_.counters();
    lines->push_back({"records_filtered", static_cast<double>(c.records_dropped), filter::Describe(c)});
    lines->push_back({"records_unknown", static_cast<double>(c.records_unknown), ""});
  }
}

}  // namespace brink
