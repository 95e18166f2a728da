#include "script/script.h"

#include <algorithm>

#include "base/strings.h"
#include "base/units.h"
#include "script/selection.h"

namespace brink::script {
namespace {

template <typename T, typename U>
bool Contains(const std::vector<T>& list, U value) {
  return list.empty() || std::find(list.begin(), list.end(), static_cast<T>(value)) != list.end();
}

bool Wanted(const Options& options, const perfdata::Sample& sample) {
  return Contains(options.cpus, sample.cpu) && Contains(options.pids, sample.pid) && Contains(options.tids, sample.tid) &&
         sample.time >= options.time_from && sample.time <= options.time_to;
}

// Each field must be in at least one event. A stream may still be about to describe its events.
Status CheckFields(const perfdata::Reader& reader, const Options& options, const Symbols* symbols) {
  if (options.style != Style::kPerf) return OkStatus();
  if (!symbols && options.fields & (kSym | kBrstacksym)) return InvalidArgument("symbols are not at hand here; ask for ip and brstack");
  if (reader.events().empty()) return OkStatus();
  for (uint32_t bit = 1; bit != 0; bit <<= 1) {
    if (!(options.fields & bit)) continue;
    uint64_t needs = SampleBitsFor(static_cast<Field>(bit));
    bool any = needs == 0;
    for (const auto& event : reader.events()) any |= (event.attr.sample_type & needs) != 0;
    if (!any) {
      return InvalidArgument("no event of this recording has what the field '" + std::string(FieldName(static_cast<Field>(bit))) +
                             "' shows; leave it out, or record with it");
    }
  }
  return OkStatus();
}

StatusOr<uint64_t> ParseSeconds(std::string_view text) {
  size_t dot = text.find('.');
  ASSIGN_OR_RETURN(uint64_t seconds, ParseUint(text.substr(0, dot)));
  if (seconds > UINT64_MAX / 1'000'000'000 - 1) return InvalidArgument("a time beyond all clocks");
  uint64_t ns = 0;
  if (dot != std::string_view::npos) {
    std::string digits(text.substr(dot + 1));
    if (digits.empty() || digits.size() > 9) return InvalidArgument("one to nine digits can follow the point");
    digits.resize(9, '0');
    digits.erase(0, std::min(digits.find_first_not_of('0'), size_t{8}));
    ASSIGN_OR_RETURN(ns, ParseUint(digits));
  }
  return seconds * 1'000'000'000 + ns;
}

}  // namespace

Status ParseTimeRange(std::string_view text, Options* options) {
  size_t comma = text.find(',');
  std::string_view from = text.substr(0, comma), to = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  if (from.empty() && to.empty()) return InvalidArgument("a time range is FROM,TO in seconds, one of which can be left out");
  if (!from.empty()) {
    ASSIGN_OR_RETURN(options->time_from, ParseSeconds(from));
  }
  if (!to.empty()) {
    ASSIGN_OR_RETURN(options->time_to, ParseSeconds(to));
  }
  return options->time_from <= options->time_to ? OkStatus() : InvalidArgument("the time range ends before it begins");
}

Status WriteSamples(perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out, std::vector<std::string>* notes) {
  RETURN_IF_ERROR(CheckFields(reader, options, symbols));
  ASSIGN_OR_RETURN(Selection selection, Selection::Create(options));
  std::unique_ptr<Form> form = options.style == Style::kPerf   ? MakePerfForm(reader, options, symbols, out)
                               : options.style == Style::kJson ? MakeJsonForm(reader, options, symbols, out)
                                                               : MakeReadableForm(reader, options, symbols, out);
  perfdata::Record record;
  uint64_t written = 0;
  while (out->ok()) {
    ASSIGN_OR_RETURN(bool more, reader.Next(&record));
    if (!more) break;
    const perfdata::Sample* sample = record.sample();
    if (!sample) {
      if (symbols) symbols->Observe(record);
      form->Observe(record);
      selection.Observe(record);
      continue;
    }
    if (!Wanted(options, *sample)) continue;
    sample = selection.Choose(*sample);
    if (!sample) continue;
    if (options.limit && written == *options.limit) break;
    form->Put(record, *sample);
    ++written;
  }
  if (notes) selection.Describe(notes);
  return out->Flush();
}

}  // namespace brink::script
