// Runs one machine instruction on the real CPU with every register set, and gives everything back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace brink::walk_test {

struct CpuState {
  uint64_t gpr[16] = {};
  uint64_t flags = 0;
  alignas(64) uint8_t zmm[32][64] = {};
  uint64_t k[8] = {};
};

// x86-64 with AVX-512 F, BW, VL; otherwise vector registers are left out.
bool HasAvx512();

class Native {
 public:
  Native();
  ~Native();
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;

  // Executes the instruction on `state`, in place. Nothing when it raised a signal. Only one object at a time; call it in
  // a child process, as the instruction may be anything.
  bool Run(std::span<const uint8_t> instruction, CpuState* state, bool vectors);

 private:
  uint8_t* code_ = nullptr;   // two pages: code, then data
  void* alt_stack_ = nullptr;
};

}  // namespace brink::walk_test
