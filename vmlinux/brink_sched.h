/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the latency programs read of tasks and work (CO-RE), beside brink_task.h. */
#ifndef BRINK_VMLINUX_SCHED_H_
#define BRINK_VMLINUX_SCHED_H_

#include "brink_task.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Second view of the same structure. */
struct task_struct___lat {
	char comm[16];
	int wake_cpu;
};

/* x86-64: user registers; orig_ax is the number of the system call that the thread is in, below 0 in none. */
struct pt_regs___lat {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long flags;
	unsigned long sp;
};

struct work_struct {
	void *func;
};

#pragma clang attribute pop

#endif /* BRINK_VMLINUX_SCHED_H_ */
