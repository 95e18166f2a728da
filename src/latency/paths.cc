#include "latency/paths.h"

#include <algorithm>

namespace brink::latency {
namespace {

void AppendFrame(std::string* path, const std::string& frame) {
  if (!path->empty()) *path += ';';
  // The separators of the folded form.
  for (char c : frame) *path += c == ';' || c == '\n' ? ':' : c;
}

}  // namespace

std::string PathOf(const SpikeReport& report) {
  std::string path;
  AppendFrame(&path, report.occupant.empty() ? "?" : report.occupant);
  const size_t head = path.size();
  std::string last;
  for (auto it = report.branches.rbegin(); it != report.branches.rend(); ++it) {
    std::string from = it->substr(0, it->find(" -> "));
    if (from == last) continue;
    AppendFrame(&path, from);
    last = std::move(from);
  }
  if (path.size() == head) {
    for (auto it = report.user_stack.rbegin(); it != report.user_stack.rend(); ++it) AppendFrame(&path, *it);
    for (auto it = report.kernel_stack.rbegin(); it != report.kernel_stack.rend(); ++it) AppendFrame(&path, *it);
  }
  return path.size() == head ? "" : path;
}

std::vector<std::string> FoldPaths(const std::vector<SpikeReport>& reports) {
  std::map<std::string, int> paths;
  for (const SpikeReport& report : reports) {
    std::string path = PathOf(report);
    if (path.empty()) continue;
    ++paths[std::string(CauseName(report.cause)) + ";" + (report.subject.empty() ? "?" : report.subject) + ";" + path];
  }
  std::vector<std::pair<int, std::string>> sorted;
  for (auto& [path, count] : paths) sorted.push_back({count, path});
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (auto& [count, path] : sorted) lines.push_back(path + " " + std::to_string(count));
  return lines;
}

PathDiff DiffPaths(const std::vector<SpikeReport>& late, const std::map<std::string, uint64_t>& normal) {
  PathDiff diff;
  std::map<std::string, PathRow> rows;
  for (const SpikeReport& report : late) {
    std::string path = PathOf(report);
    if (path.empty()) continue;
    ++diff.late;
    ++rows[path].late;
  }
  for (const auto& [path, count] : normal) {
    diff.normal += count;
    rows[path].normal += count;
  }
  for (auto& [path, row] : rows) {
    row.path = path;
    diff.rows.push_back(std::move(row));
  }
  auto difference = [&](const PathRow& row) { return diff.LateShare(row) - diff.NormalShare(row); };
  std::stable_sort(diff.rows.begin(), diff.rows.end(), [&](const PathRow& a, const PathRow& b) { return difference(a) > difference(b); });
  return diff;
}

std::string FoldedDiff(const PathDiff& diff) {
  std::string text;
  for (const PathRow& row : diff.rows) text += row.path + " " + std::to_string(row.normal) + " " + std::to_string(row.late) + "\n";
  return text;
}

}  // namespace brink::latency
