// Any text: parse, simplify, print, parse again, compile and evaluate; all must agree and none may run away.
#include <cstdlib>
#include <string>
#include <string_view>

#include "filter/compile.h"
#include "filter/parser.h"
#include "filter/sample_filter.h"
#include "lib/filter.h"

using namespace brink::filter;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ParseOptions options;
  options.external = [](std::string_view name) -> brink::StatusOr<ExternalField> { return ExternalField{static_cast<uint8_t>(name.size() % 16), name.size() % 2 == 0}; };
  auto expr = Parse(std::string_view(reinterpret_cast<const char*>(data), size), options);
  if (!expr.ok()) {
    CaretLines(std::string_view(reinterpret_cast<const char*>(data), size), ErrorColumn(expr.status()));
    return 0;
  }
  Expr simple = Simplify(*expr);
  auto again = Parse(ToString(simple), options);
  if (!again.ok()) std::abort();
  Satisfiable(simple);
  brink::BranchEntry entry{};
  entry.from = 0x401000;
  entry.to = size % 2 ? 0xffffffff81000000 : 0;
  entry.info = size * 0x9e3779b97f4a7c15;
  SampleView sample{.pid = 1, .cpu = 0, .time_ns = 5, .comm = "bash"};
  Truth want = Evaluate(*expr, sample, &entry, nullptr);
  if (Evaluate(simple, sample, &entry, nullptr) != want || Evaluate(*again, sample, &entry, nullptr) != want) std::abort();
  SampleFilter filter(*expr);
  bool kept = filter.KeepSample(sample) && filter.FilterRecords(sample, std::span(&entry, 1)) == 1;
  // A record predicate that is unknown for the whole sample may be decided by a record; the other way round never.
  if (kept && want != Truth::kTrue) std::abort();
  if (!kept && want == Truth::kTrue) std::abort();
  return 0;
}
