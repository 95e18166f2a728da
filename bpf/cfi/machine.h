/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The machine whose threads are checked, which is the one that the object is for. Each header has the same pieces:
 *
 * CFI_REG_IP, CFI_REG_SP, CFI_REG_ARG2	words of the saved registers: where the thread goes on, its stack pointer, and the
 *			third argument of a system call (mmap's and mprotect's protection)
 * CFI_NR_*		numbers of calls
 * cfi_is_compat(regs)	a 32-bit thread
 * cfi_take_args(cfi)	fills cfi->args from cfi->regs
 * cfi_call_of(regs)	the number of the system call at its end
 * cfi_in_call(regs)	0: an interrupt took the thread out of user code
 * cfi_by_syscall(task)	the call at hand came by the 64-bit gate: 1; 0: by another, whose numbers are others; -1: not known
 * CFI_RET_LEFT		so far below the stack pointer a return has left the address it went to; 0: it leaves none in memory
 * cfi_follows(to, call)	a return to `to` is to behind the call instruction at `call`
 * cfi_call_before(to)	a call instruction ends at `to`: 1, 0; -1: it cannot be read
 * cfi_restores(to)	there signal handlers return to
 * cfi_kind_at(from)	kind of the call or return at `from`; 0: something else
 * cfi_captures(call)	the call is never returned to, it holds wrong guesses of the CPU's
 */
#ifndef BRINK_BPF_CFI_MACHINE_H_
#define BRINK_BPF_CFI_MACHINE_H_

#include "brink/abi/cfi.h"
#include "walk/interrupt.h"

#if defined(__TARGET_ARCH_arm64)
#include "cfi/machine_a64.h"
#else
#include "cfi/machine_x86.h"
#endif

#endif /* BRINK_BPF_CFI_MACHINE_H_ */
