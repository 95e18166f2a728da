// Reads perf.data recordings of every perf version and of brink: file and pipe mode, both byte orders, zstd.
//
// Streaming: memory is bounded by ReaderOptions, whatever the recording's size. Damage is a Problem in the statistics,
// not the end: reading goes on behind it. A Status comes back only when nothing can be read (no such file, not a
// recording) or the input itself fails. Not thread-safe; several readers can read one file.
//
//   ASSIGN_OR_RETURN(auto reader, Reader::Open("brink.data"));
//   Record record;
//   while (true) {
//     ASSIGN_OR_RETURN(bool more, reader->Next(&record));
//     if (!more) break;
//     if (const Sample* sample = record.sample()) ...
//   }
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "perfdata/attr.h"
#include "perfdata/decompress.h"
#include "perfdata/features.h"
#include "perfdata/input.h"
#include "perfdata/order.h"
#include "perfdata/records.h"
#include "perfdata/stream.h"

namespace brink::perfdata {

struct ReaderOptions {
  // By time, as perf delivers them. Otherwise in the order of the file, which costs no queue.
  bool ordered = true;
  // Records waiting for their turn. A recording without rounds (or with huge ones) is put in order piece by piece when
  // this is reached.
  size_t max_queue_bytes = 64 << 20;
  size_t chunk_bytes = 1 << 20;
};

struct ReadStats {
  std::array<uint64_t, kRecordTypeLimit> records{};  // by type; decompressed ones count, too
  uint64_t other_records = 0;                        // of types above (simpleperf's own)
  uint64_t lost_records = 0, lost_samples = 0;       // as the recording itself reports
  uint64_t late_records = 0;      // older than one delivered before
  uint64_t forced_flushes = 0;    // times the queue was full
  uint64_t bytes_lost = 0;        // by problems
  uint64_t problem_count = 0;
  std::vector<Problem> problems;  // the first hundred
  uint64_t records_total() const;
  bool complete() const { return problem_count == 0; }
};

struct FileFacts {
  bool pipe = false;
  bool big_endian = false;
  bool unfinished = false;  // its writer was killed before it wrote a size
  bool version1 = false;
  uint64_t attribute_problems = 0;  // those of attributes and ids, the first in the statistics
  uint64_t file_size = UINT64_MAX;
  FileHeader header{};  // native; in pipe mode only magic and size
};

class Reader {
 public:
  // "-" reads the standard input; a file-mode recording there is spooled to a temporary file first.
  static StatusOr<std::unique_ptr<Reader>> Open(const std::string& path, ReaderOptions options = {});
  static StatusOr<std::unique_ptr<Reader>> Open(std::unique_ptr<Input> input, ReaderOptions options = {});
  ~Reader();

  // The next record, false behind the last. Records that only describe the recording (attributes, features, names,
  // build ids, compressed ones, ends of rounds when ordered) change the state below instead of coming out here.
  StatusOr<bool> Next(Record* record);

  // In pipe mode these grow as the stream is read.
  const std::vector<EventInfo>& events() const { return table_.events(); }
  const Features& features() const { return features_; }
  const FileFacts& facts() const { return facts_; }
  // Final once Next has returned false.
  const ReadStats& stats() const { return stats_; }
  const std::string& name() const { return input_->name(); }

 private:
  enum class Step { kNothing, kDeliver, kEnd };

  Reader(std::unique_ptr<Input> input, ReaderOptions options);
  // reader_open.cc
  Status ReadHeader();
  Status ReadFileHeader(std::string start);
  Status ReadAttributes();
  Status ReadFeatures();
  void NameEvents();
  StatusOr<std::string> ReadSection(const FileSection& section, uint64_t limit, const char* what);

  void StartStreams();
  void AddProblem(Problem problem);
  StatusOr<size_t> FillFromFile(std::byte* out, size_t size);
  size_t FillFromPayload(std::byte* out, size_t size);
  StatusOr<Step> ParseOne(RawRecord* raw, int* event);
  StatusOr<Step> ParseTool(RawRecord* raw);
  Step ParseKernel(RawRecord* raw, int* event);
  void BeginPayload(const RawRecord& raw);
  void EndPayload();
  void ReadAttrRecord(const RawRecord& raw);
  void ReadUpdateRecord(const RawRecord& raw);
  void ReadFeatureRecord(const RawRecord& raw);
  bool Decode(const RawRecord& raw, int event, Record* record);

  std::unique_ptr<Input> input_;
  ReaderOptions options_;
  bool swap_ = false;
  FileFacts facts_;
  Features features_;
  EventTable table_;
  ReadStats stats_;

  ChunkPool pool_;
  std::unique_ptr<RecordStream> outer_;  // the file
  std::unique_ptr<RecordStream> inner_;  // what its compressed records hold
  Decompressor decompressor_;
  OrderQueue queue_;
  AlignedCopies copies_;
  uint64_t data_left_ = UINT64_MAX;  // of the data section
  Chunk* payload_ = nullptr;         // holds the compressed record that is being read
  uint64_t payload_offset_ = 0, payload_size_ = 0;
  Chunk* delivered_ = nullptr;       // holds the record handed out last
  bool finished_ = false;
};

}  // namespace brink::perfdata
