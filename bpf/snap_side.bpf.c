// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Beside the triggers of a session, once: what went before a hit (the history), which groups are made, and which processes come
 * into the groups that are wanted.
 */
#include "snap/registers.h"
#include "snap/task.h"

char LICENSE[] SEC("license") = "GPL";

/* A group's record in the making. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_snap_group);
} snap_new_group SEC(".maps");

/* Of the processes of wanted groups: read by a thread of its own, which is woken at once (src/snap/members.h). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, BRINK_SNAP_MEMBER_RING);
} snap_members SEC(".maps");

/* A task's history at its first event; too large for the stack. */
const __u64 snap_no_history[sizeof(struct snap_task_history) / sizeof(__u64)] = {};

brink_always_inline void snap_history_add(__u16 type, __u32 tid, __u64 a, __u64 b)
{
	struct brink_snap_event event = {.time_ns = bpf_ktime_get_ns(), .tid = tid, .type = type, .a = a, .b = b};
	struct snap_cpu_history *cpu;
	struct snap_task_history *task;
	__u32 zero = 0;

	cpu = bpf_map_lookup_elem(&snap_cpu_events, &zero);
	if (cpu)
		cpu->event[cpu->next++ & (BRINK_SNAP_HISTORY - 1)] = event;
	task = bpf_map_lookup_elem(&snap_task_events, &tid);
	if (!task) {
		bpf_map_update_elem(&snap_task_events, &tid, &snap_no_history, BPF_NOEXIST);
		task = bpf_map_lookup_elem(&snap_task_events, &tid);
	}
	if (task)
		task->event[task->next++ & (BRINK_SNAP_TASK_HISTORY - 1)] = event;
}

SEC("?raw_tp/sched_switch")
int snap_history_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *from = (struct task_struct *)ctx->args[1];
	struct task_struct *to = (struct task_struct *)ctx->args[2];
	__u32 tid = BPF_CORE_READ(from, pid);

	snap_history_add(BRINK_SNAP_EV_SWITCH, tid, tid, BPF_CORE_READ(to, pid));
	return 0;
}

SEC("?raw_tp/sys_enter")
int snap_history_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	snap_history_add(BRINK_SNAP_EV_SYS_ENTER, task->pid, ctx->args[1], snap_syscall_reg(ctx, SNAP_REG_FIRST));
	return 0;
}

SEC("?raw_tp/sys_exit")
int snap_history_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	snap_history_add(BRINK_SNAP_EV_SYS_EXIT, task->pid, snap_syscall_reg(ctx, SNAP_REG_SYSCALL), ctx->args[1]);
	return 0;
}

SEC("?raw_tp/irq_handler_entry")
int snap_history_irq(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	snap_history_add(BRINK_SNAP_EV_IRQ, task->pid, ctx->args[0], 0);
	return 0;
}

/* A thread's number may come back: what the last one with it did is not the next one's history. */
SEC("?raw_tp/sched_process_exit")
int snap_history_end(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 tid = task->pid;

	(void)ctx;
	bpf_map_delete_elem(&snap_task_events, &tid);
	return 0;
}

/* What does not fit is found by the look that user space takes each second. */
brink_always_inline void snap_tell_of_member(__u32 pid, __u32 what)
{
	struct brink_snap_member record = { .pid = pid, .what = what };

	bpf_ringbuf_output(&snap_members, &record, sizeof(record), 0);
}

/* parent, child. By the child's own group: it may have been cloned into another one than its parent's. */
SEC("?tp_btf/sched_process_fork")
int snap_member_forked(unsigned long long *ctx)
{
	const struct task_struct *child = (const struct task_struct *)ctx[1];

	if (child->pid == child->tgid && snap_in_groups(child))
		snap_tell_of_member(child->pid, BRINK_SNAP_MEMBER_BORN);
	return 0;
}

/* args: cgroup, path, task, whole process. Moves are rare: user space looks whether it was one of ours. */
SEC("?raw_tp/cgroup_attach_task")
int snap_member_moved(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[2];

	snap_tell_of_member(BPF_CORE_READ(task, tgid), ctx->args[3] ? BRINK_SNAP_MEMBER_MOVED : BRINK_SNAP_MEMBER_SPREAD);
	return 0;
}

/*
 * args: task, its id before. A thread that is not the leader takes the leader's number: what was set for the process is set for a task
 * that is gone.
 */
SEC("?raw_tp/sched_process_exec")
int snap_member_renewed(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	if (ctx->args[1] != (__u64)task->pid && snap_in_groups(task))
		snap_tell_of_member(task->pid, BRINK_SNAP_MEMBER_RENEWED);
	return 0;
}

/* args: cgroup, path. Of the hierarchy that tells containers apart. */
SEC("?raw_tp/cgroup_mkdir")
int snap_group_made(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *group = (struct cgroup *)ctx->args[0];
	struct cgroup_root *root = BPF_CORE_READ(group, root);
	struct brink_snap_group *record;
	__u32 zero = 0;
	__u64 bytes;
	long length;

	if (snap_cfg.flags & BRINK_SNAP_CFG_V1 ? !(BPF_CORE_READ(root, subsys_mask) >> (snap_cfg.subsys & 31) & 1) :
						 BPF_CORE_READ(root, hierarchy_id) != 0)
		return 0;
	record = bpf_map_lookup_elem(&snap_new_group, &zero);
	if (!record)
		return 0;
	length = bpf_probe_read_kernel_str(record->path, sizeof(record->path), (const void *)ctx->args[1]);
	if (length <= 0 || length > BRINK_SNAP_GROUP_PATH)
		return 0;
	record->id = BPF_CORE_READ(group, kn, id);
	bytes = 16 + (__u64)length;
	brink_barrier_var(bytes);
	if (bytes > sizeof(*record))
		return 0;
	record->header.size = bytes;
	record->header.type = BRINK_REC_SNAP_GROUP;
	record->header.version = BRINK_ABI_VERSION;
	brink_ring_send(record, bytes);
	return 0;
}
