// Instructions that the kernel's uprobes get wrong.
//
// A uprobe replaces an instruction and runs or emulates it elsewhere. The kernel tells what to emulate by the opcode byte
// alone, which in VEX and EVEX code means other things: `vpbroadcastb %esi,%ymm16` (EVEX, 7a) is taken for the jump `jp`
// and skipped, `vpor` (eb) for `jmp`. The probed program goes on with wrong registers (measured on 6.18: a probe on
// glibc's memset, which begins so on CPUs with AVX-512, crashes the program).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace brink::snap {

// 0 where a uprobe may be set on the instruction at `code` (as many bytes as there are, up to 15); else the instruction's
// length: the next one is the nearest place that may be.
size_t MangledByUprobe(std::span<const uint8_t> code);

// A probe inside of an instruction changes it: the program goes on with whatever its bytes make of that (a constant of the
// program became another, and nothing else was to be seen). The whole instructions around such an offset.
struct Inside {
  uint64_t before = 0, after = 0;  // offsets in the function
};
// Whether `offset` lies inside of an instruction of the function that `code` begins with and reaches beyond the offset. Nothing:
// it does not, or there are bytes on the way that are no instructions known here.
std::optional<Inside> InsideInstruction(std::span<const uint8_t> code, uint64_t offset);

}  // namespace brink::snap
