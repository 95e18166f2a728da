/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The context of a perf_event program: the user-visible pt_regs, then sample_period and addr.
 *
 * Read at fixed 8-byte offsets: the verifier rewrites such loads, and the layout is user ABI. CO-RE must not be used
 * here: it would relocate to the kernel's own pt_regs, whose `cs` is narrower on newer kernels.
 */
#ifndef BRINK_BPF_LIB_REGS_H_
#define BRINK_BPF_LIB_REGS_H_

#include "lib/base.h"

#if defined(__TARGET_ARCH_x86)
#define BRINK_REG_IP 128
#define BRINK_REG_CS 136
#define BRINK_REG_FLAGS 144
#define BRINK_REG_SP 152
#define BRINK_REG_FP 32
#define BRINK_REGS_SIZE 168
#elif defined(__TARGET_ARCH_arm64)
#define BRINK_REG_SP 248
#define BRINK_REG_IP 256
#define BRINK_REG_PSTATE 264
#define BRINK_REG_FP 232
#define BRINK_REGS_SIZE 272
#else
#error "unknown architecture"
#endif

/* `offset` must be a constant, a multiple of 8. */
#define brink_ctx_u64(ctx, offset) (*(const volatile __u64 *)((const char *)(ctx) + (offset)))

#define brink_ctx_ip(ctx) brink_ctx_u64(ctx, BRINK_REG_IP)
#define brink_ctx_sp(ctx) brink_ctx_u64(ctx, BRINK_REG_SP)
#define brink_ctx_period(ctx) brink_ctx_u64(ctx, BRINK_REGS_SIZE)

/* Whether the event hit user code. By privilege level: the address alone does not tell (and 32-bit tasks exist). */
brink_always_inline int brink_ctx_user_mode(const void *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return (brink_ctx_u64(ctx, BRINK_REG_CS) & 3) == 3;
#else
	return (brink_ctx_u64(ctx, BRINK_REG_PSTATE) & 0xf) == 0;
#endif
}

/* Whether user code runs in 32-bit mode. Only meaningful when brink_ctx_user_mode() holds. */
brink_always_inline int brink_ctx_compat(const void *ctx)
{
#if defined(__TARGET_ARCH_x86)
	/* __USER32_CS of Linux; 64-bit code runs with 0x33. */
	return (brink_ctx_u64(ctx, BRINK_REG_CS) & 0xffff) == 0x23;
#else
	return (brink_ctx_u64(ctx, BRINK_REG_PSTATE) & 0x10) != 0;
#endif
}

#endif /* BRINK_BPF_LIB_REGS_H_ */
