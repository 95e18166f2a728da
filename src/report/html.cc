#include "report/html.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "report/annotate.h"
#include "report/page_assets.inc"
#include "report/quality.h"
#include "report/summary.h"
#include "report/table.h"
#include "report/tables.h"

namespace brink::report {
namespace {

std::string_view FormatName(Format format) {
  constexpr std::string_view kNames[] = {"text", "count", "percent", "number", "address"};
  return kNames[static_cast<size_t>(format)];
}

// JSON inside a script element: "</script>" and "<!--" must not appear in it.
std::string ForScript(std::string json) {
  std::string out;
  out.reserve(json.size());
  for (char c : json) {
    if (c == '<') out += "\\u003c";
    else out += c;
  }
  return out;
}

std::string TableJson(const Table& table) {
  std::string out = "{\"name\":" + JsonString(table.name) + ",\"title\":" + JsonString(table.title) + ",\"columns\":[";
  for (const Column& column : table.columns) {
    if (out.back() == '}') out += ',';
    out += "{\"name\":" + JsonString(column.name) + ",\"title\":" + JsonString(column.title) + ",\"format\":\"" + std::string(FormatName(column.format)) + "\"}";
  }
  out += "],\"rows\":[";
  for (const auto& row : table.rows) {
    if (out.back() == ']') out += ',';
    out += '[';
    for (size_t i = 0; i < row.size(); ++i) out += (i ? "," : "") + JsonValue(row[i], table.columns[i].format);
    out += ']';
  }
  out += "],\"notes\":[";
  for (size_t i = 0; i < table.notes.size(); ++i) out += (i ? "," : "") + JsonString(table.notes[i]);
  return out + "]}";
}

std::string Tables(Program& program, size_t rows) {
  std::string out = "[";
  for (const TableKind& kind : AllTables()) {
    Table table = kind.make(program, {});
    if (table.rows.empty() && std::string_view(kind.name) != "mispredict") continue;
    (void)Sort(&table, kind.default_sort);
    if (table.rows.size() > rows) table.notes.push_back(absl::StrFormat("the first %d of %d rows", rows, table.rows.size()));
    if (table.rows.size() > rows) table.rows.resize(rows);
    (void)SelectFields(&table, "");
    out += (out.size() > 1 ? "," : "") + TableJson(table);
  }
  return out + "]";
}

// `skipped`: instructions left out before this one.
std::string InstructionJson(const AnnotatedInstruction& i, const std::string& file_index, uint64_t skipped) {
  auto optional = [](const std::optional<uint64_t>& value) { return value ? std::to_string(*value) : std::string("null"); };
  std::string out = absl::StrFormat("{\"a\":\"%x\",\"t\":", i.address) + JsonString(i.text) + ",\"f\":" + file_index + ",\"l\":" + std::to_string(i.line);
  out += ",\"e\":" + optional(i.executed);
  if (i.block_start) out += ",\"b\":1";
  if (skipped) out += ",\"s\":" + std::to_string(skipped);
  if (!i.inlined.empty()) out += ",\"n\":" + JsonString(i.inlined);
  if (!i.branch) return out + "}";
  out += ",\"k\":" + JsonString(KindName(i.kind)) + ",\"x\":" + std::to_string(i.taken) + ",\"p\":" + optional(i.passed);
  if (i.known) out += absl::StrFormat(",\"m\":%d,\"w\":%d", i.mispredicted, i.known);
  if (i.cycle_count) out += ",\"c\":" + JsonValue(Ratio(i.cycles, i.cycle_count), Format::kNumber);
  out += ",\"g\":[";
  for (size_t t = 0; t < i.targets.size(); ++t) out += absl::StrFormat("%s[%s,%d]", t ? "," : "", JsonString(i.targets[t].name), i.targets[t].count);
  return out + "]}";
}

// Direct jumps inside the function for the branch map: from, to, count, mispredicted, known.
std::string ArcsJson(Program& program, const symbol::Function& function) {
  std::string out = "[";
  for (const BranchStat& branch : program.aggregate.branches) {
    if (branch.from.object != function.object || branch.to.object != function.object) continue;
    auto from = program.symbolizer->VaddrOf(branch.from), to = program.symbolizer->VaddrOf(branch.to);
    if (!from || !to || *from < function.start || *from >= function.end || *to < function.start || *to >= function.end) continue;
    out += absl::StrFormat("%s[\"%x\",\"%x\",%d,%d,%d]", out.size() > 1 ? "," : "", *from, *to, branch.count, branch.mispredicted, branch.known());
  }
  return out + "]";
}

std::string FunctionJson(Program& program, const AnnotatedFunction& annotated, SourceFiles* sources) {
  std::map<std::string, size_t> files;
  std::map<std::pair<size_t, uint32_t>, std::string> lines;
  std::string instructions = "[";
  uint64_t skipped = 0;
  bool near = false;
  for (const AnnotatedInstruction& i : annotated.instructions) {
    // Long functions are mostly code that never ran: said by its length only.
    bool seen = i.executed.value_or(0) > 0 || i.taken > 0;
    if (!seen && !std::exchange(near, seen) && annotated.instructions.size() > 40) {
      ++skipped;
      continue;
    }
    near = seen;
    std::string index = "-1";
    if (!i.file.empty()) {
      size_t at = files.try_emplace(i.file, files.size()).first->second;
      index = std::to_string(at);
      auto text = sources->Line(i.file, i.line);
      if (text) lines.try_emplace({at, i.line}, *text);
    }
    instructions += (instructions.size() > 1 ? "," : "") + InstructionJson(i, index, skipped);
    skipped = 0;
  }
  std::string out = "{\"name\":" + JsonString(annotated.function.name) + ",\"object\":" + JsonString(annotated.object);
  out += absl::StrFormat(",\"start\":\"%x\",\"end\":\"%x\",\"branches\":%d,\"files\":[", annotated.function.start, annotated.function.end, annotated.branches);
  std::vector<std::string> names(files.size());
  for (const auto& [name, at] : files) names[at] = name.substr(name.rfind('/') + 1);
  for (size_t i = 0; i < names.size(); ++i) out += (i ? "," : "") + JsonString(names[i]);
  out += "],\"source\":[";
  bool first = true;
  for (const auto& [place, text] : lines) {
    // Tabs are text here; everything else that could disturb is escaped as elsewhere.
    std::string plain;
    for (char c : text) plain += c == '\t' ? std::string(4, ' ') : std::string(1, c);
    out += absl::StrFormat("%s[%d,%d,%s]", first ? "" : ",", place.first, place.second, JsonString(plain));
    first = false;
  }
  return out + "],\"arcs\":" + ArcsJson(program, annotated.function) + ",\"code\":" + instructions + "]}";
}

std::string Functions(Program& program, SourceFiles* sources, size_t most) {
  absl::flat_hash_map<FunctionId, uint64_t> counts;
  for (const BranchStat& branch : program.aggregate.branches) counts[program.FunctionAt(branch.from)] += branch.count;
  std::vector<std::pair<uint64_t, FunctionId>> order;
  for (auto [id, count] : counts) order.emplace_back(count, id);
  std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  Annotator annotator(&program);
  std::string out = "[";
  size_t shown = 0;
  for (auto [count, id] : order) {
    if (shown == most) break;
    auto annotated = annotator.Annotate(id);
    if (!annotated.ok()) continue;
    ++shown;
    out += (out.size() > 1 ? "," : "") + FunctionJson(program, *annotated, sources);
  }
  return out + "]";
}

// [name, count, [children]]; what is thinner than a thousandth of all is left out.
void FlameJson(Program& program, const std::vector<FlameNode>& nodes, uint32_t at, std::string* out) {
  const FlameNode& node = nodes[at];
  *out += "[" + JsonString(at == 0 ? "all" : (*program.symbolizer)[node.function].name) + "," + std::to_string(node.count) + ",[";
  bool first = true;
  for (auto [function, child] : node.children) {
    if (nodes[child].count * 1000 < nodes[0].count) continue;
    if (!first) *out += ',';
    first = false;
    FlameJson(program, nodes, child, out);
  }
  *out += "]]";
}

}  // namespace

std::string RenderHtml(Program* program, SourceFiles* sources, const HtmlOptions& options) {
  Quality quality = Judge(*program);
  std::string summary = SummaryJson(*program), verdict = QualityJson(quality);
  std::string text = SummaryText(*program), flame;
  if (!program->flame.empty()) FlameJson(*program, program->flame, 0, &flame);
  std::string data = "{\"summary\":" + summary + ",\"quality\":" + verdict + ",\"tables\":" + Tables(*program, options.rows) +
                     ",\"functions\":" + Functions(*program, sources, options.functions) + ",\"flame\":" + (flame.empty() ? "null" : flame) + ",\"facts\":[";
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    if (line.size() <= 2) continue;
    data += (first ? "" : ",") + JsonString(line.substr(2));
    first = false;
  }
  data += "]}";
  return std::string("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
                     "<title>brink report</title>\n<style>\n") +
         kPageCss + "</style>\n</head>\n<body>\n<div id=\"app\"></div>\n<noscript>This page shows its data by JavaScript; it loads nothing from elsewhere.</noscript>\n"
                    "<script type=\"application/json\" id=\"data\">" +
         ForScript(std::move(data)) + "</script>\n<script>\n" + kPageJs + "</script>\n</body>\n</html>\n";
}

}  // namespace brink::report
