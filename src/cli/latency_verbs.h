// brink latency's verbs: watch, busy, report.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "latency/outputs.h"

namespace brink::cli {

// `words` begin with the verb. The result is the exit status.
StatusOr<int> RunLatencyReport(const std::vector<std::string>& words);
StatusOr<int> RunLatencyWatch(const std::vector<std::string>& words, const std::string& command_line);
StatusOr<int> RunLatencyBusy(const std::vector<std::string>& words, const std::string& command_line);

}  // namespace brink::cli
