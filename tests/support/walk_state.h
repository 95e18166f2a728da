// Random states for the walker's core: partly unknown registers, flags, vectors; memory that a little code can live on.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "brink/abi/walk_state.h"

namespace brink::walk_test {

// Memory that walks see: below 2 GiB, so that 32-bit immediates and addresses reach it.
inline constexpr uint64_t kCodeBase = 0x10000000, kDataBase = 0x10100000;
inline constexpr size_t kCodePages = 2, kDataPages = 6;
inline constexpr uint32_t kArithmeticFlags = 0x8d5, kDirectionFlag = 0x400;

class StateMaker {
 public:
  explicit StateMaker(uint64_t seed) : random_(seed) {}

  void Data(std::span<uint8_t> data);
  brink_walk_config Config();
  // Registers, flags, vectors and ranges of a state that is begun; `known`: no bit of them is unknown.
  void State(brink_walk* state, bool known);

  uint64_t Random() { return random_(); }
  bool OneIn(uint64_t n) { return Random() % n == 0; }
  uint64_t DataPointer() { return kDataBase + Random() % (kDataPages * 4096); }
  uint64_t CodePointer() { return kCodeBase + Random() % (kCodePages * 4096); }
  // A pointer into data more often than not.
  uint64_t Value();

 private:
  std::mt19937_64 random_;
};

// What a walk believes to be at `address`: nothing where it does not hold the line.
struct WalkByte {
  bool held = false, known = false, dirty = false;
  uint8_t value = 0;
};
WalkByte ByteOf(const brink_walk& state, uint64_t address);

}  // namespace brink::walk_test
