// What the words of A64 code say about control flow, for Facts. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace brink::cfi {

// Whether an indirect call may land on this word in code that is marked for branch target identification: bti c, bti jc,
// and the two that sign a return address.
bool IsCallPadA64(uint32_t word);

// __kernel_rt_sigreturn of the vDSO, and every C library's own: mov x8, #139; svc #0.
std::span<const uint8_t> SignalRestorerA64();

// Whether these two words begin what lies before the slots of a procedure linkage table, kPltHeadA64 bytes long:
// stp x16, x30, [sp, #-16]!, behind a bti c where the file has them.
bool BeginsPltA64(std::span<const uint8_t> code);
inline constexpr uint64_t kPltHeadA64 = 32;

// The addresses that code at `vaddr` forms: adr, and adrp with the additions to its register behind it. Registers are
// followed in the order of the text, so what a jump brings from elsewhere is missed.
void FormedAddressesA64(std::span<const uint8_t> code, uint64_t vaddr, const std::function<void(uint64_t)>& take);

}  // namespace brink::cfi
