// Names of addresses in processes that may be gone by then: the mappings that were told, and the files behind them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "perfdata/records.h"
#include "pipeline/consumer.h"
#include "symbol/address_space.h"
#include "symbol/symbolizer.h"

namespace brink::snap {

// An address with its name.
struct NamedAddress {
  uint64_t address = 0;
  std::string symbol;   // "do_sys_openat2"; "" unknown
  uint64_t offset = 0;  // into it
  std::string object;   // "[kernel]", "libc.so.6"
  std::string line;     // "open.c:41"; "" unknown
  std::vector<std::string> inlined;  // functions inlined here, innermost first
  bool kernel = false;
  bool guessed = false; // not from frame pointers: a return address found on the stack
};

// One thread at a time.
class AddressNamer {
 public:
  AddressNamer() : spaces_(&objects_), symbolizer_(&objects_, {}) {}
  AddressNamer(const AddressNamer&) = delete;
  AddressNamer& operator=(const AddressNamer&) = delete;

  // A side-band record, in the order of time. `on_cgroup` is called with those of groups, which name no address.
  void Observe(const PerfRecordView& record, const std::function<void(const perfdata::Cgroup&)>& on_cgroup = {});
  // `call_site`: the address is a return address, and the call before it is meant.
  NamedAddress NameOf(int32_t pid, uint64_t address, bool lines, bool call_site);
  // Nullptr where nothing is mapped.
  const symbol::Mapping* MappingAt(int32_t pid, uint64_t address) const { return spaces_.Find(pid, address); }
  // Whether any of the process's mappings was told.
  bool Knows(int32_t pid) const { return spaces_.KnowsProcess(pid); }
  // Whether the bytes before a return address are a call: E8 of five bytes, or FF /2 of two to seven.
  bool FollowsCall(int32_t pid, uint64_t address);

 private:
  void KeepPrivateFile(const perfdata::Mmap& mmap);

  symbol::ObjectTable objects_;
  symbol::AddressSpaces spaces_;
  symbol::Symbolizer symbolizer_;
};

}  // namespace brink::snap
