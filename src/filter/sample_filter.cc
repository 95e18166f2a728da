#include "filter/sample_filter.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "lib/filter.h"

namespace brink::filter {
namespace {

brink_filter_in InputOf(const SampleView& sample) {
  brink_filter_in in{};
  auto put = [&](int field, const auto& value) {
    if (!value) return;
    in.value[field] = *value;
    in.known |= 1u << field;
  };
  put(BRINK_FF_PID, sample.pid);
  put(BRINK_FF_TID, sample.tid);
  put(BRINK_FF_CPU, sample.cpu);
  put(BRINK_FF_UID, sample.uid);
  if (sample.cgroup_id && *sample.cgroup_id) put(BRINK_FF_CGROUP, sample.cgroup_id);
  put(BRINK_FF_TIME, sample.time_ns);
  put(BRINK_FF_IP, sample.ip);
  if (sample.comm) {
    // As the kernel keeps it: 15 bytes and zeros.
    std::memcpy(in.comm, sample.comm->data(), std::min<size_t>(sample.comm->size(), BRINK_FILTER_COMM_LEN - 1));
    in.known |= 1u << BRINK_FF_COMM;
  }
  size_t slots = std::min<size_t>(sample.external.size(), BRINK_FILTER_MAX_EXT);
  std::copy_n(sample.external.begin(), slots, in.ext);
  in.ext_known = sample.external_known & static_cast<uint32_t>((1u << slots) - 1);
  return in;
}

Truth AllOf(Truth first, std::span<const Expr> rest, const SampleView& sample, const BranchEntry* entry, CodeResolver* resolver) {
  for (const Expr& expr : rest) {
    if (first == Truth::kFalse) return first;
    Truth t = Evaluate(expr, sample, entry, resolver);
    if (t == Truth::kFalse || (t == Truth::kUnknown && first == Truth::kTrue)) first = t;
  }
  return first;
}

}  // namespace

SampleFilter::SampleFilter(const Expr& expr, const CompileOptions& options) : expr_(Simplify(expr)), compiled_(Compile(expr_, options)) {
  for (const Expr& part : compiled_.rest) (ReadsRecord(part) ? record_rest_ : sample_rest_).push_back(part);
  filters_records_ = compiled_.prog.kinds || compiled_.prog.record_ops || !record_rest_.empty();
  for (Field field : {Field::kFromSymbol, Field::kToSymbol, Field::kFromObject, Field::kToObject, Field::kCrossFunction, Field::kCrossObject}) {
    needs_symbols_ |= ReadsField(expr_, field);
  }
}

StatusOr<SampleFilter> SampleFilter::Create(std::span<const std::string> wheres, const ParseOptions& parse, const CompileOptions& compile) {
  std::vector<Expr> parts;
  for (const std::string& where : wheres) {
    auto expr = Parse(where, parse);
    if (!expr.ok()) return Annotate(expr.status(), "'" + where + "'");
    parts.push_back(*expr);
  }
  Expr expr = parts.empty() ? Constant(Truth::kTrue) : And(std::move(parts));
  if (!Satisfiable(expr)) return InvalidArgument("nothing can match: " + ExplainContradiction(expr));
  return SampleFilter(expr, compile);
}

bool SampleFilter::empty() const { return !filters_records_ && compiled_.prog.sample_ops == 0 && sample_rest_.empty(); }

bool SampleFilter::KeepSample(const SampleView& sample, CodeResolver* resolver) {
  brink_filter_in in = InputOf(sample);
  Truth truth = AllOf(static_cast<Truth>(brink_filter_sample(&compiled_.prog, &in)), sample_rest_, sample, nullptr, resolver);
  ++counters_.samples;
  counters_.samples_dropped += truth == Truth::kFalse;
  counters_.samples_unknown += truth == Truth::kUnknown;
  return truth == Truth::kTrue;
}

Truth SampleFilter::RecordTruth(const brink_filter_in& in, const SampleView& sample, const BranchEntry& entry, CodeResolver* resolver) const {
  return AllOf(static_cast<Truth>(brink_filter_record(&compiled_.prog, &in, &entry)), record_rest_, sample, &entry, resolver);
}

size_t SampleFilter::FilterRecords(const SampleView& sample, std::span<BranchEntry> entries, CodeResolver* resolver) {
  counters_.records += entries.size();
  if (!filters_records_) return entries.size();
  brink_filter_in in = InputOf(sample);
  size_t kept = 0;
  for (const BranchEntry& entry : entries) {
    Truth truth = RecordTruth(in, sample, entry, resolver);
    counters_.records_dropped += truth == Truth::kFalse;
    counters_.records_unknown += truth == Truth::kUnknown;
    if (truth == Truth::kTrue) entries[kept++] = entry;
  }
  return kept;
}

std::string Describe(const FilterCounters& c) {
  uint64_t samples = c.samples - c.samples_dropped - c.samples_unknown;
  uint64_t records = c.records - c.records_dropped - c.records_unknown;
  std::string out = absl::StrFormat("filter: %d of %d samples kept", samples, c.samples);
  if (c.samples_unknown) absl::StrAppendFormat(&out, " (%d dropped as unknown)", c.samples_unknown);
  absl::StrAppendFormat(&out, ", %d of %d records in them", records, c.records);
  if (c.records_unknown) absl::StrAppendFormat(&out, " (%d dropped as unknown)", c.records_unknown);
  return out;
}

}  // namespace brink::filter
