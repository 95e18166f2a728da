// What `brink brbe` prints with --json: one object a call, schemas in docs/schema/brbe.json.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/branch.h"
#include "brbe/diagnose.h"
#include "brbe/dump.h"
#include "brbe/program.h"
#include "brbe/registers.h"
#include "brbe/stream.h"

namespace brink::brbe {

// `name` as it was asked for: BRBINF7_EL1 rather than the layout's BRBINF_EL1.
std::string RegisterJson(std::string_view name, const Decoded& decoded);
// `all`: invalid records too.
std::string DumpJson(const Dump& dump, const RecordRules& rules, bool all);
std::string ProgramJson(const Program& program);
std::string DiagnoseJson(const Symptom& symptom, const Environment& environment);
// Records of the model, newest first. Unknown is null.
std::string ModelJson(std::span<const BranchEntry> records, const StreamCounters& counters);

}  // namespace brink::brbe
