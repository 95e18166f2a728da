/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Where arguments and results lie in the registers of a context. */
#ifndef BRINK_BPF_SNAP_REGISTERS_H_
#define BRINK_BPF_SNAP_REGISTERS_H_

#include "lib/base.h"

#if defined(__TARGET_ARCH_x86)
#define SNAP_REG_RET 80
#define SNAP_REG_SYSCALL 120
#define SNAP_REG_FIRST 112
#define SNAP_ARG_COUNT 6
#define SNAP_ARG_OFFSET(i) ((i) == 0 ? 112 : (i) == 1 ? 104 : (i) == 2 ? 96 : (i) == 3 ? 88 : (i) == 4 ? 72 : 64)
#else
#define SNAP_REG_RET 0
#define SNAP_REG_SYSCALL 64
#define SNAP_REG_FIRST 0
#define SNAP_ARG_COUNT 8
#define SNAP_ARG_OFFSET(i) ((i) * 8)
#endif

/* Word of the user registers that a system call's tracepoint was given. */
brink_always_inline __u64 snap_syscall_reg(const struct bpf_raw_tracepoint_args *ctx, __u32 offset)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (const char *)ctx->args[0] + offset);
	return value;
}

#endif /* BRINK_BPF_SNAP_REGISTERS_H_ */
