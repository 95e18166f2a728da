// .debug_info as far as symbolising needs it: units, their ranges, and the functions inlined into an address.
//
// Untrusted input: every offset is checked, references are followed at most kMaxChain times, nesting at most kMaxDepth
// deep. Units are decoded on first use and kept. Not read: split DWARF (.dwo), type units, dwz's alternate files (a
// name in there is "" and the symbol table's name is used). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "dwarf/lines.h"
#include "elf/file.h"

namespace brink::dwarf {

inline constexpr int kMaxChain = 8;
inline constexpr int kMaxDepth = 256;

// One level of the source position of an address.
struct Frame {
  std::string function;  // linkage name where there is one (mangled), else the plain name; "" unknown
  std::string file;
  uint32_t line = 0;     // 0 = unknown
  uint32_t column = 0;
  bool inlined = false;  // this function's body was put into the next frame's function
};

class Info {
 public:
  // Takes the .debug_* sections it needs out of `file`. NOT_FOUND where there is no .debug_info.
  static StatusOr<std::unique_ptr<Info>> Load(const elf::File& file);
  ~Info();

  // Innermost first; the last one is the function that has machine code of its own. Empty: no unit covers the address.
  std::vector<Frame> FramesAt(uint64_t address);
  // Line only, cheaper: function is empty.
  std::optional<Frame> LineAt(uint64_t address);

 private:
  Info();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brink::dwarf
