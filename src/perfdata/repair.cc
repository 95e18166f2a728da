#include "perfdata/repair.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>

#include "perfdata/compress.h"
#include "perfdata/reader.h"
#include "perfdata/sink.h"

namespace brink::perfdata {
namespace {

constexpr uint32_t kProtExec = 4;

struct Extent {
  uint64_t end = 0;  // of the last whole record
  uint64_t records = 0;
};

// Walks headers only. The first thing that is no whole record ends the data.
StatusOr<Extent> FindEnd(const std::string& path, uint64_t start, uint64_t size) {
  auto input = OpenInput(path);
  if (!input.ok()) return input.status();
  Extent extent{start, 0};
  ChunkPool pool(1 << 20);
  RETURN_IF_ERROR((*input)->Seek(start));
  bool broken = false;
  RecordStream stream(&pool, [&](std::byte* out, size_t n) { return (*input)->Read(out, n); }, false, [&](Problem) { broken = true; });
  stream.set_offset(start);
  RawRecord record;
  while (true) {
    ASSIGN_OR_RETURN(bool more, stream.Next(&record));
    if (!more || broken) break;
    uint64_t end = record.offset + record.header.size;
    if (record.header.type == kRecordAuxtrace && record.body_size() >= 8) {
      uint64_t payload;
      std::memcpy(&payload, record.body(), sizeof payload);
      if (payload > size - end) break;
      ASSIGN_OR_RETURN(uint64_t skipped, stream.Skip(payload));
      end += skipped;
    }
    extent.end = end;
    ++extent.records;
  }
  return extent;
}

// What the records themselves say, as feature sections.
class Collector {
 public:
  explicit Collector(const RepairOptions& options) : options_(options) {}

  Status Collect(Reader& reader, uint64_t* samples) {
    Record record;
    while (true) {
      ASSIGN_OR_RETURN(bool more, reader.Next(&record));
      if (!more) break;
      if (const Sample* sample = record.sample()) {
        ++*samples;
        AddTime(sample->time);
      } else if (const auto* mmap = std::get_if<Mmap>(&record.body)) {
        AddMmap(record, *mmap);
      }
    }
    bool brink = false;
    for (const EventInfo& event : reader.events()) {
      features_.events.push_back({event.attr, event.name, event.ids});
      if (event.attr.sample_type & kSampleBranchStack) features_.branch_stack = true;
      if (event.attr.flags & kAttrUseClockid) features_.clockid_resolution_ns = 1;
      brink |= event.notes.has_value();
    }
    const auto& counts = reader.stats().records;
    if (counts[kRecordCompressed] + counts[kRecordCompressed2] != 0) {
      // perf's own chunks are as large as its ring buffers.
      features_.compressed = CompressionInfo{.level = 1, .ratio = 1, .mmap_len = brink ? static_cast<uint32_t>(Compressor::kMaxChunk) : 16u << 20};
    }
    if (first_ <= last_) features_.sample_time = {first_, last_};
    return OkStatus();
  }

  const Features& features() const { return features_; }

 private:
  void AddTime(uint64_t time) {
    if (time == 0) return;
    first_ = std::min(first_, time);
    last_ = std::max(last_, time);
  }

  void AddMmap(const Record& record, const Mmap& mmap) {
    if (mmap.data || mmap.filename.empty() || (mmap.mmap2 && !(mmap.prot & kProtExec))) return;
    std::string name(mmap.filename);
    if (!seen_.insert({name, std::string(mmap.build_id)}).second) return;
    std::string id(mmap.build_id);
    if (id.empty() && options_.build_id_of) id = options_.build_id_of(name);
    if (id.empty()) return;
    uint16_t mode = record.cpumode() == kMiscKernel ? kMiscKernel : kMiscUser;
    features_.build_ids.push_back({.pid = -1, .misc = mode, .build_id = id, .filename = name});
  }

  const RepairOptions& options_;
  Features features_;
  std::set<std::pair<std::string, std::string>> seen_;
  uint64_t first_ = UINT64_MAX, last_ = 0;
};

Status WriteHeader(Sink& sink, const FileHeader& header) { return PWriteFully(sink, std::as_bytes(std::span(&header, 1)), 0).status; }

}  // namespace

StatusOr<RepairReport> RepairFile(const std::string& path, const RepairOptions& options) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDWR));
  RETURN_IF_ERROR(LockForWriting(fd.get(), path));
  RepairReport report;
  FileHeader header;
  uint64_t file_size;
  {
    ASSIGN_OR_RETURN(auto probe, Reader::Open(path, {.ordered = false}));
    const FileFacts& facts = probe->facts();
    if (facts.pipe) return FailedPrecondition(path + " is a stream: it has no header that could be repaired, and is read as it is");
    if (facts.big_endian) return FailedPrecondition(path + " has the other byte order; repair it on the kind of machine that wrote it");
    header = facts.header;
    file_size = facts.file_size;
    bool features = (header.features[0] | header.features[1] | header.features[2] | header.features[3]) != 0;
    if (probe->events().empty()) return DataLoss(path + " has no event attributes: its records mean nothing without them");
    // Everything behind the data is written anew, so nothing else may lie there.
    if (header.data.offset < kFileHeaderSize || header.attrs.offset > header.data.offset ||
        header.attrs.size > header.data.offset - header.attrs.offset) {
      return FailedPrecondition(path + " has its attributes behind its data; brink does not repair such files");
    }
    // Damage of attributes and ids cannot be cured here, so it is no reason to write anything.
    if (features && !facts.unfinished && probe->stats().problem_count == facts.attribute_problems) return report;
  }
  const uint64_t start = header.data.offset;
  ASSIGN_OR_RETURN(Extent extent, FindEnd(path, start, file_size));
  if (extent.records == 0) return DataLoss(path + " holds no whole record: there is nothing to be repaired");
  report.changed = true;
  report.records = extent.records;
  const uint64_t recorded_end = start + std::min(header.data.size, file_size - start);
  report.salvaged_bytes = extent.end > recorded_end ? extent.end - recorded_end : 0;
  report.dropped_bytes = file_size - extent.end;

  // First a header that is right without features, so that an interruption here leaves a readable file.
  FdSink sink(std::move(fd), path);
  header.data.size = extent.end - start;
  std::fill(std::begin(header.features), std::end(header.features), 0);
  RETURN_IF_ERROR(WriteHeader(sink, header));
  Collector collector(options);
  {
    ASSIGN_OR_RETURN(auto reader, Reader::Open(path, {.ordered = false}));
    RETURN_IF_ERROR(collector.Collect(*reader, &report.samples));
  }
  report.build_ids = collector.features().build_ids.size();
  FeatureSections sections = EncodeFeatureSections(collector.features(), extent.end);
  RETURN_IF_ERROR(PWriteFully(sink, std::as_bytes(std::span(sections.bytes)), extent.end).status);
  std::copy(std::begin(sections.bits), std::end(sections.bits), header.features);
  RETURN_IF_ERROR(sink.Truncate(extent.end + sections.bytes.size()));
  RETURN_IF_ERROR(WriteHeader(sink, header));
  return report;
}

}  // namespace brink::perfdata
