// A19: the return slot says that another function is the caller, and the unwinder lands in that one's handler.
#include <cstdint>

extern "C" {
#include "attack.h"
void a19();
void a19_warm();
}

enum Mode { kHonest, kRemember, kAttack };
static volatile uint64_t other_site;
static volatile bool corrupted;

__attribute__((noinline)) static void thrower(Mode mode) {
  if (mode == kRemember) other_site = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  if (mode == kAttack) {
    corrupted = true;
    *reinterpret_cast<volatile uint64_t*>(static_cast<char*>(__builtin_frame_address(0)) + 8) = other_site;
  }
  throw 1;
}

// Two functions of one shape: the unwinder finds its way in the frame of either.
__attribute__((noinline)) static void other(Mode mode) {
  try {
    thrower(mode);
  } catch (int) {
    if (corrupted) win();
  }
}

__attribute__((noinline)) static void honest(Mode mode) {
  try {
    thrower(mode);
  } catch (int) {
    if (corrupted) __builtin_trap();
  }
}

void a19_warm() {
  honest(kHonest);
  other(kRemember);
}

void a19() {
  ready();
  honest(kAttack);
}
