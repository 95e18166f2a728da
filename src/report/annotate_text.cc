#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "report/annotate.h"
#include "report/table.h"

namespace brink::report {
namespace {

std::string Percent(double value) { return absl::StrFormat("%.1f%%", value * 100); }

std::string ShortFile(const std::string& file) { return file.substr(file.rfind('/') + 1); }

// What is known of a branch, behind its text.
std::string BranchNote(const AnnotatedInstruction& i) {
  std::string note;
  if (auto ratio = i.taken_ratio()) note += "taken " + Percent(*ratio);
  else if (i.branch && i.taken) note += absl::StrFormat("taken %d times", i.taken);
  if (i.known) note += std::string(note.empty() ? "" : ", ") + "mispredicted " + Percent(static_cast<double>(i.mispredicted) / static_cast<double>(i.known));
  if (i.targets.size() > 1 || (i.targets.size() == 1 && (i.kind == Kind::kIndCall || i.kind == Kind::kIndJump || i.kind == Kind::kRet))) {
    note += note.empty() ? "to " : "; to ";
    for (size_t t = 0; t < i.targets.size() && t < 3; ++t) {
      note += (t ? ", " : "") + EscapeForTerminal(i.targets[t].name) + " " + Percent(static_cast<double>(i.targets[t].count) / static_cast<double>(std::max<uint64_t>(i.taken, 1)));
    }
    if (i.targets.size() > 3) note += ", ...";
  }
  return note;
}

}  // namespace

std::string AnnotateText(const AnnotatedFunction& annotated, SourceFiles* sources, const AnnotateTextOptions& options) {
  const char* dim = options.colour ? "\033[2m" : "";
  const char* hot = options.colour ? "\033[1;31m" : "";
  const char* plain = options.colour ? "\033[0m" : "";
  std::string out = absl::StrFormat("%s (%s, %d bytes), %d taken branches in it\n", EscapeForTerminal(annotated.function.name), EscapeForTerminal(annotated.object),
                                    annotated.function.end - annotated.function.start, annotated.branches);
  out += absl::StrFormat("%10s %7s %7s\n", "EXECUTED", "SHARE", "CYCLES");
  std::string file;
  uint32_t line = 0;
  uint64_t hidden = 0;
  for (const AnnotatedInstruction& i : annotated.instructions) {
    const uint64_t count = i.executed.value_or(i.taken);
    if (count == 0 && !options.all) {
      ++hidden;
      continue;
    }
    if (i.block_start) out += "\n";
    if (options.source && i.line && (i.file != file || i.line != line)) {
      file = i.file;
      line = i.line;
      auto text = sources->Line(file, line);
      out += absl::StrFormat("%s%27s%s:%d%s%s  %s%s\n", dim, "", EscapeForTerminal(ShortFile(file)), line, i.inlined.empty() ? "" : " in ", EscapeForTerminal(i.inlined),
                             text ? EscapeForTerminal(Trim(*text)) : "", plain);
    }
    std::string executed = i.executed ? std::to_string(*i.executed) : i.taken ? std::to_string(i.taken) : "-";
    double share = annotated.most_executed ? static_cast<double>(count) / static_cast<double>(annotated.most_executed) : 0;
    std::string cycles = i.cycle_count ? absl::StrFormat("%.1f", static_cast<double>(i.cycles) / static_cast<double>(i.cycle_count)) : i.branch && i.taken ? "-" : "";
    out += absl::StrFormat("%s%10s %7s %7s%s  %8x  %s", share >= 0.5 ? hot : "", executed, count ? Percent(share) : "", cycles, share >= 0.5 ? plain : "", i.address, i.text);
    std::string note = BranchNote(i);
    if (!note.empty()) out += "    # " + note;
    out += "\n";
  }
  if (hidden) out += absl::StrFormat("\n# %d instructions that were never seen are left out (--all shows them)\n", hidden);
  return out;
}

std::string AnnotateJson(const AnnotatedFunction& annotated) {
  auto number = [](const std::optional<uint64_t>& value) { return value ? std::to_string(*value) : std::string("null"); };
  std::string out;
  for (const AnnotatedInstruction& i : annotated.instructions) {
    out += "{\"schema\":\"brink.annotate.v1\",\"function\":" + JsonString(annotated.function.name) + ",\"object\":" + JsonString(annotated.object);
    out += absl::StrFormat(",\"address\":\"%#x\",\"text\":", i.address) + JsonString(i.text);
    out += ",\"file\":" + (i.file.empty() ? "null" : JsonString(i.file)) + ",\"line\":" + (i.line ? std::to_string(i.line) : "null");
    out += ",\"inlined\":" + (i.inlined.empty() ? "null" : JsonString(i.inlined)) + ",\"executed\":" + number(i.executed);
    out += ",\"kind\":" + (i.branch ? JsonString(KindName(i.kind)) : "null") + ",\"taken\":" + (i.branch ? std::to_string(i.taken) : "null");
    out += ",\"not_taken\":" + number(i.passed) + ",\"mispredicted\":" + (i.known ? std::to_string(i.mispredicted) : "null");
    out += ",\"mean_cycles\":" + JsonValue(Ratio(i.cycles, i.cycle_count), Format::kNumber) + ",\"targets\":[";
    for (size_t t = 0; t < i.targets.size(); ++t) out += absl::StrFormat("%s{\"to\":%s,\"count\":%d}", t ? "," : "", JsonString(i.targets[t].name), i.targets[t].count);
    out += "]}\n";
  }
  return out;
}

}  // namespace brink::report
