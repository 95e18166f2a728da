// The filter at work on samples and their branch stacks, in user space: report, script, and what BPF left over.
//
// Conjuncts that have bytecode run in the very core that BPF runs (bpf/lib/filter.h); the others (symbols, objects,
// paths, containers) on the tree. Predicates on the sample choose samples; predicates on records choose records
// inside them. A sample is never dropped because none of its records is left: views over time stay honest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"
#include "filter/compile.h"
#include "filter/expr.h"
#include "filter/parser.h"

namespace brink::filter {

// What is known about one sample. Texts are borrowed for the call.
struct SampleView {
  std::optional<uint32_t> pid, tid, cpu, uid;
  std::optional<uint64_t> time_ns, cgroup_id, ip;
  uint64_t first_time_ns = 0;  // of the recording: `elapsed` counts from here
  std::optional<std::string_view> comm;
  // Any of several names may fit; empty: not known; one empty text: there is none.
  std::span<const std::string_view> cgroup_path, container, pod;
  std::span<const uint64_t> external;  // by slot
  uint32_t external_known = 0;         // bit per slot
};

// Where an address lies. Empty texts are not known.
struct CodePlace {
  std::string_view symbol;
  std::string_view object;    // path
  std::string_view build_id;  // hexadecimal
  uint64_t function = 0;      // identity of the function within the object: its start; 0 = not known
};

// Finds code for the expressions on symbols and objects. Called on the thread that filters; the texts must live until
// the next call but one.
class CodeResolver {
 public:
  virtual ~CodeResolver() = default;
  virtual CodePlace Lookup(const SampleView& sample, uint64_t address) = 0;
};

// Truth of one tree for a sample (entry == nullptr: record fields are unknown). `resolver` may be null.
Truth Evaluate(const Expr& expr, const SampleView& sample, const BranchEntry* entry, CodeResolver* resolver);

struct FilterCounters {
  uint64_t samples = 0, samples_dropped = 0, samples_unknown = 0;
  uint64_t records = 0, records_dropped = 0, records_unknown = 0;  // of kept samples
};

class SampleFilter {
 public:
  SampleFilter() : SampleFilter(Constant(Truth::kTrue)) {}
  explicit SampleFilter(const Expr& expr, const CompileOptions& options = {});
  // Several expressions are ANDed. The error names which one and the column.
  static StatusOr<SampleFilter> Create(std::span<const std::string> wheres, const ParseOptions& parse = {},
                                       const CompileOptions& compile = {});

  bool empty() const;           // keeps everything
  bool filters_records() const { return filters_records_; }  // stacks are not contiguous afterwards
  bool needs_symbols() const { return needs_symbols_; }      // give a resolver

  // Whether the sample stays; counts it.
  bool KeepSample(const SampleView& sample, CodeResolver* resolver = nullptr);
  // Moves the kept records to the front, order kept, and returns how many; counts them.
  size_t FilterRecords(const SampleView& sample, std::span<BranchEntry> entries, CodeResolver* resolver = nullptr);

  const FilterCounters& counters() const { return counters_; }
  const Expr& expr() const { return expr_; }

 private:
  Truth RecordTruth(const brink_filter_in& in, const SampleView& sample, const BranchEntry& entry, CodeResolver* resolver) const;

  Expr expr_;
  Compiled compiled_;
  std::vector<Expr> sample_rest_, record_rest_;
  bool filters_records_ = false;
  bool needs_symbols_ = false;
  FilterCounters counters_;
};

// One line for people: "filter: 120 of 1,000 samples, 3,412 of 32,000 records kept (17 unknown)".
std::string Describe(const FilterCounters& counters);

}  // namespace brink::filter
