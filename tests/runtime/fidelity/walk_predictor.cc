#include "walk_predictor.h"

#include <algorithm>

#include "walk/host_walker.h"

namespace brink::fidelity {

Predictor WalkPredictor(uint32_t depth) {
  struct State {
    uint64_t process = ~uint64_t{0};
    walk::HostWalker walker;
  };
  auto state = std::make_shared<State>();
  return [state, depth](uint64_t process, const ptrace::Regs& regs, decode::Memory& memory) {
    if (state->process != process) state->walker.ForgetCode();
    state->process = process;
    walk::Registers registers;
    std::copy(std::begin(regs.gpr), std::end(regs.gpr), std::begin(registers.gpr));
    registers.ip = regs.ip;
    registers.flags = regs.flags;
    registers.fs_base = regs.fs_base;
    registers.gs_base = regs.gs_base;
    walk::WalkOptions options;
    options.depth = depth;
    auto read = [&](uint64_t address, void* to, size_t size) { return memory.Read(address, to, size) == size; };
    walk::WalkResult walked = state->walker.Walk(registers, read, options);
    Prediction out;
    out.branches.assign(walked.branches.begin(), walked.branches.end());
    out.stop = walked.stop;
    out.end_ip = walked.end_ip;
    out.steps = walked.steps;
    return out;
  };
}

}  // namespace brink::fidelity
