/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which tasks a session wants: the set of processes or threads, or cgroups. */
#ifndef BRINK_BPF_LIB_TARGET_H_
#define BRINK_BPF_LIB_TARGET_H_

#include "brink_task.h"
#include "lib/base.h"

/* include/linux/sched.h: forked and not executed anything yet. */
#define BRINK_PF_FORKNOEXEC 0x00000040

/* Ticks of `task`'s process leader, as the set is keyed (see struct brink_task_entry). */
brink_always_inline __u64 brink_leader_start(const struct task_struct *task)
{
	return task->group_leader->start_boottime;
}

/*
 * Whether the current task belongs to the session's target. `task` is bpf_get_current_task_btf(). Interrupts and the
 * idle task count as the task that they interrupted. A reused id with another start time is no member.
 */
brink_always_inline int brink_target_has_current(const struct task_struct *task)
{
	const struct brink_task_entry *entry;
	__u32 id;

	/* Until its exec the command's process is a copy of brink, whose mappings no file tells. */
	if (brink_cfg.command_tgid && task->tgid == (int)brink_cfg.command_tgid &&
	    (task->group_leader->flags & BRINK_PF_FORKNOEXEC))
		return 0;
	switch (brink_cfg.target_mode) {
	case BRINK_TARGET_TGIDS:
		id = task->tgid;
		entry = bpf_map_lookup_elem(&brink_tasks, &id);
		return entry && entry->start_ticks == brink_leader_start(task) / BRINK_NS_PER_TICK;
	case BRINK_TARGET_TIDS:
		id = task->pid;
		entry = bpf_map_lookup_elem(&brink_tasks, &id);
		return entry && entry->start_ticks == task->start_boottime / BRINK_NS_PER_TICK;
	case BRINK_TARGET_CGROUP:
		for (__u32 i = 0; i < BRINK_MAX_CGROUPS; i++) {
			if (i >= brink_cfg.cgroups)
				break;
			if (bpf_current_task_under_cgroup(&brink_cgroups, i) == 1)
				return 1;
		}
		return 0;
	default:
		return !brink_cfg.own_tgid || task->tgid != (int)brink_cfg.own_tgid;
	}
}

#endif /* BRINK_BPF_LIB_TARGET_H_ */
