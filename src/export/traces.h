// Traces: a taken branch with the straight code that followed it, counted by Location. What every optimiser's format
// is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "report/program.h"

namespace brink::exporter {

using symbol::Location;

// A branch is (from, to), the straight code behind it [to, end]; either half may be missing, not both. Where the whole
// stacks were at hand both are there; from an aggregate file, which has no pairs of them, each comes by itself.
struct Trace {
  std::optional<Location> from;
  Location to;
  std::optional<uint64_t> end;  // offset of the last instruction, in the object of `to`
  Kind kind = Kind::kUnknown;
  uint64_t count = 0;
  uint64_t mispredicted = 0;
  uint64_t by_return = 0;       // `from` missing: how often the straight code was entered by a return or from elsewhere
};

// Collects traces while the recording is read; give it to LoadOptions::observe.
class TraceCollector : public report::StackObserver {
 public:
  explicit TraceCollector(const symbol::AddressSpaces* spaces) : spaces_(*spaces) {}
  void OnStack(const report::SampleView& sample, const report::CleanStack& stack) override;
  const std::vector<Trace>& traces() const { return traces_; }
  std::vector<Trace> Take() { return std::move(traces_); }

 private:
  struct Key {
    Location from, to;
    uint64_t end;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.from, key.to, key.end);
    }
  };
  struct Raw {
    int32_t pid;
    uint64_t generation, kernel_generation, from, to, end;
    friend bool operator==(const Raw&, const Raw&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Raw& key) {
      return H::combine(std::move(h), key.pid, key.generation, key.kernel_generation, key.from, key.to, key.end);
    }
  };
  static constexpr size_t kMaxCached = 1u << 20;

  size_t IndexOf(const Raw& raw);

  const symbol::AddressSpaces& spaces_;
  std::vector<Trace> traces_;
  absl::flat_hash_map<Key, size_t> index_;
  absl::flat_hash_map<Raw, size_t> cache_;
};

// The halves, from counts alone.
std::vector<Trace> TracesOf(const report::Aggregate& aggregate);

}  // namespace brink::exporter
