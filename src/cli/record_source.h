// Which source of branch stacks a recording gets.
#pragma once

#include "cli/record_options.h"

namespace brink::cli {

// Fills request->source and request->spec.session.events. Errors say why a source cannot be had here.
Status ChooseSource(const RecordOptions& options, RecordRequest* request);

}  // namespace brink::cli
