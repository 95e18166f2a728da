// Everything that is read out of an ELF file: headers, symbols, unwind extents, PLT, lines and inlined functions.
#include <cstddef>
#include <cstdint>

#include "dwarf/info.h"
#include "elf/eh_frame.h"
#include "elf/symbols.h"
#include "symbol/function_table.h"

using namespace brink;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = elf::File::FromBytes(std::string(reinterpret_cast<const char*>(data), size));
  if (!file.ok()) return 0;
  (void)file->BuildId();
  (void)file->debug_link();
  (void)file->LoadBias(0x1000, 0);
  (void)elf::ReadFdeExtents(*file);
  symbol::FunctionTable table = symbol::FunctionTable::FromElf(*file, &*file);
  auto info = dwarf::Info::Load(*file);
  if (!info.ok()) return 0;
  size_t asked = 0;
  for (const symbol::FunctionEntry& entry : table.entries()) {
    (*info)->FramesAt(entry.start);
    (*info)->FramesAt(entry.end - 1);
    if (++asked == 64) break;
  }
  for (uint64_t address = 0x1000; address < 0x1400; address += 13) (*info)->FramesAt(address);
  return 0;
}
