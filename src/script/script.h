// `brink script`: the samples of a recording as text, in perf's form, readable, or as JSON lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "brbe/stream.h"
#include "perfdata/reader.h"
#include "script/fields.h"
#include "script/text_buffer.h"

namespace brink::script {

// Names addresses. The seam to the symboliser: without one, addresses are shown as they are and `sym` is refused.
class Symbols {
 public:
  virtual ~Symbols() = default;
  struct Name {
    std::string symbol;   // "" when there is none
    uint64_t offset = 0;  // from its start
    std::string source;   // "file.c:12", or ""
  };
  // Sees every record before the samples that depend on it.
  virtual void Observe(const perfdata::Record& record) = 0;
  // `address` in the context of a sample's process. Valid until the next call.
  virtual const Name& Find(const perfdata::Sample& sample, uint64_t address) = 0;
};

enum class Style { kReadable, kPerf, kJson };
// Which perf's brstack text: up to 6.1 without, later with the speculation outcome and two-letter events.
enum class BrstackStyle { kPerf61, kNew };

struct Options {
  Style style = Style::kReadable;
  uint32_t fields = 0;  // Field bits, for kPerf
  BrstackStyle brstack = BrstackStyle::kPerf61;
  bool nanoseconds = false;
  // Filters on whole samples; empty: all.
  std::vector<int> cpus;
  std::vector<uint32_t> pids, tids;
  uint64_t time_from = 0, time_to = UINT64_MAX;  // ns, both included
  std::optional<uint64_t> limit;                 // stop after so many samples
  std::vector<std::string> where;                // expressions of the filter language, ANDed
  std::optional<brbe::StreamOptions> brbe_model; // stacks go through it before the filter
};

// perf's FROM/TO/... flags text behind the second slash, with its blank at the end.
std::string BranchFlagsText(uint64_t info, BrstackStyle style);

// "1.5", "1.5,2", ",2": seconds as perf's --time; fills time_from and time_to.
Status ParseTimeRange(std::string_view text, Options* options);

// Writes all samples. `symbols` may be null. INVALID_ARGUMENT when a field is asked for that no event carries, or an
// expression is bad or needs symbols. What filter and model did is added to `notes`, a line each.
Status WriteSamples(perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out, std::vector<std::string>* notes = nullptr);

// What the header of a recording says: text, or one JSON object.
std::string HeaderFacts(const perfdata::Reader& reader, bool json);

// One form of output.
class Form {
 public:
  virtual ~Form() = default;
  virtual void Observe(const perfdata::Record&) {}
  virtual void Put(const perfdata::Record& record, const perfdata::Sample& sample) = 0;
};
std::unique_ptr<Form> MakePerfForm(const perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out);
std::unique_ptr<Form> MakeReadableForm(const perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out);
std::unique_ptr<Form> MakeJsonForm(const perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out);

}  // namespace brink::script
