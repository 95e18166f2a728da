#include <cstddef>
#include <cstdint>

#include "symbol/jit_source.h"

using namespace brink;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  symbol::JitCodes codes;
  codes.dump_bytes.assign(reinterpret_cast<const char*>(data), size);
  auto dump = symbol::ParseJitDump(codes.dump_bytes);
  if (!dump.ok()) return 0;
  codes.dump = *std::move(dump);
  codes.Place({});
  for (const symbol::JitCode& code : codes.dump.codes) {
    (void)codes.CodeAt(code.address, 64);
    (void)codes.CodeAt(code.address + code.size - 1, ~uint64_t{0});
    (void)codes.LineAt(code.address);
  }
  return 0;
}
