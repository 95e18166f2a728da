// Beginning and end of a recording: header, attributes, features, in file and pipe form.
#include <cstring>
#include <time.h>

#include "perfdata/writer.h"

namespace brink::perfdata {
namespace {

template <typename T>
void AppendValue(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendAttr(std::string& out, const EventAttr& attr) { out.append(reinterpret_cast<const char*>(&attr), kAttrSizeWritten); }

uint64_t NowNs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// A clock asked for by id has a resolution and an instant at which it is tied to the wall clock.
void FillClock(const EventAttr& attr, Features* features) {
  if (!(attr.flags & kAttrUseClockid)) return;
  timespec resolution{};
  if (!features->clockid_resolution_ns && clock_getres(attr.clockid, &resolution) == 0) {
    features->clockid_resolution_ns = static_cast<uint64_t>(resolution.tv_nsec);
  }
  if (!features->clock_data) {
    features->clock_data = ClockData{static_cast<uint32_t>(attr.clockid), NowNs(CLOCK_REALTIME), NowNs(attr.clockid)};
  }
}

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

void AppendRecord(std::string& out, uint32_t type, const std::string& body) {
  size_t padded = (body.size() + 7) & ~size_t{7};
  if (padded + sizeof(RecordHeader) > kMaxRecordSize) return;  // a command line of 64 KiB is left out, not cut
  AppendValue(out, RecordHeader{type, 0, static_cast<uint16_t>(sizeof(RecordHeader) + padded)});
  out += body;
  out.append(padded - body.size(), '\0');
}

}  // namespace

Status Writer::WriteFileStart() {
  FillClock(events_[0].attr, &features_);
  std::string ids, attrs;
  for (const EventSpec& event : events_) {
    AppendAttr(attrs, event.attr);
    AppendValue(attrs, FileSection{kFileHeaderSize + ids.size(), event.ids.size() * 8});
    for (uint64_t id : event.ids) AppendValue(ids, id);
  }
  header_ = FileHeader{.magic = kMagic2, .size = kFileHeaderSize, .attr_size = kAttrSizeWritten + sizeof(FileSection),
                       .attrs = {kFileHeaderSize + ids.size(), attrs.size()}, .data = {}, .event_types = {}, .features = {}};
  header_.data.offset = header_.attrs.offset + header_.attrs.size;
  std::string start;
  AppendValue(start, header_);
  start += ids;
  start += attrs;
  RETURN_IF_ERROR(PWriteFully(*sink_, BytesOf(start), 0).status);
  data_end_ = high_water_ = start.size();
  return OkStatus();
}

Status Writer::WritePipeStart() {
  FillClock(events_[0].attr, &features_);
  std::string start;
  AppendValue(start, kMagic2);
  AppendValue(start, kPipeHeaderSize);
  for (const EventSpec& event : events_) {
    std::string body;
    AppendAttr(body, event.attr);
    for (uint64_t id : event.ids) AppendValue(body, id);
    AppendRecord(start, kRecordHeaderAttr, body);
  }
  for (const EventSpec& event : events_) {
    if (event.name.empty() || event.ids.empty()) continue;
    std::string body;
    AppendValue(body, uint64_t{kUpdateName});
    AppendValue(body, event.ids[0]);
    body.append(event.name).push_back('\0');
    AppendRecord(start, kRecordEventUpdate, body);
  }
  for (Feature feature : WritableFeatures()) {
    if (feature == kFeatureBuildId || feature == kFeatureBranchStack || !HasFeature(feature, features_)) continue;
    std::string body;
    AppendValue(body, uint64_t{feature});
    AppendRecord(start, kRecordHeaderFeature, body + EncodeFeature(feature, features_));
  }
  RETURN_IF_ERROR(WriteFully(*sink_, BytesOf(start)).status);
  data_end_ = high_water_ = start.size();
  return OkStatus();
}

Status Writer::WriteFeatures() {
  FeatureSections sections = EncodeFeatureSections(features_, data_end_);
  WriteOutcome outcome = PWriteFully(*sink_, BytesOf(sections.bytes), data_end_);
  if (!outcome.status.ok()) {
    Status header = WriteHeader(false);
    return header.ok() ? Annotate(outcome.status, "the data is whole but has no feature sections") : header;
  }
  std::copy(std::begin(sections.bits), std::end(sections.bits), header_.features);
  RETURN_IF_ERROR(WriteHeader(true));
  const uint64_t end = data_end_ + sections.bytes.size();
  // Remains of a write that failed half way.
  return high_water_ > end ? sink_->Truncate(end) : OkStatus();
}

Status Writer::FinishPipe() {
  if (broken_) return Unavailable("the output is broken: an earlier write ended within a record");
  std::string end;
  for (const BuildIdEntry& entry : features_.build_ids) end += EncodeBuildId(entry, kRecordHeaderBuildId);
  return WriteFully(*sink_, BytesOf(end)).status;
}

}  // namespace brink::perfdata
