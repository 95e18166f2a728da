// The last words of `brink record`: for people and as JSON.
#pragma once

#include <string>

#include "session/recorder.h"

namespace brink {

struct ReportOptions {
  bool pipe = false;       // the recording went to standard output
  bool aggregate = false;  // counts only: no reader but brink knows the file
  size_t most_threads = 8; // lines of the table of threads
};

// Several lines for standard error; losses are named by cause, and always said when there are any.
std::string ReportText(const RecordResult& result, const ReportOptions& options);
// One JSON object, schema "brink.record/1".
std::string ReportJson(const RecordResult& result);

}  // namespace brink
