// Which system calls are check points: the named sets, and single calls added to or taken from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "brink/abi/cfi.h"

namespace brink::cfi {

enum class CallSet { kNone, kSensitive, kAll };
StatusOr<CallSet> ParseCallSet(std::string_view text);

// What an entry is judged by: the way ahead, or the branches that led there.
enum class Entries { kWalked, kRecorded };

// `changes`: NAME adds a call (at its entry), NAME:exit at its exit, NAME:both at both, -NAME takes it away. Fills
// config->call. Calls that write memory are checked at their ends too: all where entries are walked, else the sensitive ones. INVALID_ARGUMENT names
// what is no system call.
Status ChooseCalls(CallSet set, const std::vector<std::string>& changes, Entries entries, brink_cfi_config* config);

// Whether the call writes user memory: what a walk ahead from its entry has read there may not stay.
bool WritesMemory(uint32_t nr);
// Whether a call is of the set `sensitive`.
bool IsSensitive(uint32_t nr);

// Names of a set, for --help and docs.
std::vector<std::string> CallNames(CallSet set);

}  // namespace brink::cfi
