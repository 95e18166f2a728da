#include "export/rewrite.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "perfdata/reader.h"
#include "perfdata/writer.h"
#include "script/selection.h"

namespace brink::exporter {
namespace {

using namespace perfdata;

constexpr uint32_t kPidShift = 22;       // pid_max is at most 2^22
constexpr size_t kMostInputs = 500;      // shifted pids stay within 31 bits
constexpr uint64_t kRoundRecords = 1 << 16;

template <typename T>
bool Wanted(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

// One recording that is being read.
class Source {
 public:
  static StatusOr<Source> Open(const std::string& path, const report::LoadOptions& load) {
    ASSIGN_OR_RETURN(auto reader, Reader::Open(path));
    script::Options options;
    options.where = load.where;
    options.brbe_model = load.brbe_model;
    ASSIGN_OR_RETURN(script::Selection selection, script::Selection::Create(options));
    return Source(std::move(reader), std::move(selection), load);
  }

  Reader& reader() { return *reader_; }
  const Record& record() const { return record_; }
  bool ended() const { return ended_; }
  Status Advance() {
    ASSIGN_OR_RETURN(bool more, reader_->Next(&record_));
    ended_ = !more;
    if (more) selection_.Observe(record_);
    if (const auto* comm = more ? std::get_if<Comm>(&record_.body) : nullptr) comms_[comm->tid] = std::string(comm->comm);
    return OkStatus();
  }
  // What is left of a sample, or nullptr.
  const Sample* Choose() {
    const Sample& sample = *record_.sample();
    if (sample.time < load_.time_from || sample.time > load_.time_to || !Wanted(load_.pids, static_cast<int32_t>(sample.pid)) ||
        !Wanted(load_.tids, static_cast<int32_t>(sample.tid))) {
      return nullptr;
    }
    if (!load_.comms.empty()) {
      auto comm = comms_.find(sample.tid);
      if (comm == comms_.end()) comm = comms_.find(sample.pid);
      if (comm == comms_.end() || !Wanted(load_.comms, comm->second)) return nullptr;
    }
    return selection_.Choose(sample);
  }
  void Describe(std::vector<std::string>* notes) const { selection_.Describe(notes); }
  uint32_t Pid(uint32_t pid) const { return pid == 0 || pid == UINT32_MAX ? pid : pid + pid_base; }

  uint32_t pid_base = 0;
  size_t first_event = 0;  // of the output

 private:
  Source(std::unique_ptr<Reader> reader, script::Selection selection, const report::LoadOptions& load)
      : reader_(std::move(reader)), selection_(std::move(selection)), load_(load) {}
  std::unique_ptr<Reader> reader_;
  script::Selection selection_;
  const report::LoadOptions& load_;
  Record record_;
  bool ended_ = false;
  std::map<uint32_t, std::string> comms_;
};

class Rewriter {
 public:
  Rewriter(const std::string& output, const report::LoadOptions& load) : output_(output), load_(load) {}

  StatusOr<RewriteResult> Run(const std::vector<std::string>& inputs, int compression_level) {
    RETURN_IF_ERROR(OpenSources(inputs));
    RETURN_IF_ERROR(OpenWriter(compression_level));
    while (Source* source = Earliest()) {
      if (Status put = Put(*source); !put.ok()) return Annotate(put, EscapeForTerminal(output_));
      RETURN_IF_ERROR(source->Advance());
    }
    RETURN_IF_ERROR(batch_->Flush());
    for (Source& source : sources_) {
      for (const BuildIdEntry& entry : source.reader().features().build_ids) build_ids_.try_emplace(entry.filename, entry);
      result_.problems += source.reader().stats().problem_count;
      source.Describe(&result_.notes);
    }
    std::vector<BuildIdEntry> ids;
    for (const auto& [name, entry] : build_ids_) ids.push_back(entry);
    RETURN_IF_ERROR(writer_->Finish(std::move(ids)));
    return std::move(result_);
  }

 private:
  Status OpenSources(const std::vector<std::string>& inputs) {
    if (inputs.size() > kMostInputs) return InvalidArgument(absl::StrFormat("at most %d recordings at once; make several steps", kMostInputs));
    for (const std::string& path : inputs) {
      ASSIGN_OR_RETURN(Source source, Source::Open(path, load_));
      RETURN_IF_ERROR(source.Advance());  // events of a stream come with its first records
      const std::string& host = source.reader().features().hostname;
      if (!sources_.empty() && (host.empty() || host != sources_[0].reader().features().hostname)) source.pid_base = static_cast<uint32_t>(sources_.size()) << kPidShift;
      sources_.push_back(std::move(source));
    }
    return OkStatus();
  }

  // As brink writes events; what they count stays.
  EventSpec SpecOf(const EventInfo& event, bool filters_records) {
    EventSpec spec{.attr = event.attr, .name = event.name, .ids = {}, .notes = event.notes};
    result_.dropped_fields |= spec.attr.sample_type & ~RecordEncoder::kSupported;
    spec.attr.sample_type &= RecordEncoder::kSupported;
    spec.attr.sample_type |= kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleCpu;
    spec.attr.sample_type &= ~(kSampleId | kSampleStreamId);
    spec.attr.flags |= kAttrSampleIdAll | kAttrMmap | kAttrMmap2 | kAttrComm | kAttrCommExec | kAttrTask | kAttrBuildId;
    if (spec.attr.type == kTypeTracepoint) {
      // Without the tracing data of its format perf refuses a tracepoint.
      spec.attr.type = kTypeSoftware;
      spec.attr.config = kSwBpfOutput;
    }
    if (filters_records) {
      if (!spec.notes) spec.notes = EventNotes{};
      spec.notes->contiguous = false;
    }
    return spec;
  }

  Status OpenWriter(int compression_level) {
    WriterOptions options;
    options.compression_level = compression_level;
    ASSIGN_OR_RETURN(auto filter, filter::SampleFilter::Create(load_.where));
    const bool filters_records = filter.filters_records() || load_.brbe_model;
    for (Source& source : sources_) {
      source.first_event = options.events.size();
      for (const EventInfo& event : source.reader().events()) options.events.push_back(SpecOf(event, filters_records));
    }
    if (options.events.empty()) return FailedPrecondition("the recording holds no events");
    options.features = sources_[0].reader().features();
    options.features.events.clear();
    if (sources_.size() > 1) options.features.cmdline = {"brink", "export", "--format", "perfdata"};
    options.pipe = output_ == "-";
    std::unique_ptr<Sink> sink;
    if (options.pipe) {
      UniqueFd out(dup(STDOUT_FILENO));
      if (!out.valid()) return ErrnoError(errno, "standard output");
      sink = std::make_unique<FdSink>(std::move(out), "standard output");
    } else {
      ASSIGN_OR_RETURN(sink, OpenFileSink(output_));
    }
    ASSIGN_OR_RETURN(writer_, Writer::Create(std::move(sink), std::move(options)));
    batch_.emplace(*writer_);
    return OkStatus();
  }

  // Few inputs: a look at each is cheap enough. Records without a time go at once.
  Source* Earliest() {
    Source* earliest = nullptr;
    for (Source& source : sources_) {
      if (!source.ended() && (!earliest || source.record().time < earliest->record().time)) earliest = &source;
    }
    return earliest;
  }

  size_t EventOf(const Source& source) const { return source.first_event + static_cast<size_t>(std::max(0, source.record().event)); }

  template <typename Encode>
  Status Add(Encode encode) {
    return batch_->Add(encode);
  }

  Status Put(Source& source) {
    const Record& record = source.record();
    const RecordEncoder& encoder = writer_->encoder();
    SampleId id{.pid = source.Pid(record.id.pid), .tid = source.Pid(record.id.tid), .time = record.time, .id = writer_->id(source.first_event), .cpu = record.id.cpu};
    if (++records_ % kRoundRecords == 0 && sources_.size() == 1 && record.time) {
      RETURN_IF_ERROR(Add([&](auto out) { return RecordEncoder::FinishedRound(out, record.time - 1); }));
    }
    if (record.sample()) return PutSample(source);
    if (const auto* mmap = std::get_if<Mmap>(&record.body)) return PutMmap(source, *mmap, id);
    if (const auto* comm = std::get_if<Comm>(&record.body)) {
      return Add([&](auto out) { return encoder.Comm(out, source.Pid(comm->pid), source.Pid(comm->tid), comm->comm, comm->exec, id); });
    }
    if (const auto* task = std::get_if<Task>(&record.body)) {
      TaskFields fields{.pid = source.Pid(task->pid), .ppid = source.Pid(task->ppid), .tid = source.Pid(task->tid), .ptid = source.Pid(task->ptid), .time = task->time};
      return Add([&](auto out) { return task->exit ? encoder.Exit(out, fields, id) : encoder.Fork(out, fields, id); });
    }
    return PutOther(source, record, encoder, id);
  }

  Status PutOther(const Source& source, const Record& record, const RecordEncoder& encoder, const SampleId& id) {
    if (const auto* lost = std::get_if<Lost>(&record.body)) return Add([&](auto out) { return encoder.Lost(out, id.id, lost->lost, id); });
    if (const auto* lost = std::get_if<LostSamples>(&record.body)) return Add([&](auto out) { return encoder.LostSamples(out, lost->lost, id); });
    if (const auto* cgroup = std::get_if<Cgroup>(&record.body)) return Add([&](auto out) { return encoder.Cgroup(out, cgroup->id, cgroup->path, id); });
    if (const auto* k = std::get_if<Ksymbol>(&record.body)) {
      return Add([&](auto out) { return encoder.Ksymbol(out, k->addr, k->length, k->symbol_type, k->flags, k->name, id); });
    }
    if (const auto* n = std::get_if<Namespaces>(&record.body)) {
      return Add([&](auto out) { return encoder.Namespaces(out, source.Pid(n->pid), source.Pid(n->tid), n->pairs, id); });
    }
    if (const auto* bpf = std::get_if<BpfEvent>(&record.body); bpf && bpf->tag.size() == 8) {
      return Add([&](auto out) { return encoder.BpfEvent(out, bpf->bpf_type, bpf->flags, bpf->prog_id, bpf->tag.first<8>(), id); });
    }
    ++result_.skipped_records;
    return OkStatus();
  }

  Status PutMmap(Source& source, const Mmap& mmap, const SampleId& id) {
    Mmap2Fields fields{.misc = source.record().misc, .pid = source.Pid(mmap.pid), .tid = source.Pid(mmap.tid), .start = mmap.start, .length = mmap.length, .pgoff = mmap.pgoff,
                       .build_id = mmap.build_id, .major = mmap.major, .minor = mmap.minor, .inode = mmap.inode, .inode_generation = mmap.inode_generation,
                       .prot = mmap.prot, .flags = mmap.flags, .filename = mmap.filename};
    fields.misc &= static_cast<uint16_t>(~(1u << 14));  // the encoder says itself which form it wrote
    if (!mmap.mmap2) fields.prot = mmap.data ? 3 : 5, fields.flags = 2;
    if (!mmap.build_id.empty()) {
      std::string name(mmap.filename);
      const uint16_t mode = source.record().cpumode();
      // perf's table knows the kernel by its plain name.
      if (mode == kMiscKernel && name.starts_with("[kernel.kallsyms]")) name = "[kernel.kallsyms]";
      build_ids_.try_emplace(name, BuildIdEntry{.pid = -1, .misc = mode, .build_id = std::string(mmap.build_id), .filename = name});
    }
    return Add([&](auto out) { return writer_->encoder().Mmap2(out, fields, id); });
  }

  Status PutSample(Source& source) {
    const Sample* sample = source.Choose();
    if (!sample) return OkStatus();
    const size_t event = EventOf(source);
    SampleFields fields{.misc = source.record().misc, .ip = sample->ip, .pid = source.Pid(sample->pid), .tid = source.Pid(sample->tid), .time = sample->time, .addr = sample->addr,
                        .id = writer_->id(event), .cpu = sample->cpu, .period = sample->period, .chain = sample->chain, .raw = sample->raw,
                        .branches = {static_cast<const brink_branch*>(sample->branches.data()), sample->branches.size()}, .counters = sample->counters, .weight = sample->weight,
                        .data_src = sample->data_src, .transaction = sample->transaction, .phys_addr = sample->phys_addr, .cgroup = sample->cgroup};
    if (sample->hw_idx) fields.hw_idx = *sample->hw_idx;
    ++result_.samples;
    result_.branches += sample->branches.size();
    return Add([&](auto out) { return writer_->encoder(event).Sample(out, fields); });
  }

  const std::string& output_;
  const report::LoadOptions& load_;
  std::vector<Source> sources_;
  std::unique_ptr<Writer> writer_;
  std::optional<RecordBatch> batch_;
  std::map<std::string, BuildIdEntry> build_ids_;
  uint64_t records_ = 0;
  RewriteResult result_;
};

}  // namespace

StatusOr<RewriteResult> Rewrite(const std::vector<std::string>& inputs, const std::string& output, const report::LoadOptions& load, int compression_level) {
  ASSIGN_OR_RETURN(RewriteResult result, Rewriter(output, load).Run(inputs, compression_level));
  if (result.dropped_fields) result.notes.push_back(absl::StrFormat("fields of samples left out (sample_type bits %#x): registers, stacks, counter values", result.dropped_fields));
  if (result.skipped_records) result.notes.push_back(absl::StrFormat("%d records of kinds that say nothing about branches left out", result.skipped_records));
  return result;
}

}  // namespace brink::exporter
