// Writes a perf.data recording, file or pipe mode, that every consumer reads unchanged (docs/perfdata.md).
//
// Life: Create, then Append and Flush as often as wanted, then Finish. One thread at a time; encoders (encode.h) may
// run in others. After every Flush the file is whole: a killed collector loses what came after it, no more. Feature
// sections lie behind the data, so only Finish writes them (RepairFile does it for a killed one, repair.h).
//
// Accounting: every record given to Append ends as written or as lost, never as both, whatever the sink does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "perfdata/compress.h"
#include "perfdata/encode.h"
#include "perfdata/features.h"
#include "perfdata/format.h"
#include "perfdata/notes.h"
#include "perfdata/sink.h"

namespace brink::perfdata {

struct EventSpec {
  EventAttr attr;                   // as opened in the kernel; `size` is set by the writer
  std::string name;                 // as shown by perf: "cpu-clock:u"
  std::vector<uint64_t> ids;        // the kernel's ids; empty: one is made up where the layout has an id
  std::optional<EventNotes> notes;  // kept in attr.sig_data
};

struct WriterOptions {
  // Side-band records must have the layout of the first. Several events need kSampleIdentifier in each, and the same
  // kSampleTid, kSampleTime and kSampleCpu bits.
  std::vector<EventSpec> events;
  // Host, command line. Events, branch stack, sample times, clock and compression are filled in by the writer.
  Features features;
  bool pipe = false;
  int compression_level = 0;  // 0: plain; else zstd 1 to 19
};

struct Tally {
  uint64_t records = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;  // before compression
  Tally& operator+=(const Tally& other) {
    records += other.records;
    samples += other.samples;
    bytes += other.bytes;
    return *this;
  }
};

class Writer {
 public:
  // Takes the sink over and writes the header (and in pipe mode attributes and features). INVALID_ARGUMENT for layouts
  // that a reader could not tell apart.
  static StatusOr<std::unique_ptr<Writer>> Create(std::unique_ptr<Sink> sink, WriterOptions options);
  // Without Finish the file stays as of the last Flush.
  ~Writer();

  struct Outcome {
    Tally written;
    Tally lost;
    Status status;  // why something was lost
  };
  // Appends whole records as they are. What a failing sink did not take is lost and counted; a later Append tries
  // again at the same place (a file) or loses everything (a broken pipe), and tells readers by a LOST_SAMPLES record.
  Outcome Append(std::span<const std::byte> records);

  // Makes everything appended readable; with `sync` also safe from a power failure.
  Status Flush(bool sync = false);

  // Writes the feature sections (in pipe mode: build-id records) and the final header. When that fails the data stays
  // readable, without features.
  Status Finish(std::vector<BuildIdEntry> build_ids);

  const RecordEncoder& encoder(size_t event = 0) const { return encoders_[event]; }
  // Id of `event` for SampleFields::id: its first one.
  uint64_t id(size_t event = 0) const { return events_[event].ids.empty() ? 0 : events_[event].ids[0]; }
  const Tally& written() const { return written_; }
  const Tally& lost() const { return lost_; }
  // Bytes in the sink so far, compressed as they are.
  uint64_t size() const { return data_end_; }

 private:
  Writer(std::unique_ptr<Sink> sink, WriterOptions options);
  Status WriteFileStart();
  Status WritePipeStart();
  Status WriteHeader(bool with_features);
  Status WriteFeatures();
  Status FinishPipe();
  Tally Scan(std::span<const std::byte> records, size_t limit);
  WriteOutcome Put(std::span<const std::byte> bytes);
  void ReportLoss();
  size_t AppendPlain(std::span<const std::byte> records, Status* status);
  size_t AppendCompressed(std::span<const std::byte> records, Status* status);

  std::unique_ptr<Sink> sink_;
  std::vector<EventSpec> events_;
  std::vector<RecordEncoder> encoders_;
  Features features_;
  const bool pipe_;
  std::unique_ptr<Compressor> compressor_;
  FileHeader header_{};
  uint64_t data_end_ = 0;   // where the next record goes
  uint64_t high_water_ = 0; // end of the furthest write, whole or not
  size_t time_offset_ = 0;  // of a sample's time, 0 without
  uint64_t first_time_ = UINT64_MAX, last_time_ = 0;
  uint64_t unreported_lost_samples_ = 0;
  bool broken_ = false;     // a pipe that ends within a record
  bool finished_ = false;
  Tally written_, lost_;
};

// Collects single records and appends them in blocks: for exporters and tests, which do not keep buffers of their own.
class RecordBatch {
 public:
  explicit RecordBatch(Writer& writer, size_t capacity = 256 * 1024) : writer_(writer), buffer_(capacity) {}

  // `encode(span)` writes one record and returns its size, as the encoders do. Fails when the record is too long or
  // the writer lost something.
  template <typename Encode>
  Status Add(Encode encode) {
    size_t n = encode(std::span<std::byte>(buffer_).subspan(used_));
    if (n == 0) {
      RETURN_IF_ERROR(Flush());
      n = encode(std::span<std::byte>(buffer_));
      if (n == 0) return InvalidArgument("a record does not fit: longer than 65,528 bytes");
    }
    used_ += n;
    return OkStatus();
  }
  Status AddRaw(std::span<const std::byte> record);
  Status Flush();

 private:
  Writer& writer_;
  std::vector<std::byte> buffer_;
  size_t used_ = 0;
};

}  // namespace brink::perfdata
