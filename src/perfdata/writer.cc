#include "perfdata/writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace brink::perfdata {
namespace {

Status CheckEvents(const std::vector<EventSpec>& events) {
  if (events.empty()) return InvalidArgument("a recording needs at least one event");
  constexpr uint64_t kShared = kSampleIdentifier | kSampleTid | kSampleTime | kSampleCpu;
  for (const EventSpec& event : events) {
    uint64_t type = event.attr.sample_type;
    if (type & ~kSampleKnown) return InvalidArgument("unknown sample_type bits");
    if ((type ^ events[0].attr.sample_type) & kShared) {
      return InvalidArgument("events with different id, tid, time or cpu fields cannot share a recording");
    }
    if (events.size() > 1 && !(type & kSampleIdentifier)) return InvalidArgument("several events need the identifier field");
  }
  return OkStatus();
}

// Place of the time in a sample: it follows fields that are there or not by the layout alone.
size_t TimeOffset(uint64_t sample_type) {
  if (!(sample_type & kSampleTime)) return 0;
  return sizeof(RecordHeader) + 8 * static_cast<size_t>(std::popcount(sample_type & (kSampleIdentifier | kSampleIp | kSampleTid)));
}

}  // namespace

Writer::Writer(std::unique_ptr<Sink> sink, WriterOptions options)
    : sink_(std::move(sink)), events_(std::move(options.events)), features_(std::move(options.features)), pipe_(options.pipe) {
  uint64_t next_id = 1;
  for (EventSpec& event : events_) {
    event.attr.size = kAttrSizeWritten;
    event.attr.config3 = 0;
    if (event.notes) event.attr.sig_data = PackEventNotes(*event.notes);
    if (event.ids.empty() && event.attr.sample_type & (kSampleIdentifier | kSampleId)) event.ids.push_back(next_id);
    ++next_id;
    encoders_.emplace_back(event.attr);
    features_.events.push_back({event.attr, event.name, event.ids});
    if (event.attr.sample_type & kSampleBranchStack) features_.branch_stack = true;
  }
  time_offset_ = TimeOffset(events_[0].attr.sample_type);
}

Writer::~Writer() {
  if (!finished_ && !pipe_ && data_end_ > 0) (void)WriteHeader(false);
}

StatusOr<std::unique_ptr<Writer>> Writer::Create(std::unique_ptr<Sink> sink, WriterOptions options) {
  RETURN_IF_ERROR(CheckEvents(options.events));
  int level = options.compression_level;
  options.features.events.clear();
  std::unique_ptr<Writer> writer(new Writer(std::move(sink), std::move(options)));
  if (level != 0) {
    ASSIGN_OR_RETURN(writer->compressor_, Compressor::Create(level));
    writer->features_.compressed = CompressionInfo{.level = static_cast<uint32_t>(level), .ratio = 1,
                                                   .mmap_len = static_cast<uint32_t>(Compressor::kMaxChunk)};
  }
  RETURN_IF_ERROR(writer->pipe_ ? writer->WritePipeStart() : writer->WriteFileStart());
  return writer;
}

// Counts the records that lie wholly within the first `limit` bytes; samples among them move the sample times.
Tally Writer::Scan(std::span<const std::byte> records, size_t limit) {
  Tally tally;
  while (tally.bytes + sizeof(RecordHeader) <= limit) {
    const std::byte* at = records.data() + tally.bytes;
    RecordHeader header;
    std::memcpy(&header, at, sizeof header);
    if (header.size < sizeof header || tally.bytes + header.size > limit) break;
    if (header.type == kRecordSample) {
      ++tally.samples;
      if (time_offset_ != 0 && time_offset_ + 8 <= header.size) {
        uint64_t time;
        std::memcpy(&time, at + time_offset_, sizeof time);
        first_time_ = std::min(first_time_, time);
        last_time_ = std::max(last_time_, time);
      }
    }
    ++tally.records;
    tally.bytes += header.size;
  }
  return tally;
}

WriteOutcome Writer::Put(std::span<const std::byte> bytes) {
  if (broken_) return {0, Unavailable("the output is broken: an earlier write ended within a record")};
  WriteOutcome outcome = pipe_ ? WriteFully(*sink_, bytes) : PWriteFully(*sink_, bytes, data_end_);
  high_water_ = std::max(high_water_, data_end_ + outcome.written);
  return outcome;
}

// Bytes of `records` that are in the sink: whole records only.
size_t Writer::AppendPlain(std::span<const std::byte> records, Status* status) {
  WriteOutcome outcome = Put(records);
  size_t whole = records.size();
  if (outcome.written < records.size()) {
    whole = 0;
    while (whole + sizeof(RecordHeader) <= outcome.written) {
      RecordHeader header;
      std::memcpy(&header, records.data() + whole, sizeof header);
      if (whole + header.size > outcome.written) break;
      whole += header.size;
    }
    *status = outcome.status;
    if (pipe_ && outcome.written != whole) broken_ = true;
  }
  data_end_ += whole;
  return whole;
}

size_t Writer::AppendCompressed(std::span<const std::byte> records, Status* status) {
  size_t done = 0;
  while (done < records.size()) {
    Compressor::Packed packed = compressor_->Pack(records.subspan(done));
    WriteOutcome outcome = Put(packed.record);
    if (outcome.written < packed.record.size()) {
      *status = outcome.status;
      if (pipe_ && outcome.written != 0) broken_ = true;
      break;
    }
    data_end_ += packed.record.size();
    done += packed.consumed;
  }
  return done;
}

// Puts what was lost before into the file, as soon as the sink takes something again.
void Writer::ReportLoss() {
  std::byte buffer[128];
  SampleId id{.time = last_time_, .id = this->id()};
  size_t n = encoders_[0].LostSamples(buffer, unreported_lost_samples_, id);
  Status status;
  if (AppendPlain(std::span<const std::byte>(buffer, n), &status) == n) unreported_lost_samples_ = 0;
}

Writer::Outcome Writer::Append(std::span<const std::byte> records) {
  BRINK_CHECK(!finished_);
  Outcome outcome;
  if (records.empty()) return outcome;
  // Lengths are trusted by what follows, so a malformed tail is cut off first.
  Tally good = Scan(records, records.size());
  std::span<const std::byte> whole = records.first(good.bytes);
  if (unreported_lost_samples_ != 0) ReportLoss();
  size_t done = 0;
  if (!whole.empty()) {
    done = compressor_ && !broken_ ? AppendCompressed(whole, &outcome.status) : AppendPlain(whole, &outcome.status);
  }
  outcome.written = done == good.bytes ? good : Scan(records, done);
  outcome.lost = {good.records - outcome.written.records, good.samples - outcome.written.samples, records.size() - done};
  if (good.bytes != records.size()) {
    ++outcome.lost.records;
    if (outcome.status.ok()) outcome.status = InvalidArgument("a record with an impossible size was not written");
  }
  unreported_lost_samples_ += outcome.lost.samples;
  written_ += outcome.written;
  lost_ += outcome.lost;
  return outcome;
}

Status Writer::Flush(bool sync) {
  if (!pipe_) RETURN_IF_ERROR(WriteHeader(false));
  return sync ? sink_->Sync() : OkStatus();
}

Status Writer::WriteHeader(bool with_features) {
  FileHeader header = header_;
  header.data.size = data_end_ - header.data.offset;
  if (!with_features) std::fill(std::begin(header.features), std::end(header.features), 0);
  return PWriteFully(*sink_, std::as_bytes(std::span(&header, 1)), 0).status;
}

Status Writer::Finish(std::vector<BuildIdEntry> build_ids) {
  BRINK_CHECK(!finished_);
  if (unreported_lost_samples_ != 0) ReportLoss();
  finished_ = true;
  features_.build_ids = std::move(build_ids);
  if (first_time_ <= last_time_) features_.sample_time = {first_time_, last_time_};
  if (features_.compressed && data_end_ > header_.data.offset) {
    features_.compressed->ratio = static_cast<uint32_t>(std::max<uint64_t>(1, written_.bytes / (data_end_ - header_.data.offset)));
  }
  return pipe_ ? FinishPipe() : WriteFeatures();
}

Status RecordBatch::AddRaw(std::span<const std::byte> record) {
  return Add([&](std::span<std::byte> out) -> size_t {
    if (record.size() > out.size()) return 0;
    std::memcpy(out.data(), record.data(), record.size());
    return record.size();
  });
}

Status RecordBatch::Flush() {
  size_t used = std::exchange(used_, 0);
  return writer_.Append(std::span<const std::byte>(buffer_).first(used)).status;
}

}  // namespace brink::perfdata
