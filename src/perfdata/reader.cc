#include "perfdata/reader.h"

#include <algorithm>
#include <cstring>

#include "perfdata/decode.h"
#include "perfdata/features_read.h"

namespace brink::perfdata {
namespace {

constexpr size_t kProblemsKept = 100;
// What a stream may make the reader remember: far above any real recording, and a bound for a hostile one.
constexpr size_t kMaxEvents = 1 << 16;
constexpr size_t kMaxBuildIds = 1 << 20;

std::span<std::byte> BodyOf(const RawRecord& raw) { return {raw.body(), raw.body_size()}; }

// Time of a kernel record before it is decoded; 0 when it has none. ~0 is no time either.
uint64_t TimeOf(const RawRecord& raw, const RecordLayout& layout, bool swap) {
  const size_t size = raw.body_size();
  size_t at;
  if (raw.header.type == kRecordSample) {
    at = layout.sample_time;
  } else {
    if (layout.trailer_time > size) return 0;
    at = size - layout.trailer_time;
  }
  if (at > size || size - at < 8) return 0;
  uint64_t time;
  std::memcpy(&time, raw.body() + at, sizeof time);
  if (swap) time = Swap64(time);
  return time == UINT64_MAX ? 0 : time;
}

}  // namespace

uint64_t ReadStats::records_total() const {
  uint64_t total = other_records;
  for (uint64_t n : records) total += n;
  return total;
}

Reader::Reader(std::unique_ptr<Input> input, ReaderOptions options)
    : input_(std::move(input)), options_(options), pool_(options.chunk_bytes) {}

Reader::~Reader() = default;

StatusOr<std::unique_ptr<Reader>> Reader::Open(const std::string& path, ReaderOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Input> input, OpenInput(path));
  return Open(std::move(input), options);
}

StatusOr<std::unique_ptr<Reader>> Reader::Open(std::unique_ptr<Input> input, ReaderOptions options) {
  std::unique_ptr<Reader> reader(new Reader(std::move(input), options));
  RETURN_IF_ERROR(reader->ReadHeader());
  reader->StartStreams();
  return reader;
}

void Reader::StartStreams() {
  auto problems = [this](Problem problem) { AddProblem(std::move(problem)); };
  outer_ = std::make_unique<RecordStream>(&pool_, [this](std::byte* out, size_t size) { return FillFromFile(out, size); }, swap_, problems);
  outer_->set_offset(facts_.pipe ? kPipeHeaderSize : facts_.header.data.offset);
  inner_ = std::make_unique<RecordStream>(
      &pool_, [this](std::byte* out, size_t size) -> StatusOr<size_t> { return FillFromPayload(out, size); }, swap_, problems);
  inner_->set_fixed_offset(true);
}

void Reader::AddProblem(Problem problem) {
  ++stats_.problem_count;
  stats_.bytes_lost += problem.bytes;
  if (stats_.problems.size() < kProblemsKept) stats_.problems.push_back(std::move(problem));
}

StatusOr<size_t> Reader::FillFromFile(std::byte* out, size_t size) {
  if (data_left_ == 0) return size_t{0};
  ASSIGN_OR_RETURN(size_t n, input_->Read(out, static_cast<size_t>(std::min<uint64_t>(size, data_left_))));
  if (data_left_ != UINT64_MAX) data_left_ -= n;
  return n;
}

size_t Reader::FillFromPayload(std::byte* out, size_t size) {
  auto n = decompressor_.Read(out, size);
  if (n.ok()) return *n;
  AddProblem({payload_offset_, payload_size_, Message(n.status())});
  return 0;
}

StatusOr<bool> Reader::Next(Record* record) {
  pool_.Release(std::exchange(delivered_, nullptr));
  while (true) {
    RawRecord raw;
    int event = -1;
    if (queue_.HasRipe()) {
      const QueuedRecord& queued = queue_.Pop();
      raw = queued.raw;
      event = queued.event;
      delivered_ = raw.chunk;
    } else if (finished_) {
      return false;
    } else {
      ASSIGN_OR_RETURN(Step step, ParseOne(&raw, &event));
      if (step != Step::kDeliver) continue;
    }
    if (Decode(raw, event, record)) return true;
    AddProblem({raw.offset, raw.header.size, "a length within the record points beyond its end"});
    pool_.Release(std::exchange(delivered_, nullptr));
  }
}

bool Reader::Decode(const RawRecord& raw, int event, Record* record) {
  copies_.Clear();
  record->type = raw.header.type;
  record->misc = raw.header.misc;
  record->size = raw.header.size;
  record->offset = raw.offset;
  record->event = event;
  record->time = 0;
  record->id = {};
  DecodeContext context{.swap = swap_, .copies = &copies_};
  if (event >= 0) {
    context.attr = &table_.events()[static_cast<size_t>(event)].attr;
    context.layout = &table_.layout(event);
  }
  if (!DecodeBody(context, BodyOf(raw), record)) return false;
  if (const auto* lost = std::get_if<Lost>(&record->body)) stats_.lost_records += lost->lost;
  if (const auto* lost = std::get_if<LostSamples>(&record->body)) stats_.lost_samples += lost->lost;
  return true;
}

StatusOr<Reader::Step> Reader::ParseOne(RawRecord* raw, int* event) {
  RecordStream* stream = payload_ ? inner_.get() : outer_.get();
  ASSIGN_OR_RETURN(bool more, stream->Next(raw));
  if (!more && payload_) {
    EndPayload();
    return Step::kNothing;
  }
  if (!more) {
    outer_->Finish();
    inner_->Finish();
    queue_.FinishAll();
    stats_.late_records = queue_.late();
    finished_ = true;
    return Step::kEnd;
  }
  const uint32_t type = raw->header.type;
  if (type < kRecordTypeLimit) {
    ++stats_.records[type];
  } else {
    ++stats_.other_records;
  }
  return type >= kRecordUserFirst ? ParseTool(raw) : ParseKernel(raw, event);
}

Reader::Step Reader::ParseKernel(RawRecord* raw, int* event) {
  *event = table_.Find(raw->header.type, BodyOf(*raw), swap_);
  if (*event < 0) {
    AddProblem({raw->offset, raw->header.size, table_.events().empty() ? "a record before any event attribute" : "a sample of an unknown event"});
    return Step::kNothing;
  }
  if (!options_.ordered) return Step::kDeliver;
  uint64_t time = TimeOf(*raw, table_.layout(*event), swap_);
  if (time == 0) return Step::kDeliver;
  queue_.Push({time, *raw, *event});
  if (pool_.bytes() > options_.max_queue_bytes) {
    ++stats_.forced_flushes;
    queue_.FinishHalf();
  }
  return Step::kNothing;
}

StatusOr<Reader::Step> Reader::ParseTool(RawRecord* raw) {
  Cursor cursor(raw->body(), raw->body_size(), swap_);
  switch (raw->header.type) {
    case kRecordHeaderAttr: ReadAttrRecord(*raw); return Step::kNothing;
    case kRecordEventUpdate: ReadUpdateRecord(*raw); return Step::kNothing;
    case kRecordHeaderFeature: ReadFeatureRecord(*raw); return Step::kNothing;
    case kRecordHeaderBuildId:
      if (features_.build_ids.size() >= kMaxBuildIds) return Step::kNothing;
      if (auto entry = DecodeBuildId(raw->header.misc, BodyOf(*raw), swap_)) features_.build_ids.push_back(*std::move(entry));
      return Step::kNothing;
    case kRecordCompressed:
    case kRecordCompressed2:
      if (payload_) {
        AddProblem({raw->offset, raw->header.size, "a compressed record within a compressed record"});
      } else {
        BeginPayload(*raw);
      }
      return Step::kNothing;
    case kRecordFinishedRound:
      if (!options_.ordered) return Step::kDeliver;
      queue_.FinishRound(cursor.left() >= 8 ? cursor.U64() : 0);
      return Step::kNothing;
    case kRecordHeaderTracingData:
    case kRecordAuxtrace: {
      // The payload follows the record and is not counted by its size.
      uint64_t size = raw->header.type == kRecordAuxtrace ? cursor.U64() : cursor.U32();
      // Skipping moves the stream on, so the record has to be kept by hand.
      ++raw->chunk->references;
      delivered_ = raw->chunk;
      RecordStream* stream = payload_ ? inner_.get() : outer_.get();
      uint64_t offset = stream->offset();
      ASSIGN_OR_RETURN(uint64_t skipped, stream->Skip(size));
      if (skipped != size) AddProblem({offset, size - skipped, "trace data that the file promises is missing"});
      return Step::kDeliver;
    }
    default: return Step::kDeliver;
  }
}

void Reader::BeginPayload(const RawRecord& raw) {
  std::span<const std::byte> payload(raw.body(), raw.body_size());
  if (raw.header.type == kRecordCompressed2) {
    // Says how much of it is data: the rest is padding.
    Cursor cursor(raw.body(), raw.body_size(), swap_);
    uint64_t size = cursor.U64();
    if (!cursor.ok() || size > cursor.left()) {
      AddProblem({raw.offset, raw.header.size, "a compressed record that is shorter than it says"});
      return;
    }
    payload = payload.subspan(8, size);
  }
  payload_ = raw.chunk;
  ++payload_->references;
  payload_offset_ = raw.offset;
  payload_size_ = raw.header.size;
  inner_->set_offset(raw.offset);
  decompressor_.Feed(payload);
}

void Reader::EndPayload() { pool_.Release(std::exchange(payload_, nullptr)); }

void Reader::ReadAttrRecord(const RawRecord& raw) {
  std::span<std::byte> body = BodyOf(raw);
  Cursor cursor(body.data(), body.size(), swap_);
  cursor.U32();
  uint32_t size = cursor.U32();
  if (size == 0) size = kAttrSizeVer0;
  if (size > body.size()) size = static_cast<uint32_t>(body.size());
  auto attr = DecodeAttr(body.first(size), swap_);
  if (!attr || table_.events().size() >= kMaxEvents) {
    AddProblem({raw.offset, raw.header.size, attr ? "too many events" : "an event attribute that is too short"});
    return;
  }
  EventInfo event{.attr = *attr};
  std::span<std::byte> ids = body.subspan(size);
  Cursor id_cursor(ids.data(), ids.size(), swap_);
  while (id_cursor.left() >= 8) event.ids.push_back(id_cursor.U64());
  table_.Add(std::move(event));
}

void Reader::ReadUpdateRecord(const RawRecord& raw) {
  Cursor cursor(raw.body(), raw.body_size(), swap_);
  uint64_t kind = cursor.U64(), id = cursor.U64();
  if (kind == kUpdateName && cursor.ok()) table_.Rename(id, std::string(cursor.Text(cursor.left())));
}

void Reader::ReadFeatureRecord(const RawRecord& raw) {
  std::span<std::byte> body = BodyOf(raw);
  Cursor cursor(body.data(), body.size(), swap_);
  uint64_t feature = cursor.U64();
  if (!cursor.ok() || feature >= kFeatureLimit) return;
  DecodeFeature(static_cast<uint32_t>(feature), body.subspan(8), swap_, &features_);
  if (feature == kFeatureEventDesc) NameEvents();
}

}  // namespace brink::perfdata
