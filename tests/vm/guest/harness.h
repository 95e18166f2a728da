// What the guest tests share: branch events, fed stacks, kernel names, code bytes. Everything here talks to the kernel
// directly and not through brink, so that it can judge brink.
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "guest_snap.h"

namespace brink::guest {

using Stack = std::vector<guest_branch>;  // newest first

inline bool InKernel(uint64_t address) { return static_cast<int64_t>(address) < 0; }
inline uint32_t Cycles(const guest_branch& branch) { return branch.info >> 4 & 0xffff; }
inline uint32_t Type(const guest_branch& branch) { return branch.info >> 20 & 15; }

// Whether the guest has the module's PMU; tests skip without it. `source` is what /dev/brink_lbr calls itself.
bool HasBranchHardware(const std::string& source);
// One of the numbers that /dev/brink_lbr shows: samples, snapshots, unexplained, fed; select, the plugin's LBR_SELECT of
// the calling CPU.
uint64_t DeviceCounter(const std::string& name);
// All that it shows.
std::string DeviceText();
// Replaces what the module delivers with source=canned.
void Feed(const std::vector<Stack>& stacks, uint64_t hw_idx = 0);

struct EventOptions {
  uint64_t branch_type = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL;
  uint64_t period = 0;  // 0: counting, as snapshots need it
  uint32_t type = PERF_TYPE_HARDWARE;
  uint64_t config = PERF_COUNT_HW_CPU_CYCLES;
  int cpu = 0;
  int pid = -1;
  bool frequency = false;
  bool exclude_kernel = false;
};
// A perf event with a branch stack; -errno where the kernel refuses.
int OpenEvent(const EventOptions& options);

struct Sample {
  uint64_t ip = 0;
  uint32_t tgid = 0;
  std::optional<uint64_t> hw_idx;
  Stack stack;
};

// A sampling event with its ring buffer.
class Sampler {
 public:
  explicit Sampler(const EventOptions& options);
  ~Sampler();
  int fd() const { return fd_.get(); }
  void Start();
  void Stop();
  std::vector<Sample> Read();

 private:
  UniqueFd fd_;
  uint64_t branch_type_;
  char* base_ = nullptr;
};

// Names of kernel addresses: "symbol" or "symbol [module]".
class KernelSymbols {
 public:
  KernelSymbols();
  std::string Name(uint64_t address) const;

 private:
  std::map<uint64_t, std::string> symbols_;
};

// Length of the instruction at `bytes` and whether execution can go on behind it; nothing if it is no instruction.
struct Instruction {
  size_t length = 0;
  bool falls_through = true;
  bool repeats = false;  // a string instruction with a rep prefix
};
std::optional<Instruction> Decode(std::span<const uint8_t> bytes);

// Bytes of code as the CPU sees them: of this process, or of the kernel through /proc/kcore.
class CodeReader {
 public:
  CodeReader();
  // The instruction at `address`, remembered; nothing where there is none to read.
  std::optional<Instruction> At(uint64_t address);
  // At most 15 bytes from `address` on; empty where there are none.
  std::vector<uint8_t> Read(uint64_t address) const;

 private:
  struct Segment { uint64_t start, size, offset; };
  std::unordered_map<uint64_t, std::optional<Instruction>> decoded_;
  std::vector<Segment> segments_;
  UniqueFd kcore_;
  UniqueFd memory_;
};

void PinTo(int cpu);
int OnlineCpus();

}  // namespace brink::guest
