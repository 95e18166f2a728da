// One captured hit, decoded and named: what the printers print.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/branch.h"
#include "brink/abi/snap.h"
#include "container/resolver.h"
#include "perfdata/records.h"
#include "pipeline/consumer.h"
#include "snap/snap_source.h"
#include "symbol/address_space.h"
#include "symbol/symbolizer.h"

namespace brink::snap {

// The context behind a sample's entries and chain; nothing where the record has none or it is malformed.
struct SnapView {
  brink_snap context;
  std::vector<brink_snap_event> cpu_history, task_history;  // oldest first
};
std::optional<SnapView> ViewSnap(const SampleView& sample);

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

struct NamedBranch {
  NamedAddress from, to;
  Kind kind = Kind::kUnknown;
  Prediction prediction = Prediction::kUnknown;
  uint32_t cycles = 0;  // 0 unknown
};

struct Capture {
  const ShownTrigger* trigger = nullptr;
  brink_sample head = {};
  brink_snap context = {};
  std::string comm;
  ContainerInfo container;
  NamedAddress place;
  std::vector<NamedBranch> branches;   // newest first
  std::vector<NamedAddress> kernel_chain, user_chain;  // leaf first
  std::vector<brink_snap_event> cpu_history, task_history;
  std::string no_branches;             // why there are none
};

// Keeps the address spaces of the processes that it is told of, and names what is captured. Writer thread only.
class CaptureNamer {
 public:
  CaptureNamer(const SnapSource& source, std::string runtime_root);
  void Observe(const PerfRecordView& record);
  Capture Name(const SampleView& sample, const SnapView& view, bool lines);

 private:
  void KeepPrivateFile(const perfdata::Mmap& mmap);
  void CutBrokenChain(int32_t pid, std::vector<NamedAddress>* chain) const;
  bool FollowsCall(int32_t pid, uint64_t address);
  void AddGuesses(int32_t pid, const brink_snap& context, bool lines, std::vector<NamedAddress>* chain);
  NamedAddress NameOf(int32_t pid, uint64_t address, bool lines, bool call_site);

  const SnapSource& source_;
  symbol::ObjectTable objects_;
  symbol::AddressSpaces spaces_;
  symbol::Symbolizer symbolizer_;
  ContainerResolver containers_;
};

// "SEGV_MAPERR" and the like of a signal and its si_code; the number as text for unknown ones.
std::string SignalCodeName(int signal, int code);

// Names of the registers in `regs`, by index; nullptr for cells that are none.
std::span<const char* const> RegisterNames();

}  // namespace brink::snap
