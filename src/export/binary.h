// The program that an optimiser's profile is about: which objects of a recording are this file, and what the file's
// link-time addresses are.
//
// Build ids decide. Names decide only where one side has no build id. Addresses go through the program headers of the
// file, so position-independent programs, several processes and shared file pages need no further care; the kernel
// goes by its reference symbol (_text or _stext), so KASLR is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "elf/file.h"
#include "report/program.h"
#include "symbol/function_table.h"

namespace brink::exporter {

using symbol::Location;

class Binary {
 public:
  // `wanted`: path of an ELF file here, or a build id (hexadecimal, 6 digits or more), or the name of a recorded file;
  // "" takes the recorded file with most branches. NOT_FOUND says what was recorded instead.
  static StatusOr<Binary> Choose(report::Program& program, const std::string& wanted);

  // Of a location in this binary; nothing for any other.
  std::optional<uint64_t> Vaddr(const Location& location) const;
  bool Holds(symbol::ObjectId object) const { return object < held_.size() && held_[object]; }
  // Index of the function that holds the address, -1 where none is known.
  int64_t FunctionOf(uint64_t vaddr) const { return functions_.IndexOf(vaddr); }

  const elf::File& file() const { return *file_; }
  const std::string& path() const { return path_; }
  const std::string& build_id() const { return build_id_; }  // raw, "" none
  bool kernel() const { return kernel_; }
  bool verified() const { return verified_; }  // by build id
  uint64_t branches() const { return branches_; }  // recorded ones with an end in it

 private:
  Status Match(const report::Program& program);
  Status MatchKernel(const symbol::Object& object);

  std::shared_ptr<elf::File> file_;
  std::string path_, build_id_;
  symbol::FunctionTable functions_;
  std::vector<uint8_t> held_;  // by ObjectId
  bool kernel_ = false, verified_ = false;
  uint64_t kernel_reference_ = 0;
  uint64_t branches_ = 0;
};

}  // namespace brink::exporter
