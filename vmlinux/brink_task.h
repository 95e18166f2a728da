/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The fields of tasks that brink reads; libbpf relocates them to the running kernel (CO-RE). */
#ifndef BRINK_VMLINUX_TASK_H_
#define BRINK_VMLINUX_TASK_H_

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct mm_struct;

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	struct mm_struct *mm;
};

#pragma clang attribute pop

#endif /* BRINK_VMLINUX_TASK_H_ */
