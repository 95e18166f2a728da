// Mappings that nobody told of: the kernel's records of them are lost when a machine is too busy to take them. Read from
// /proc then, as long as the process is there.
#pragma once

#include <cstdint>

#include "symbol/address_space.h"

namespace brink::cfi {

// Executable mappings of now into `spaces`. False where the process that began at `start_ns` (since boot) is gone: what is
// in `spaces` is as it was.
bool ReadMappingsAgain(int32_t pid, uint64_t start_ns, symbol::AddressSpaces* spaces);

}  // namespace brink::cfi
