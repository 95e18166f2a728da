#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "symbol/demangle.h"
#include "symbol/kallsyms.h"
#include "symbol/perf_map.h"

using namespace brink;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  symbol::PerfMap map = symbol::ParsePerfMap(text);
  for (size_t i = 1; i < map.symbols.size(); ++i) {
    if (map.symbols[i - 1].start + map.symbols[i - 1].size > map.symbols[i].start) std::abort();  // overlap
  }
  (void)symbol::ParseKallsyms(text);
  if (symbol::Demangle(text.substr(0, text.find('\n'))).size() > symbol::kMaxDemangled + size + 16) std::abort();
  (void)symbol::ShortenName(text);
  return 0;
}
