#include "brbe/stream.h"

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "brbe/registers.h"

namespace brink::brbe {
namespace {

StatusOr<uint64_t> RegisterValue(const char* name, std::string_view text) {
  auto value = ParseUint(text);
  if (!value.ok()) return InvalidArgument("--brbe-model: " + std::string(name) + ": " + Message(value.status()));
  Decoded decoded = DecodeRegister(*FindRegister(name), *value);
  // TS is of no consequence here; reserved bits are surely a mistake.
  if (decoded.reserved) return InvalidArgument("--brbe-model: " + std::string(name) + ": " + decoded.problems.back());
  return *value;
}

}  // namespace

StatusOr<StreamOptions> ParseStreamOptions(std::string_view text) {
  StreamOptions options;
  bool el2_given = false;
  for (std::string_view piece : Split(text, ',')) {
    size_t equals = piece.find('=');
    std::string_view key = Trim(piece.substr(0, equals));
    std::string_view value = equals == std::string_view::npos ? std::string_view() : Trim(piece.substr(equals + 1));
    if (key == "numrec") {
      auto number = ParseUint(value);
      if (!number.ok() || *number > 64) return InvalidArgument("--brbe-model: numrec is 8, 16, 32 or 64, not '" + EscapeForTerminal(value) + "'");
      options.config.numrec = static_cast<int>(*number);
    } else if (key == "brbfcr") {
      ASSIGN_OR_RETURN(options.brbfcr, RegisterValue("BRBFCR_EL1", value));
      if (options.brbfcr & kFcrPaused) return InvalidArgument("--brbe-model: brbfcr has PAUSED (bit 7) set: nothing would be recorded");
    } else if (key == "brbcr" || key == "brbcr_el1") {
      ASSIGN_OR_RETURN(options.brbcr_el1, RegisterValue("BRBCR_EL1", value));
    } else if (key == "brbcr_el2") {
      ASSIGN_OR_RETURN(options.brbcr_el2, RegisterValue("BRBCR_EL2", value));
      el2_given = true;
    } else if (key == "vhe") {
      options.vhe = true;
    } else if (key == "v1p1") {
      options.config.v1p1 = true;
    } else if (key == "noel2") {
      options.config.has_el2 = false;
    } else if (key == "quirks") {
      if (value != "on" && value != "off") return InvalidArgument("--brbe-model: quirks is on or off");
      options.quirks = value == "on";
    } else {
      return InvalidArgument("--brbe-model: unknown word '" + EscapeForTerminal(key) + "' (numrec brbfcr brbcr brbcr_el2 vhe noel2 v1p1 quirks)");
    }
  }
  if (options.vhe && !el2_given) {
    options.brbcr_el2 = options.brbcr_el1;
    options.brbcr_el1 &= ~(kCrExBre | kCrE0Bre);
  }
  if (options.vhe && !options.config.has_el2) return InvalidArgument("--brbe-model: vhe needs EL2");
  // The number of records is checked here, so that a bad one is a usage error.
  RETURN_IF_ERROR(Model::Create(options.config).status());
  return options;
}

bool RecordsEverything(const StreamOptions& o) {
  const uint64_t own = o.vhe ? o.brbcr_el2 : o.brbcr_el1;
  constexpr uint64_t kAll = kCrE0Bre | kCrExBre | kCrException | kCrErtn;
  const uint64_t matched = o.brbfcr & kFcrKinds;
  const bool kinds = o.brbfcr & kFcrEnI ? matched == 0 : matched == kFcrKinds;
  return kinds && (own & kAll) == kAll;
}

StatusOr<StreamModel> StreamModel::Create(const StreamOptions& options) {
  ASSIGN_OR_RETURN(Model model, Model::Create(options.config));
  model.controls().tge = options.vhe;
  return StreamModel(options, std::move(model));
}

namespace {

// The record's flag cannot say "the source did not know": where it did not, neither does the result.
void ForgetPredictions(std::span<const BranchEntry> stack, std::vector<BranchEntry>* out) {
  for (BranchEntry& entry : *out) {
    if (entry.prediction() == Prediction::kUnknown) continue;
    for (const BranchEntry& source : stack) {
      const bool same = (!entry.from || entry.from == source.from) && (!entry.to || entry.to == source.to);
      if (!same) continue;
      if (source.prediction() == Prediction::kUnknown) entry.info &= ~uint64_t{3};
      break;
    }
  }
}

}  // namespace

std::vector<BranchEntry> StreamModel::Apply(std::span<const BranchEntry> stack) {
  ++counters_.stacks;
  counters_.seen += stack.size();
  model_.WriteBrbfcr(kFcrPaused);
  model_.InvalidateAll();
  model_.WriteBrbcrEl1(options_.brbcr_el1);
  model_.WriteBrbcrEl2(options_.brbcr_el2);
  model_.WriteBrbfcr(options_.brbfcr);
  const uint8_t kernel_el = options_.vhe ? 2 : 1;
  auto level = [&](uint64_t address) { return address >> 63 ? kernel_el : uint8_t{0}; };
  for (size_t i = stack.size(); i-- > 0;) {
    const BranchEntry& entry = stack[i];
    const Kind kind = entry.kind();
    auto type = TypeOfKind(kind);
    if (!type || (!entry.from && !entry.to)) {
      ++(kind == Kind::kTxAbort ? counters_.not_branches : counters_.unclassified);
      model_.Unobserved();
      continue;
    }
    BranchEvent event{.type = *type, .source_el = level(entry.from), .target_el = level(entry.to), .source = entry.from, .target = entry.to};
    // A half record of the source: the hidden side is the other privilege.
    if (!entry.from) event.source_el = event.target_el ? 0 : kernel_el;
    if (!entry.to) event.target_el = event.source_el ? 0 : kernel_el;
    event.mispredicted = entry.prediction() == Prediction::kMispredicted;
    event.cycles = entry.cycles() ? std::optional<uint32_t>(entry.cycles()) : std::nullopt;
    model_.Branch(event);
  }
  LinuxOptions linux_options;
  linux_options.vhe = options_.vhe;
  linux_options.quirks = options_.quirks;
  std::vector<Record> records = model_.Records();
  std::vector<BranchEntry> out = ToPerf(records, linux_options);
  if (!(options_.brbcr_el1 & (options_.config.has_el2 ? options_.brbcr_el2 : ~uint64_t{0}) & kCrMpred)) {
    // Without the flag the record's 0 means "not captured": unknown, not predicted.
    for (BranchEntry& entry : out) entry.info &= ~uint64_t{3};
  }
  ForgetPredictions(stack, &out);
  counters_.recorded += out.size();
  return out;
}

std::string Describe(const StreamCounters& c) {
  std::string out = absl::StrFormat("brbe model: %d of %d records in %d stacks", c.recorded, c.seen, c.stacks);
  if (c.unclassified) absl::StrAppendFormat(&out, ", %d left out: kind unknown", c.unclassified);
  if (c.not_branches) absl::StrAppendFormat(&out, ", %d left out: transaction aborts", c.not_branches);
  return out;
}

}  // namespace brink::brbe
