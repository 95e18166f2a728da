/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kernel's saved user registers as bpf_task_pt_regs shows them: relocated, unlike a program's context. */
#ifndef BRINK_VMLINUX_REGS_H_
#define BRINK_VMLINUX_REGS_H_

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_arm64)

struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#define brink_regs_ip(r) ((r)->pc)

#else

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long ip;
	unsigned long flags;
	unsigned long sp;
};
#define brink_regs_ip(r) ((r)->ip)

#endif

#pragma clang attribute pop

#endif /* BRINK_VMLINUX_REGS_H_ */
