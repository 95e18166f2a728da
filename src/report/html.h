// `brink report --html`: one page that needs nothing but itself: no network, no other files.
#pragma once

#include <string>

#include "report/program.h"
#include "report/source.h"

namespace brink::report {

struct HtmlOptions {
  size_t functions = 40;   // with source, assembly and branch map, hottest first
  size_t rows = 400;       // of each table
};

// Untrusted names and source text are data in it, never markup.
std::string RenderHtml(Program* program, SourceFiles* sources, const HtmlOptions& options);

}  // namespace brink::report
