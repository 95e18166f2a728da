#include "walk_predictor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"
#include "walk/host_walker.h"

namespace brink::fidelity {
namespace {

// What the kernel writes behind the program's back: nothing there may be taken as known.
std::vector<brink_walk_range> KernelWritten(pid_t pid) {
  std::vector<brink_walk_range> ranges;
  auto maps = ReadFile("/proc/" + std::to_string(pid) + "/maps");
  if (!maps.ok()) return ranges;
  for (std::string_view line : Split(*maps, '\n')) {
    if (line.find("[vvar") == std::string_view::npos) continue;
    brink_walk_range range = {};
    unsigned long start = 0, end = 0;
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx", &start, &end) != 2) continue;
    range.start = start;
    range.end = end;
    range.kind = BRINK_RANGE_UNKNOWN;
    ranges.push_back(range);
  }
  return ranges;
}

#ifdef __aarch64__
walk::A64Registers RegistersOf(const ptrace::Regs& regs) {
  walk::A64Registers out{.sp = regs.sp(), .ip = regs.ip, .pstate = regs.flags, .tpidr = regs.tpidr};
  std::copy(std::begin(regs.gpr), std::end(regs.gpr), std::begin(out.x));
  return out;
}
#else
walk::Registers RegistersOf(const ptrace::Regs& regs) {
  walk::Registers out;
  std::copy(std::begin(regs.gpr), std::end(regs.gpr), std::begin(out.gpr));
  out.ip = regs.ip;
  out.flags = regs.flags;
  out.fs_base = regs.fs_base;
  out.gs_base = regs.gs_base;
  return out;
}
#endif

}  // namespace

Predictor WalkPredictor(uint32_t depth) {
  struct State {
    uint64_t process = ~uint64_t{0};
    walk::HostWalker walker;
    std::vector<brink_walk_range> ranges;
  };
  auto state = std::make_shared<State>();
  return [state, depth](uint64_t process, const ptrace::Regs& regs, decode::Memory& memory) {
    if (state->process != process) {
      state->walker.ForgetCode();
      state->ranges = KernelWritten(static_cast<pid_t>(process & 0xffffffff));
    }
    state->process = process;
    walk::WalkOptions options;
    options.depth = depth;
    options.ranges = state->ranges;
    auto log = std::make_shared<MemoryLog>();
    auto read = [&](uint64_t address, void* to, size_t size) {
      if (memory.Read(address, to, size) != size) return false;
      if (size == 64) {
        auto [line, fresh] = log->try_emplace(address);
        if (fresh) std::memcpy(line->second.data(), to, size);
      }
      return true;
    };
    walk::WalkResult walked = state->walker.Walk(RegistersOf(regs), read, options);
    Prediction out;
    out.branches.assign(walked.branches.begin(), walked.branches.end());
    out.stop = walked.stop;
    out.end_ip = walked.end_ip;
    out.steps = walked.steps;
    out.memory = log;
    return out;
  };
}

}  // namespace brink::fidelity
