#include "ptrace/window.h"

#include <algorithm>
#include <ctime>

#include <linux/perf_event.h>

namespace brink::ptrace {
namespace {

uint64_t NowNs() {
  struct timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <typename T>
std::span<const uint8_t> Bytes(const T* data, size_t count) {
  return {reinterpret_cast<const uint8_t*>(data), count * sizeof(T)};
}

}  // namespace

void Window::Clear() {
  stops = 0;
  filtered = false;
  chain.clear();
  branches.clear();
}

std::vector<uint64_t> FrameChain(const decode::CpuRegs& regs, decode::Memory& memory) {
  std::vector<uint64_t> chain = {static_cast<uint64_t>(PERF_CONTEXT_USER), regs.ip};
  uint64_t frame = regs.fp();
  uint64_t above = regs.sp();
  while (chain.size() < BRINK_MAX_CHAIN && frame >= above && frame % 8 == 0) {
    uint64_t saved[2];  // caller's frame pointer, return address
    if (memory.Read(frame, saved, sizeof saved) != sizeof saved || saved[1] == 0) break;
    chain.push_back(saved[1]);
    above = frame + sizeof saved;
    frame = saved[0];
  }
  return chain;
}

void Recorder::Begin(pid_t tid, const Regs& regs, uint32_t cpu, Window* window) {
  window->Clear();
  window->time_ns = NowNs();
  window->ip = regs.ip;
  window->sp = regs.sp();
  window->cpu = cpu;
  if (config_.call_chain) {
    ProcessMemory memory(tid);
    window->chain = FrameChain(regs, memory);
  }
  Count(kWindows);
}

void Recorder::Add(Window* window, uint64_t from, uint64_t to, Kind kind) {
  if (!(config_.kinds >> static_cast<int>(kind) & 1)) {
    window->filtered = true;
    return;
  }
  window->branches.push_back({from, to, MakeInfo(kind, Priv::kUser)});
}

void Recorder::Emit(pid_t tgid, pid_t tid, brink_stop stop, uint64_t end_ip, Window* window) {
  brink_sample sample = {};
  size_t entries = std::min<size_t>(window->branches.size(), BRINK_MAX_WALK_BRANCHES);
  std::reverse(window->branches.begin(), window->branches.end());
  auto branches = Bytes(window->branches.data() + (window->branches.size() - entries), entries);
  auto chain = Bytes(window->chain.data(), window->chain.size());
  size_t size = sizeof sample + branches.size() + chain.size();
  sample.header = {BRINK_REC_SAMPLE, BRINK_ABI_VERSION, static_cast<uint32_t>(size)};
  sample.time_ns = window->time_ns;
  sample.ip = window->ip;
  sample.end_ip = end_ip;
  sample.period = config_.whole_run ? 0 : config_.period_ns;
  sample.tgid = static_cast<uint32_t>(tgid);
  sample.tid = static_cast<uint32_t>(tid);
  sample.cpu = window->cpu;
  sample.direction = BRINK_DIR_FUTURE;
  sample.stop = static_cast<uint8_t>(stop);
  sample.source = config_.hop ? BRINK_SOURCE_HOP : BRINK_SOURCE_STEP;
  sample.flags = window->filtered ? BRINK_SAMPLE_FILTERED : 0;
  sample.nr = static_cast<uint16_t>(entries);
  sample.chain_nr = static_cast<uint16_t>(window->chain.size());
  const std::span<const uint8_t> pieces[] = {Bytes(&sample, 1), branches, chain};
  Count(static_cast<Counter>(static_cast<uint32_t>(kStopReason) + static_cast<uint32_t>(stop)));
  bool written = ring_->Write(pieces);
  while (!written && wait_ && wait_()) written = ring_->Write(pieces);
  if (written) {
    Count(kBranches, entries);
  } else {
    Count(kLostSamples);
    Count(kLostBytes, size);
  }
  window->Clear();
}

}  // namespace brink::ptrace
