/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whose hit it is: the tests before the snapshot. Direct loads through typed pointers; each helper call would burn two
 * entries of the branch stack and cost everybody who is not meant.
 */
#ifndef BRINK_BPF_SNAP_TASK_H_
#define BRINK_BPF_SNAP_TASK_H_

#include "snap/shared.h"

#define SNAP_CSS(n)                    \
	case n:                        \
		css = set->subsys[n];  \
		break

/* The task's group in the hierarchy that tells containers apart. */
brink_always_inline struct cgroup *snap_cgroup(const struct task_struct *task)
{
	const struct css_set *set = ((const struct task_struct___snap *)task)->cgroups;
	const struct cgroup_subsys_state *css = 0;

	if (!(snap_cfg.flags & BRINK_SNAP_CFG_V1))
		return set->dfl_cgrp;
	/* A typed pointer takes constant indices only; the configuration leaves one of these. */
	switch (snap_cfg.subsys) {
		SNAP_CSS(0);
		SNAP_CSS(1);
		SNAP_CSS(2);
		SNAP_CSS(3);
		SNAP_CSS(4);
		SNAP_CSS(5);
		SNAP_CSS(6);
		SNAP_CSS(7);
		SNAP_CSS(8);
		SNAP_CSS(9);
		SNAP_CSS(10);
		SNAP_CSS(11);
		SNAP_CSS(12);
		SNAP_CSS(13);
	}
	return css ? css->cgroup : 0;
}

/* kernfs id of the task's group; 0 unknown. */
brink_always_inline __u64 snap_container_id(const struct task_struct *task)
{
	struct cgroup *group = snap_cgroup(task);

	return group ? group->kn->id : 0;
}

/* Whether the group filters let the task through. The nearest group that a filter names decides. */
brink_always_inline int snap_in_groups(const struct task_struct *task)
{
	const struct cgroup_subsys_state *css;
	struct cgroup *group;
	__u32 wanted = snap_cfg.flags & BRINK_SNAP_CFG_CGROUPS, i;

	if (!(snap_cfg.flags & (BRINK_SNAP_CFG_CGROUPS | BRINK_SNAP_CFG_NOT_CGROUPS)))
		return 1;
	group = snap_cgroup(task);
	for (i = 0; i < BRINK_SNAP_GROUP_LEVELS && group; i++) {
		__u64 id = group->kn->id;
		__u32 *what = bpf_map_lookup_elem(&snap_groups, &id);

		if (what)
			return *what == BRINK_SNAP_GROUP_WANTED;
		css = group->self.parent;
		group = css ? css->cgroup : 0;
	}
	return !wanted;
}

struct snap_ids {
	__u32 tgid, tid, ns;
};

/* Ids of the task as it sees them itself. */
brink_always_inline void snap_inner_ids(const struct task_struct *task, struct snap_ids *ids)
{
	const struct task_struct___snap *view = (const struct task_struct___snap *)task;
	struct pid *pid = BPF_CORE_READ(view, thread_pid);
	struct pid *leader = BPF_CORE_READ(view, group_leader, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level), step = bpf_core_type_size(struct upid);
	struct pid_namespace *ns = 0;
	const char *at = (const char *)pid + bpf_core_field_offset(struct pid, numbers) + level * step;
	const char *first = (const char *)leader + bpf_core_field_offset(struct pid, numbers) + level * step;

	ids->tgid = ids->tid = ids->ns = 0;
	if (!pid || !leader || level > 32)
		return;
	bpf_probe_read_kernel(&ids->tid, sizeof(int), at + bpf_core_field_offset(struct upid, nr));
	bpf_probe_read_kernel(&ids->tgid, sizeof(int), first + bpf_core_field_offset(struct upid, nr));
	bpf_probe_read_kernel(&ns, sizeof(ns), at + bpf_core_field_offset(struct upid, ns));
	if (ns)
		ids->ns = BPF_CORE_READ(ns, ns.inum);
}

/* Whether a hit of the current task is a hit of this trigger at all. */
brink_always_inline int snap_wants(const struct task_struct *task)
{
	if (snap_paused || (snap_cfg.own_tgid && task->tgid == (int)snap_cfg.own_tgid))
		return 0;
	if (!brink_target_has_current(task) || !snap_in_groups(task))
		return 0;
	if (snap_cfg.flags & BRINK_SNAP_CFG_PIDNS) {
		struct snap_ids ids;

		snap_inner_ids(task, &ids);
		return ids.ns == snap_cfg.pidns;
	}
	return 1;
}

#endif /* BRINK_BPF_SNAP_TASK_H_ */
