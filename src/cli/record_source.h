// Which source of branch stacks a recording gets.
#pragma once

#include "cli/record_options.h"

namespace brink::cli {

// The events of -e, cpu-clock by default, into `events`.
Status ParseEvents(const RecordOptions& options, std::vector<EventSpec>* events);
// Chooses and makes request->source; the rate and events are filled in already and may be changed (hardware has its own
// ideas). Errors say why a source cannot be had here.
Status ChooseSource(const RecordOptions& options, RecordRequest* request);

}  // namespace brink::cli
