// The beginning of a recording: header, attributes with their ids, feature sections.
#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "perfdata/features_read.h"
#include "perfdata/reader.h"

namespace brink::perfdata {
namespace {

constexpr uint64_t kMaxAttributes = 16 << 20;
constexpr uint64_t kMaxIds = 32 << 20;
constexpr uint64_t kMaxFeature = 64 << 20;

Status NotARecording(const std::string& name, const std::string& why) { return DataLoss(name + " is not a perf.data recording: " + why); }

StatusOr<std::string> ReadStart(Input& input, size_t size) {
  std::string out(size, '\0');
  size_t done = 0;
  while (done < size) {
    ASSIGN_OR_RETURN(size_t n, input.Read(reinterpret_cast<std::byte*>(out.data()) + done, size - done));
    if (n == 0) break;
    done += n;
  }
  out.resize(done);
  return out;
}

uint64_t WordAt(const std::string& text, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, text.data() + at, sizeof word);
  return word;
}

std::span<std::byte> BytesOf(std::string& text) { return std::as_writable_bytes(std::span(text)); }

}  // namespace

Status Reader::ReadHeader() {
  facts_.file_size = input_->size();
  ASSIGN_OR_RETURN(std::string start, ReadStart(*input_, kPipeHeaderSize));
  if (start.size() < kPipeHeaderSize) return NotARecording(input_->name(), start.empty() ? "it is empty" : "it is too short");
  uint64_t magic = WordAt(start, 0), size = WordAt(start, 8);
  if (magic == Swap64(kMagic2)) {
    swap_ = true;
  } else if (magic == kMagic1) {
    // The first version has one magic for both orders; the size of the header tells.
    facts_.version1 = true;
    swap_ = size != kFileHeaderSize && Swap64(size) == kFileHeaderSize;
  } else if (magic != kMagic2) {
    return NotARecording(input_->name(), "it begins with " + HexEncode(std::string_view(start).substr(0, 8)));
  }
  facts_.big_endian = swap_;
  if (swap_) size = Swap64(size);
  facts_.header.magic = facts_.version1 ? kMagic1 : kMagic2;
  facts_.header.size = size;
  if (size == kPipeHeaderSize) {
    facts_.pipe = true;
    return OkStatus();
  }
  if (size < kFileHeaderSize) return NotARecording(input_->name(), absl::StrFormat("a header of %d bytes is not known", size));
  if (input_->size() == UINT64_MAX) {
    ASSIGN_OR_RETURN(input_, SpoolToFile(*input_, std::move(start)));
    facts_.file_size = input_->size();
    RETURN_IF_ERROR(input_->Seek(kPipeHeaderSize));
    start.assign(kPipeHeaderSize, '\0');
    ASSIGN_OR_RETURN(size_t n, input_->ReadAt(0, BytesOf(start).data(), start.size()));
    start.resize(n);
  }
  return ReadFileHeader(std::move(start));
}

Status Reader::ReadFileHeader(std::string start) {
  ASSIGN_OR_RETURN(std::string rest, ReadStart(*input_, kFileHeaderSize - kPipeHeaderSize));
  start += rest;
  if (start.size() < kFileHeaderSize) return NotARecording(input_->name(), "its header is cut short");
  FileHeader& header = facts_.header;
  const uint64_t magic = header.magic;
  std::memcpy(&header, start.data(), sizeof header);
  if (swap_) {
    for (uint64_t* word = &header.size; word != &header.features[4]; ++word) *word = Swap64(*word);
  }
  header.magic = magic;
  // Four 64-bit words in every known file of foreign order; perf also accepts words swapped in halves, from 32-bit
  // hosts. Those have the HOSTNAME bit in the other half.
  if (swap_ && !(header.features[0] >> kFeatureHostname & 1) && header.features[0] >> (32 + kFeatureHostname) & 1) {
    for (uint64_t& word : header.features) word = word >> 32 | word << 32;
  }
  RETURN_IF_ERROR(ReadAttributes());
  facts_.attribute_problems = stats_.problem_count;
  const uint64_t file_size = input_->size();
  if (header.data.offset > file_size) return NotARecording(input_->name(), "its data section lies behind its end");
  data_left_ = header.data.size;
  if (header.data.size == 0) {
    facts_.unfinished = true;
    data_left_ = file_size - header.data.offset;
  } else if (header.data.size > file_size - header.data.offset) {
    data_left_ = file_size - header.data.offset;
    AddProblem({file_size, header.data.size - data_left_, "the file ends within its data section"});
  } else {
    RETURN_IF_ERROR(ReadFeatures());
  }
  return input_->Seek(header.data.offset);
}

// The bytes of a section, fewer where the file ends.
StatusOr<std::string> Reader::ReadSection(const FileSection& section, uint64_t limit, const char* what) {
  if (section.size > limit) {
    AddProblem({section.offset, section.size, absl::StrFormat("%s of %d bytes are not believed", what, section.size)});
    return std::string();
  }
  std::string out(section.size, '\0');
  ASSIGN_OR_RETURN(size_t n, input_->ReadAt(section.offset, BytesOf(out).data(), out.size()));
  if (n < out.size()) AddProblem({section.offset, out.size() - n, absl::StrFormat("%s end behind the end of the file", what)});
  out.resize(n);
  return out;
}

Status Reader::ReadAttributes() {
  const FileHeader& header = facts_.header;
  const uint64_t entry = header.attr_size;
  if (entry < kAttrSizeVer0 + sizeof(FileSection) || entry > 4096) {
    return NotARecording(input_->name(), absl::StrFormat("attributes of %d bytes are not known", entry));
  }
  ASSIGN_OR_RETURN(std::string attrs, ReadSection(header.attrs, kMaxAttributes, "attributes"));
  uint64_t ids_read = 0;
  for (size_t at = 0; at + entry <= attrs.size(); at += entry) {
    std::span<std::byte> bytes = BytesOf(attrs).subspan(at, entry);
    FileSection ids{};
    std::memcpy(&ids, bytes.last(sizeof ids).data(), sizeof ids);
    if (swap_) ids = {Swap64(ids.offset), Swap64(ids.size)};
    EventInfo event;
    event.attr = *DecodeAttr(bytes.first(entry - sizeof(FileSection)), swap_);
    if (ids.size <= kMaxIds - ids_read) {
      ASSIGN_OR_RETURN(std::string words, ReadSection(ids, kMaxIds, "event ids"));
      Cursor id_cursor(BytesOf(words).data(), words.size(), swap_);
      while (id_cursor.left() >= 8) event.ids.push_back(id_cursor.U64());
      ids_read += ids.size;
    }
    table_.Add(std::move(event));
  }
  return OkStatus();
}

Status Reader::ReadFeatures() {
  const FileHeader& header = facts_.header;
  uint64_t place = header.data.offset + header.data.size;
  for (uint32_t feature = 0; feature < kFeatureLimit; ++feature) {
    if (!(header.features[feature / 64] >> (feature % 64) & 1)) continue;
    FileSection section{};
    ASSIGN_OR_RETURN(size_t n, input_->ReadAt(place, reinterpret_cast<std::byte*>(&section), sizeof section));
    if (n < sizeof section) {
      AddProblem({place, sizeof section - n, "the places of the feature sections end behind the end of the file"});
      break;
    }
    place += sizeof section;
    if (swap_) section = {Swap64(section.offset), Swap64(section.size)};
    // Trace data can be large and is not used here.
    if (feature == kFeatureTracingData || feature == kFeatureBpfProgInfo || feature == kFeatureBpfBtf || feature == kFeatureAuxtrace) continue;
    ASSIGN_OR_RETURN(std::string payload, ReadSection(section, kMaxFeature, "a feature section"));
    DecodeFeature(feature, BytesOf(payload), swap_, &features_);
  }
  NameEvents();
  return OkStatus();
}

// EVENT_DESC has the names, in the order of the attributes.
void Reader::NameEvents() {
  std::vector<EventInfo>& events = table_.events();
  for (size_t i = 0; i < features_.events.size(); ++i) {
    const EventDesc& desc = features_.events[i];
    if (desc.name.empty()) continue;
    if (features_.events.size() == events.size()) {
      events[i].name = desc.name;
    } else if (!desc.ids.empty()) {
      table_.Rename(desc.ids[0], desc.name);
    }
  }
}

}  // namespace brink::perfdata
