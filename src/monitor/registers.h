// The registers of a check (brink_cfi.regs) on the machine that this is built for: the kernel's words in its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "brink/abi/cfi.h"

namespace brink::cfi {

struct ToldRegister {
  const char* name;
  size_t at;
};

#if defined(__aarch64__)

inline constexpr const char* kRegisters[] = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15", "x16",
                                             "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc",  "pstate"};
inline constexpr size_t kSpRegister = 31, kIpRegister = 32, kLinkRegister = 30;
// What an alarm tells.
inline constexpr ToldRegister kToldRegisters[] = {{"ip", kIpRegister}, {"sp", kSpRegister}, {"x0", 0}, {"x1", 1}, {"x2", 2}, {"x8", 8}, {"x29", 29}, {"x30", 30}};

// Whether a return has brought the thread to `ip`, which is no code: then the link register still says so, with the signature
// that pointer authentication may have left in its upper bits.
inline bool ReturnedTo(const brink_cfi& context, uint64_t ip) {
  constexpr uint64_t kAddress = (uint64_t{1} << 48) - 1;
  return ((context.regs[kLinkRegister] ^ ip) & kAddress) == 0;
}

#else

inline constexpr const char* kRegisters[] = {"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss"};
inline constexpr size_t kSpRegister = 19, kIpRegister = 16;
// What an alarm tells.
inline constexpr ToldRegister kToldRegisters[] = {{"ip", kIpRegister}, {"sp", kSpRegister}, {"ax", 10}, {"di", 14}, {"si", 13}, {"dx", 12}};

// Whether a return has brought the thread to `ip`, which is no code: then it has left its word below the stack pointer.
inline bool ReturnedTo(const brink_cfi& context, uint64_t ip) { return context.stack_words && context.stack[0] == ip; }

#endif

static_assert(std::size(kRegisters) == BRINK_CFI_REGS);

}  // namespace brink::cfi
