// One process at a time as the policies see it: its mappings, and the facts of the files behind them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cfi/policies.h"
#include "symbol/address_space.h"
#include "symbol/locate.h"

namespace brink::cfi {

// One side of a violation, for people and programs.
struct EventSide {
  uint64_t address = 0;
  std::string module;    // path; "" none
  std::string build_id;  // raw
  uint64_t offset = 0;   // in the file's addresses
  std::string symbol;    // "main+0x1c"; "" unknown
  std::string bytes;     // up to 8 of the code there
};

struct ProcessMapOptions {
  symbol::LocateOptions locate;
  FactLimits facts;
  size_t max_files = 512;  // whose facts are kept at once
};

// Facts are loaded at first sight. Not thread-safe.
class ProcessMap : public CodeMap {
 public:
  explicit ProcessMap(const ProcessMapOptions& options);

  // Of whom At and Describe speak. `jit`: anonymous code is a JIT's; nothing: it is not known which program this is. `lost`:
  // mappings may be missing.
  void Enter(int32_t pid, std::optional<bool> jit, bool lost);
  // Memory that the system call at hand is about to make code.
  void MakesCode(uint64_t start, uint64_t size) { made_code_ = true, made_start_ = start, made_size_ = size; }
  Place At(uint64_t address) override;
  EventSide Describe(uint64_t address);

  ProcessMapOptions& options() { return options_; }
  symbol::ObjectTable& objects() { return objects_; }
  symbol::AddressSpaces& spaces() { return spaces_; }
  uint64_t loaded() const { return loaded_; }
  // Files without facts, with how many addresses asked for them.
  const std::map<std::string, uint64_t>& missing() const { return missing_; }

 private:
  struct Entry {
    std::unique_ptr<Facts> facts;  // null: not at hand
    bool loader = false;
  };
  Entry& FileOf(symbol::ObjectId id);
  Entry Load(const symbol::Object& object, bool vdso);
  Place InVdso(const symbol::Mapping& mapping, uint64_t address);

  ProcessMapOptions options_;
  symbol::ObjectTable objects_;
  symbol::AddressSpaces spaces_;
  std::map<symbol::ObjectId, Entry> files_;
  std::map<std::string, uint64_t> missing_;
  uint64_t loaded_ = 0;
  int32_t pid_ = 0;
  MemoryKind Anonymous() const { return !jit_ ? MemoryKind::kUnknown : *jit_ ? MemoryKind::kJit : MemoryKind::kAnonymous; }

  std::optional<bool> jit_ = false;
  bool lost_ = false, made_code_ = false;
  uint64_t made_start_ = 0, made_size_ = 0;
};

}  // namespace brink::cfi
