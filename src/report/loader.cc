#include "report/loader.h"

#include <map>
#include <tuple>

#include <absl/strings/str_format.h>

#include "aggregate/file.h"
#include "base/strings.h"
#include "container/cgroup_names.h"
#include "filter/sample_filter.h"
#include "report/aggregate_io.h"
#include "report/feed.h"

namespace brink::report {
namespace {

template <typename T>
bool Wanted(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

// Symbols and objects for --where.
class Resolver : public filter::CodeResolver {
 public:
  explicit Resolver(Program* program) : program_(*program) {}
  filter::CodePlace Lookup(const filter::SampleView& sample, uint64_t address) override {
    Location location = program_.spaces.Normalise(static_cast<int32_t>(sample.pid.value_or(0)), address);
    const symbol::Function& function = (*program_.symbolizer)[program_.FunctionAt(location)];
    const symbol::Object& object = program_.objects[location.object];
    filter::CodePlace place;
    if (function.resolved()) place.symbol = function.name, place.function = function.start;
    place.object = object.path;
    // The text must live until the call after next.
    std::string& hex = hex_[next_++ % 2];
    hex = HexEncode(object.build_id);
    place.build_id = hex;
    return place;
  }

 private:
  Program& program_;
  std::string hex_[2];
  size_t next_ = 0;
};

}  // namespace

class ProgramLoader::Impl {
 public:
  Impl(const LoadOptions& options, Program* program)
      : options_(options),
        program_(*program),
        aggregator_(&program->spaces),
        loops_(&program->spaces),
        paths_(&program->spaces, options.path_length),
        flame_([this](int32_t pid, uint64_t address) { return program_.FunctionAt(program_.spaces.Normalise(pid, address)); }),
        resolver_(program) {}

  Status Open(std::unique_ptr<perfdata::Input> input, const std::string& path) {
    ASSIGN_OR_RETURN(filter_, filter::SampleFilter::Create(options_.where));
    needs_kinds_ = options_.classify || options_.brbe_model || filter::ReadsField(filter_.expr(), filter::Field::kKind);
    if (filter::ReadsCgroupNames(filter_.expr())) cgroups_.emplace(ResolverOptions{}, /*live=*/false);
    if (options_.brbe_model) {
      ASSIGN_OR_RETURN(brbe::StreamModel model, brbe::StreamModel::Create(*options_.brbe_model));
      model_.emplace(std::move(model));
    }
    ASSIGN_OR_RETURN(reader_, perfdata::Reader::Open(std::move(input)));
    path_ = path;
    MakeSymbolizer();
    if (options_.loops) aggregator_.AddObserver(&loops_);
    if (options_.path_length > 0) aggregator_.AddObserver(&paths_);
    if (options_.flame) aggregator_.AddObserver(&flame_);
    if (options_.observe) {
      observer_ = options_.observe(program_);
      aggregator_.AddObserver(observer_);
    }
    ApplyBuildIds(reader_->features(), &program_.objects);
    return OkStatus();
  }

  StatusOr<bool> Read() { return reader_->Next(&record_); }

  void Apply() {
    // A stream says only before its first record where it comes from.
    if (RecordedElsewhere(reader_->features()) != other_host_ && first_) MakeSymbolizer();
    first_ = false;
    if (const perfdata::Sample* sample = record_.sample()) Add(*reader_, record_, *sample);
    else Apply(record_);
  }

  void Snapshot() {
    program_.aggregate = aggregator_.result();
    program_.loops = loops_.result();
    Describe(*reader_, path_);
  }

  void ResetCounts() {
    aggregator_.Reset();
    (void)loops_.Take();
  }

  void Finish() {
    ApplyBuildIds(reader_->features(), &program_.objects);
    program_.aggregate = aggregator_.Take();
    program_.loops = loops_.Take();
    program_.path_windows = paths_.windows();
    program_.paths_dropped = paths_.dropped();
    program_.paths = paths_.Take();
    if (options_.flame) program_.flame = flame_.Take();
    Describe(*reader_, path_);
  }

 private:
  void MakeSymbolizer() {
    symbol::SymbolOptions symbols = options_.symbols;
    symbols.locate.other_host = other_host_ = RecordedElsewhere(reader_->features());
    program_.symbolizer = std::make_unique<symbol::Symbolizer>(&program_.objects, std::move(symbols));
  }

  void Apply(const perfdata::Record& record) {
    ApplyRecord(record, &program_.spaces);
    if (const auto* cgroup = std::get_if<perfdata::Cgroup>(&record.body)) {
      program_.cgroups[cgroup->id] = std::string(cgroup->path);
      if (cgroups_) cgroups_->Learn(cgroup->id, cgroup->path);
    }
    const auto* mmap = std::get_if<perfdata::Mmap>(&record.body);
    if (mmap && mmap->filename.ends_with(".dump")) {
      int32_t pid = static_cast<int32_t>(mmap->pid);
      if (!program_.spaces.JitDumpOf(pid).empty()) program_.symbolizer->SetJitDump(pid, std::string(program_.spaces.JitDumpOf(pid)));
    }
  }

  const StackMeta& MetaOfEvent(const perfdata::Reader& reader, int event) {
    while (metas_.size() < reader.events().size()) metas_.push_back(MetaOf(reader.events()[metas_.size()]));
    static constexpr StackMeta kDefault;
    return event >= 0 && static_cast<size_t>(event) < metas_.size() ? metas_[static_cast<size_t>(event)] : kDefault;
  }

  void Add(const perfdata::Reader& reader, const perfdata::Record& record, const perfdata::Sample& sample) {
    const int32_t pid = static_cast<int32_t>(sample.pid), tid = static_cast<int32_t>(sample.tid);
    program_.facts.branch_stacks |= sample.has_branches;
    if (sample.time < options_.time_from || sample.time > options_.time_to || !Wanted(options_.pids, pid) || !Wanted(options_.tids, tid)) return Skip();
    if (!options_.comms.empty() && !Wanted(options_.comms, std::string(program_.spaces.CommOf(pid, tid)))) return Skip();
    SampleView view{.pid = pid, .tid = tid, .ip = sample.ip, .time = sample.time, .period = sample.period, .branches = sample.branches, .cpu = sample.cpu, .cgroup = sample.cgroup, .chain = sample.chain};
    view.meta = MetaOfEvent(reader, record.event);
    if (const auto& notes = record.event >= 0 ? reader.events()[static_cast<size_t>(record.event)].notes : std::nullopt) {
      view.source = notes->source;
      view.direction = notes->direction;
      if (notes->sample_notes) ReadNote(sample, &view);
    }
    // Between filtered records a second copy of the newest can no longer be told from a branch that follows itself.
    if ((model_ || filter_.filters_records()) && NewestTwice(view.branches, view.meta)) {
      view.branches = view.branches.subspan(1);
      view.meta.newest_taken_off = true;
    }
    if (needs_kinds_) ClassifyBranches(&view);
    if (model_) ApplyModel(&view);
    if (!filter_.empty() && !Filter(sample, &view)) return Skip();
    if (!program_.facts.first_time || (sample.time && sample.time < program_.facts.first_time)) program_.facts.first_time = sample.time;
    program_.facts.last_time = std::max(program_.facts.last_time, sample.time);
    if (IsClock(reader, record.event)) program_.facts.cpu_ns += sample.period;
    GroupCount& group = program_.group_counts[sample.cgroup];
    ++group.samples;
    group.branches += view.branches.size();
    if (options_.observe_only) observer_->OnSample(view);
    else aggregator_.Add(view);
  }

  // Whether the event counts nanoseconds on a CPU: then its periods add up to the time that was sampled.
  static bool IsClock(const perfdata::Reader& reader, int event) {
    if (event < 0) return false;
    const perfdata::EventAttr& attr = reader.events()[static_cast<size_t>(event)].attr;
    return attr.type == perfdata::kTypeSoftware && (attr.config == perfdata::kSwCpuClock || attr.config == perfdata::kSwTaskClock);
  }

  void Skip() { program_.facts.filtered_samples += 1; }

  static void ReadNote(const perfdata::Sample& sample, SampleView* view) {
    auto note = perfdata::ReadSampleNote(sample.raw);
    if (!note) return;
    view->has_note = true;
    view->stop = note->stop;
    view->end_ip = note->end_ip();
    view->source = note->source;
    view->direction = note->direction;
    if (note->flags & BRINK_SAMPLE_FILTERED) view->meta.contiguous = false;
  }

  // Recordings of older kernels carry no kinds: the code tells, where it is at hand.
  void ClassifyBranches(SampleView* view) {
    classified_.assign(view->branches.begin(), view->branches.end());
    for (BranchEntry& entry : classified_) {
      if (entry.type() != PerfBranchType::kUnknown || entry.abort() || !entry.from) continue;
      const Location from = program_.spaces.Normalise(view->pid, entry.from);
      const bool to_kernel = symbol::AddressSpaces::IsKernel(entry.to);
      auto [it, fresh] = kinds_.try_emplace({from.object, from.offset, to_kernel}, Kind::kUnknown);
      if (fresh) it->second = program_.KindAt(from, to_kernel);
      entry.info |= MakeInfo(it->second);
    }
    view->branches = classified_;
  }

  void ApplyModel(SampleView* view) {
    const auto left_out = [this] { return model_->counters().unclassified + model_->counters().not_branches; };
    const uint64_t before = left_out();
    modelled_ = model_->Apply(view->branches);
    view->branches = modelled_;
    if (left_out() != before || !brbe::RecordsEverything(*options_.brbe_model)) view->meta.contiguous = false;
  }

  bool Filter(const perfdata::Sample& sample, SampleView* view) {
    filter::SampleView about;
    about.pid = sample.pid;
    about.tid = sample.tid;
    if (sample.cpu != UINT32_MAX) about.cpu = sample.cpu;
    if (sample.time) about.time_ns = sample.time;
    if (sample.cgroup) about.cgroup_id = sample.cgroup;
    about.ip = sample.ip;
    about.first_time_ns = program_.facts.first_time ? program_.facts.first_time : sample.time;
    std::string_view comm = program_.spaces.CommOf(view->pid, view->tid);
    if (!comm.empty()) about.comm = comm;
    if (cgroups_) {
      const CgroupNames::Names& names = cgroups_->Of(sample.cgroup);
      about.cgroup_path = names.path;
      about.container = names.container;
      about.pod = names.pod;
    }
    if (!filter_.KeepSample(about, &resolver_)) return false;
    if (!filter_.filters_records()) return true;
    kept_.assign(view->branches.begin(), view->branches.end());
    kept_.resize(filter_.FilterRecords(about, kept_, &resolver_));
    view->branches = kept_;
    view->meta.contiguous = false;
    return true;
  }

  void Describe(const perfdata::Reader& reader, const std::string& path) {
    RecordingFacts& facts = program_.facts;
    facts.path = path;
    facts.filter_lines.clear();
    facts.events.clear();
    facts.command.clear();
    facts.problems.clear();
    if (!filter_.empty()) facts.filter_lines.push_back(filter::Describe(filter_.counters()));
    if (cgroups_ && cgroups_->unknown()) {
      facts.filter_lines.push_back(absl::StrFormat("filter: %d samples are of a cgroup that the recording does not name; record with --all-cgroups", cgroups_->unknown()));
    }
    if (program_.spaces.unfollowed()) {
      facts.filter_lines.push_back(absl::StrFormat("%d mappings are of more processes or files than are followed at a time: addresses in them have no names", program_.spaces.unfollowed()));
    }
    if (model_) facts.filter_lines.push_back(brbe::Describe(model_->counters()));
    for (const perfdata::EventInfo& event : reader.events()) {
      facts.events.push_back(event.name);
      if (event.attr.flags & perfdata::kAttrFreq) facts.most_frequent = std::max(facts.most_frequent, event.attr.sample_period);
    }
    facts.hostname = reader.features().hostname;
    facts.os_release = reader.features().os_release;
    for (const std::string& word : reader.features().cmdline) facts.command += (facts.command.empty() ? "" : " ") + word;
    facts.lost_records = reader.stats().lost_records;
    facts.lost_samples = reader.stats().lost_samples;
    facts.problem_count = reader.stats().problem_count;
    for (const perfdata::Problem& problem : reader.stats().problems) {
      facts.problems.push_back(absl::StrFormat("at offset %#x: %s (%d bytes lost)", problem.offset, problem.what, problem.bytes));
    }
  }

  const LoadOptions& options_;
  Program& program_;
  std::string path_;
  std::unique_ptr<perfdata::Reader> reader_;
  perfdata::Record record_;
  bool other_host_ = false, first_ = true;
  Aggregator aggregator_;
  StackObserver* observer_ = nullptr;
  LoopFinder loops_;
  PathFinder paths_;
  FlameBuilder flame_;
  Resolver resolver_;
  filter::SampleFilter filter_;
  std::optional<CgroupNames> cgroups_;  // where the expressions ask for them
  std::vector<StackMeta> metas_;
  std::optional<brbe::StreamModel> model_;
  bool needs_kinds_ = false;
  std::map<std::tuple<symbol::ObjectId, uint64_t, bool>, Kind> kinds_;
  std::vector<BranchEntry> kept_, modelled_, classified_;
};

ProgramLoader::ProgramLoader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProgramLoader::~ProgramLoader() = default;

StatusOr<std::unique_ptr<ProgramLoader>> ProgramLoader::Open(std::unique_ptr<perfdata::Input> input, const LoadOptions& options, Program* program) {
  const std::string name = input->name();
  auto impl = std::make_unique<Impl>(options, program);
  RETURN_IF_ERROR(impl->Open(std::move(input), name));
  return std::unique_ptr<ProgramLoader>(new ProgramLoader(std::move(impl)));
}

StatusOr<bool> ProgramLoader::Read() { return impl_->Read(); }
void ProgramLoader::Apply() { impl_->Apply(); }
void ProgramLoader::Snapshot() { impl_->Snapshot(); }
void ProgramLoader::ResetCounts() { impl_->ResetCounts(); }
void ProgramLoader::Finish() { impl_->Finish(); }

namespace {

Status LoadAggregate(const std::string& path, const LoadOptions& options, Program* program) {
  if (!options.pids.empty() || !options.tids.empty() || !options.comms.empty() || !options.where.empty() || options.brbe_model ||
      options.time_from || options.time_to != UINT64_MAX) {
    return InvalidArgument(EscapeForTerminal(path) + " is an aggregate: it no longer knows single samples, so nothing can be chosen among them; filter while recording or merging");
  }
  ASSIGN_OR_RETURN(aggregate::Data data, aggregate::Read(path));
  symbol::SymbolOptions symbols = options.symbols;
  symbols.locate.other_host = true;  // of any host: only build ids tell which file it was
  program->symbolizer = std::make_unique<symbol::Symbolizer>(&program->objects, std::move(symbols));
  program->facts.path = path;
  FromData(data, program);
  if (options.observe) options.observe(*program);
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Program>> LoadProgram(const std::string& path, const LoadOptions& options) {
  if (!aggregate::LooksLikeAggregate(path)) {
    ASSIGN_OR_RETURN(std::unique_ptr<perfdata::Input> input, perfdata::OpenInput(path));
    return LoadProgram(std::move(input), options);
  }
  auto program = std::make_unique<Program>();
  RETURN_IF_ERROR(LoadAggregate(path, options, program.get()));
  program->FillKinds();
  return program;
}

StatusOr<std::unique_ptr<Program>> LoadProgram(std::unique_ptr<perfdata::Input> input, const LoadOptions& options) {
  auto program = std::make_unique<Program>();
  ASSIGN_OR_RETURN(auto loader, ProgramLoader::Open(std::move(input), options, program.get()));
  while (true) {
    ASSIGN_OR_RETURN(bool more, loader->Read());
    if (!more) break;
    loader->Apply();
  }
  loader->Finish();
  program->FillKinds();
  return program;
}

}  // namespace brink::report
