// Finds the file behind a recorded path: renamed, deleted, in another mount namespace, stripped into two.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elf/file.h"
#include "symbol/function_table.h"
#include "symbol/object.h"

namespace brink::symbol {

struct LocateOptions {
  std::string symfs;                                    // looked up below this folder first, and then nowhere else
  std::vector<std::string> debug_dirs = {"/usr/lib/debug"};  // hold .build-id/xx/yyyy.debug and mirrored paths
  std::string buildid_cache;                            // perf's, "" = ~/.debug
  std::string proc = "/proc";                           // "" = do not look at live processes
  bool other_host = false;  // recorded elsewhere: without a build id to compare nothing of this host stands for it
};

struct LocatedFile {
  std::shared_ptr<elf::File> file;   // nullptr: `reason` says why
  std::shared_ptr<elf::File> debug;  // separate debug file, or nullptr
  std::string path;                  // where it was found
  std::string debug_path;
  bool verified = false;             // its build id was compared with the recorded one
  Unresolved reason = Unresolved::kNot;
  std::string detail;                // one line for people, "" if all is well
};

// For objects of kind kFile, kModule and kVdso. A file whose build id differs from the recorded one is never used.
LocatedFile Locate(const Object& object, const LocateOptions& options);

}  // namespace brink::symbol
