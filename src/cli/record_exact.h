// The sources hop and step for `brink record`.
#pragma once

#include "cli/record_options.h"

namespace brink::cli {

// Fills request->source. Refuses, with the reason, what these sources cannot do.
Status UseExact(const RecordOptions& options, bool hop, RecordRequest* request);

}  // namespace brink::cli
