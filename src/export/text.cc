#include "export/text.h"

#include <map>
#include <optional>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::exporter {
namespace {

using Pair = std::pair<uint64_t, uint64_t>;
struct Count {
  uint64_t count = 0, mispredicted = 0;
};

constexpr uint64_t kProfgenOutside = 1;             // llvm-profgen's
constexpr uint64_t kOutside = 0;                    // BOLT's address of everything that is not in the binary
constexpr uint64_t kNothing = 0xffffffffffffffff;   // BOLT's "no such half"
constexpr uint64_t kOutsideOrigin = 0xfffffffffffffffe, kOutsideReturn = 0xfffffffffffffffd;

// A trace with the binary's own addresses; what lies elsewhere has none.
struct Placed {
  std::optional<uint64_t> from, to, end;
};

class Placer {
 public:
  Placer(const Binary& binary, Written* written) : binary_(binary), written_(*written) {}

  // Nothing when the trace has no part in the binary.
  std::optional<Placed> operator()(const Trace& trace) {
    Placed placed;
    if (trace.from) placed.from = binary_.Vaddr(*trace.from);
    placed.to = binary_.Vaddr(trace.to);
    if (trace.end) placed.end = binary_.Vaddr({trace.to.object, *trace.end});
    const bool held = (trace.from && binary_.Holds(trace.from->object)) || binary_.Holds(trace.to.object);
    if (!placed.from && !placed.to) {
      (held ? written_.no_address : written_.elsewhere) += trace.count;
      return std::nullopt;
    }
    if (!placed.to) placed.end.reset();
    if (trace.from) written_.branches += trace.count;
    if (placed.end) written_.ranges += trace.count;
    return placed;
  }

 private:
  const Binary& binary_;
  Written& written_;
};

void OldBolt(std::span<const Trace> traces, const Binary& binary, OptimiserText* out) {
  Placer place(binary, &out->written);
  std::map<Pair, Count> branches;
  std::map<Pair, uint64_t> ranges[2];  // entered from inside the function, from outside
  for (const Trace& trace : traces) {
    auto at = place(trace);
    if (!at) continue;
    if (trace.from) {
      Count& count = branches[{at->from.value_or(kOutside), at->to.value_or(kOutside)}];
      count.count += trace.count;
      count.mispredicted += trace.mispredicted;
    }
    if (!at->end) continue;
    // perf2bolt asks whether the branch that led here lies in the same function.
    const int64_t function = binary.FunctionOf(*at->to);
    const bool inside = at->from && function >= 0 && binary.FunctionOf(*at->from) == function;
    const uint64_t outside = trace.from ? (inside ? 0 : trace.count) : trace.by_return;
    if (trace.count > outside) ranges[0][{*at->to, *at->end}] += trace.count - outside;
    if (outside) ranges[1][{*at->to, *at->end}] += outside;
  }
  for (const auto& [pair, count] : branches) absl::StrAppendFormat(&out->text, "B %x %x %d %d\n", pair.first, pair.second, count.count, count.mispredicted);
  for (int outside : {0, 1}) {
    for (const auto& [pair, count] : ranges[outside]) absl::StrAppendFormat(&out->text, "%c %x %x %d\n", outside ? 'f' : 'F', pair.first, pair.second, count);
  }
  out->written.rows = branches.size() + ranges[0].size() + ranges[1].size();
}

void NewBolt(std::span<const Trace> traces, const Binary& binary, bool latest, OptimiserText* out) {
  Placer place(binary, &out->written);
  struct Key {
    bool ret;
    uint64_t from, to, end;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, Count> lines;
  for (const Trace& trace : traces) {
    auto at = place(trace);
    if (!at) continue;
    const bool ret = latest && trace.kind == Kind::kRet;
    if (trace.from) {
      Count& count = lines[{ret, at->from.value_or(kOutside), at->to.value_or(kOutside), at->end.value_or(kNothing)}];
      count.count += trace.count;
      count.mispredicted += trace.mispredicted;
      continue;
    }
    // Straight code whose branch is not known: of its origin only what kind it was.
    const uint64_t outside = latest ? kOutsideReturn : kOutsideOrigin;
    if (trace.count > trace.by_return) lines[{false, kNothing, *at->to, *at->end}].count += trace.count - trace.by_return;
    if (trace.by_return) lines[{false, outside, *at->to, *at->end}].count += trace.by_return;
  }
  for (const auto& [key, count] : lines) {
    absl::StrAppendFormat(&out->text, "%c %x %x %x %d", key.ret ? 'R' : 'T', key.from, key.to, key.end, count.count);
    if (latest && count.mispredicted) absl::StrAppendFormat(&out->text, " %d", count.mispredicted);
    out->text += '\n';
  }
  out->written.rows = lines.size();
}

// Sums by address; `shift` turns a link-time address into what the format counts in. Branches from elsewhere come from
// `outside`, if there is one.
template <typename Shift>
void FlatCounts(std::span<const Trace> traces, const Binary& binary, Shift shift, std::optional<uint64_t> outside, std::map<Pair, uint64_t>* ranges,
                std::map<Pair, uint64_t>* branches, Written* written) {
  Placer place(binary, written);
  for (const Trace& trace : traces) {
    auto at = place(trace);
    if (!at) continue;
    if (!at->from) at->from = outside;
    if (trace.from && at->from && at->to) (*branches)[{shift(*at->from), shift(*at->to)}] += trace.count;
    if (at->end) (*ranges)[{shift(*at->to), shift(*at->end)}] += trace.count;
  }
}

void AppendPairs(const std::map<Pair, uint64_t>& pairs, const char* between, std::string* text) {
  absl::StrAppendFormat(text, "%d\n", pairs.size());
  for (const auto& [pair, count] : pairs) absl::StrAppendFormat(text, "%x%s%x:%d\n", pair.first, between, pair.second, count);
}

}  // namespace

StatusOr<BoltDialect> ParseBoltDialect(std::string_view text) {
  if (text == "old") return BoltDialect::kOld;
  if (text == "new") return BoltDialect::kNew;
  if (text == "latest") return BoltDialect::kLatest;
  return InvalidArgument("'" + EscapeForTerminal(text) + "' is none of old, new, latest");
}

OptimiserText BoltText(std::span<const Trace> traces, const Binary& binary, BoltDialect dialect) {
  OptimiserText out;
  if (dialect == BoltDialect::kOld) OldBolt(traces, binary, &out);
  else NewBolt(traces, binary, dialect == BoltDialect::kLatest, &out);
  return out;
}

uint64_t ProfgenBase(const elf::File& file) {
  constexpr uint64_t kPage = 0x1000;
  for (const elf::Segment& segment : file.segments()) {
    if (segment.load() && segment.executable()) return segment.vaddr & ~(kPage - 1);
  }
  return 0;
}

OptimiserText UnsymbolizedText(std::span<const Trace> traces, const Binary& binary) {
  OptimiserText out;
  std::map<Pair, uint64_t> ranges, branches;
  const uint64_t base = ProfgenBase(binary.file());
  FlatCounts(traces, binary, [base](uint64_t vaddr) { return vaddr - base; }, kProfgenOutside, &ranges, &branches, &out.written);
  AppendPairs(ranges, "-", &out.text);
  AppendPairs(branches, "->", &out.text);
  out.written.rows = ranges.size() + branches.size();
  return out;
}

OptimiserText AutofdoText(std::span<const Trace> traces, std::span<const std::pair<Location, uint64_t>> ips, const Binary& binary) {
  OptimiserText out;
  std::map<Pair, uint64_t> ranges, branches;
  // The kernel's offsets count from its reference symbol: back through the program headers, as for every file.
  auto file_offset = [&](uint64_t vaddr) { return binary.file().VaddrToOffset(vaddr).value_or(vaddr); };
  FlatCounts(traces, binary, file_offset, std::nullopt, &ranges, &branches, &out.written);
  std::map<uint64_t, uint64_t> addresses;
  for (const auto& [location, count] : ips) {
    if (auto vaddr = binary.Vaddr(location)) addresses[file_offset(*vaddr)] += count;
  }
  AppendPairs(ranges, "-", &out.text);
  absl::StrAppendFormat(&out.text, "%d\n", addresses.size());
  for (const auto& [address, count] : addresses) absl::StrAppendFormat(&out.text, "%x:%d\n", address, count);
  AppendPairs(branches, "->", &out.text);
  out.written.rows = ranges.size() + addresses.size() + branches.size();
  return out;
}

}  // namespace brink::exporter
