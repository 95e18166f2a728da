// From PATH:SYMBOL, PATH:0xADDRESS, PATH:FILE:LINE and usdt probes to file offsets, as uprobes want them.
//
// brink resolves by itself: versioned symbols (the default version wins, SYMBOL@VERSION asks for another), IFUNCs (the
// implementation that this machine picked), aliases, .cold parts, globs. Untrusted ELF input goes through src/elf.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "snap/trigger.h"

namespace brink::snap {

struct Place {
  uint64_t offset = 0;      // in the file
  uint64_t vaddr = 0;       // link-time
  std::string name;         // "strlen (__strlen_avx2)", "main+0x10", "file.c:12"
  uint64_t ref_ctr = 0;     // file offset of a usdt semaphore, 0 none
  std::string arguments;    // usdt: as in the note, "8@%rbx -4@-8(%rbp)"
  size_t mangled = 0;       // not 0: a uprobe here breaks the program (snap/steppable.h); the instruction's length
};

struct UserProgram {
  std::string path;         // to open and to attach to: absolute, in our mount namespace, or of `file` (/proc/self/fd/N)
  std::string shown;        // as the process sees it
  std::shared_ptr<UniqueFd> file;  // of another process's root: holds `path`; nullptr: ours
};

// `path` as written: absolute (below the root of `pid` where given), relative, or a bare name, which is looked for among
// the mappings of `pid`, in $PATH and in the library folders ("libc" -> libc.so.6). NOT_FOUND with the remedy.
StatusOr<UserProgram> FindProgram(const std::string& path, pid_t pid);

// Where the trigger's function, address, line or probe lies. At least one place. NOT_FOUND names the nearest symbols,
// or says that the function is inlined everywhere, or that the file is stripped.
StatusOr<std::vector<Place>> FindPlaces(const Trigger& trigger, const std::string& path);
// The same, and where another file of the process `pid` has the function the error says which: a program's may be its library's.
StatusOr<std::vector<Place>> FindPlaces(const Trigger& trigger, const UserProgram& program, pid_t pid);

// Names of a function's parameters, in order, from DWARF; the ones that travel in integer registers only have a
// register. Empty where there is no debug information. `entry`: the function's link-time address, for a name that DWARF does not know
// (an alias); 0 unknown.
struct UserParam {
  std::string name;
  int reg = -1;             // number of the argument register, -1: not in one
  uint8_t size = 8;
  bool is_signed = false;
  bool is_string = false;
};
std::vector<UserParam> FunctionParams(const std::string& path, const std::string& function, uint64_t entry);
// Size and sign of what it returns; nothing where that is not known or no scalar.
std::optional<UserParam> FunctionResult(const std::string& path, const std::string& function, uint64_t entry);

}  // namespace brink::snap
