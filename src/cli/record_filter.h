// -j, -b, --where and --brbe-model of `brink record`.
#pragma once

#include "cli/record_options.h"

namespace brink::cli {

// Fills spec.filter. Contradictions, unknown names and what is not known while recording are INVALID_ARGUMENT.
Status FillFilter(const RecordOptions& options, RecordSpec* spec);

// branch_sample_type for a hardware event: what -j says, or what the expressions need.
StatusOr<uint64_t> HardwareBranchBits(const RecordOptions& options);

}  // namespace brink::cli
