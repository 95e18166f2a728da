#include "container/resolver.h"
#include "report/tables.h"

namespace brink::report {

// By the paths that the recording tells; names come from the runtimes' files of this host, for containers that it knows.
Table ContainerTable(Program& program, const TableFilter&) {
  Table table{.name = "containers", .title = "Containers by samples"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"samples", "SAMPLES", Format::kCount}, {"branches", "BRANCHES", Format::kCount}, {"container", "CONTAINER"},
                   {"pod", "POD"},                         {"image", "IMAGE", Format::kText, false}, {"cgroup", "CGROUP"}};
  uint64_t samples = 0, unnamed = 0;
  for (const auto& [id, count] : program.group_counts) samples += count.samples;
  ContainerResolver resolver({});
  auto cell = [](const std::string& text) { return text.empty() ? Unknown() : Cell(text); };
  for (const auto& [id, count] : program.group_counts) {
    auto path = program.cgroups.find(id);
    if (path == program.cgroups.end()) {
      unnamed += count.samples;
      table.rows.push_back({Ratio(count.samples, samples), count.samples, count.branches, Unknown(), Unknown(), Unknown(), Unknown()});
      continue;
    }
    const ContainerInfo& info = resolver.ByPath(path->second);
    table.rows.push_back({Ratio(count.samples, samples), count.samples, count.branches, cell(info.Label()), cell(info.Pod()), cell(info.store.image), cell(path->second)});
  }
  if (unnamed) table.notes.push_back(std::to_string(unnamed) + " of " + std::to_string(samples) + " samples are of no group that the recording names: record with --all-cgroups (cgroup v2)");
  return table;
}

}  // namespace brink::report
