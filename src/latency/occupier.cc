#include "latency/occupier.h"

#include <algorithm>
#include <cstring>

#include "base/stop.h"
#include "kernel/proc_maps.h"
#include "source/process_memory.h"
#include "walk/host_walker.h"

namespace brink::latency {
namespace {

// Mappings of a process that nobody writes: code, and what linkers put beside it.
class Constants {
 public:
  explicit Constants(uint32_t tgid) : memory_("/proc", tgid) {
    auto maps = ReadMaps(static_cast<pid_t>(tgid));
    if (!maps.ok()) return;
    for (const Mapping& map : *maps) {
      if (map.readable && !map.writable && map.path.starts_with('/')) areas_.push_back({map.start, map.end});
    }
  }
  bool ok() const { return memory_.ok(); }

  bool Read(uint64_t address, void* to, size_t size) const {
    bool constant = std::any_of(areas_.begin(), areas_.end(), [&](const auto& area) { return address >= area.first && size <= area.second - area.first && address <= area.second - size; });
    return constant && memory_.Read(address, to, size);
  }

 private:
  ProcessMemory memory_;
  std::vector<std::pair<uint64_t, uint64_t>> areas_;
};

bool FromStack(const brink_lat_regs& registers, uint64_t address, void* to, size_t size) {
  uint64_t bytes = std::min<uint64_t>(registers.stack_bytes, BRINK_LAT_USER_STACK);
  if (address < registers.stack_base || size > bytes || address - registers.stack_base > bytes - size) return false;
  std::memcpy(to, registers.stack + (address - registers.stack_base), size);
  return true;
}

}  // namespace

OccupierWalker::OccupierWalker() = default;
OccupierWalker::~OccupierWalker() = default;

OccupierWalk OccupierWalker::Walk(const brink_lat_regs& registers, const ReadConstant& constant) {
  if (!walker_) walker_ = std::make_unique<walk::HostWalker>();
  if (registers.tgid != last_tgid_) walker_->ForgetCode();
  last_tgid_ = registers.tgid;
  walk::Registers state;
  std::copy(std::begin(registers.reg), std::end(registers.reg), state.gpr);
  state.ip = registers.ip;
  state.flags = registers.flags;
  auto read = [&](uint64_t address, void* to, size_t size) { return FromStack(registers, address, to, size) || constant(address, to, size); };
  walk::WalkResult result = walker_->Walk(state, read, {.depth = kOccupierDepth});
  return {std::move(result.branches), std::string(StopReasonText(result.stop))};
}

OccupierWalk OccupierWalker::Walk(const brink_lat_regs& registers) {
  Constants constants(registers.tgid);
  if (!constants.ok()) return {{}, "the process is gone, or its memory is not ours to read"};
  return Walk(registers, [&](uint64_t address, void* to, size_t size) { return constants.Read(address, to, size); });
}

}  // namespace brink::latency
