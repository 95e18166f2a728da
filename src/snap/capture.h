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
#include "pipeline/consumer.h"
#include "snap/namer.h"
#include "snap/snap_source.h"

namespace brink::snap {

// The context behind a sample's entries and chain; nothing where the record has none or it is malformed.
struct SnapView {
  brink_snap context;
  std::vector<brink_snap_event> cpu_history, task_history;  // oldest first
  std::vector<BranchEntry> left;                            // from when the thread left the CPU last, newest first
};
std::optional<SnapView> ViewSnap(const SampleView& sample);

struct NamedBranch {
  NamedAddress from, to;
  Kind kind = Kind::kUnknown;
  Prediction prediction = Prediction::kUnknown;
  uint32_t cycles = 0;  // 0 unknown
  bool foreign = false; // another process's: it ran on this CPU meanwhile (snap/foreign.h)
};

struct Capture {
  const ShownTrigger* trigger = nullptr;
  brink_sample head = {};
  brink_snap context = {};
  std::string comm;
  ContainerInfo container;
  NamedAddress place;
  std::vector<NamedBranch> branches;   // newest first
  std::optional<size_t> left_at;       // from this branch on they were taken when the thread left the CPU last
  bool future = false;                 // they follow the event (walked); else they led to it
  std::string stop;                    // of the future: why it ends there
  std::vector<NamedAddress> kernel_chain, user_chain;  // leaf first
  std::vector<brink_snap_event> cpu_history, task_history;
  std::string no_branches;             // why there are none
};

// Whether the walker sent it, for the capture of the same thread, time and trigger.
bool IsFollowUp(const brink_sample& head);
bool Follows(const brink_sample& head, const brink_sample& capture);

// Keeps the address spaces of the processes that it is told of, and names what is captured. Writer thread only.
class CaptureNamer {
 public:
  CaptureNamer(SnapSource& source, std::string runtime_root);
  void Observe(const PerfRecordView& record);
  Capture Name(const SampleView& sample, const SnapView& view, bool lines);
  // Where the group is in its hierarchy; "" unknown.
  std::string GroupPath(uint64_t id);
  // What follows, from the sample that the walker sent for this capture; nullptr: it sent none.
  void AddFollowUp(const SampleView* follow, bool lines, Capture* capture);

 private:
  void NameBranches(int32_t pid, std::span<const BranchEntry> entries, bool lines, std::vector<NamedBranch>* branches);
  void NameOwnBranches(const SampleView& sample, const SnapView& view, bool lines, Capture* capture);
  void LearnGroups();
  void CutBrokenChain(int32_t pid, std::vector<NamedAddress>* chain) const;
  void AddCaller(int32_t pid, const Capture& capture, bool lines, std::vector<NamedAddress>* chain);
  void AddGuesses(int32_t pid, const brink_snap& context, bool lines, std::vector<NamedAddress>* chain);

  SnapSource& source_;
  AddressNamer names_;
  ContainerResolver containers_;
};

// "SEGV_MAPERR" and the like of a signal and its si_code; the number as text for unknown ones.
std::string SignalCodeName(int signal, int code);

// Names of the registers in `regs`, by index; nullptr for cells that are none.
std::span<const char* const> RegisterNames();

}  // namespace brink::snap
