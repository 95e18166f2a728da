// What is said about a recording before any table.
#pragma once

#include <string>

#include "report/program.h"
#include "report/quality.h"

namespace brink::report {

// Lines for people, each beginning with "# ".
std::string SummaryText(const Program& program);
// One JSON line, schema brink.report.summary.v1.
std::string SummaryJson(const Program& program);

std::string QualityText(const Quality& quality);
// One JSON line, schema brink.report.verdict.v1.
std::string QualityJson(const Quality& quality);

}  // namespace brink::report
