// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The programs of brink snap, one a kind of hook. An object serves one trigger: only the programs of its kind are
 * loaded, with the trigger's configuration in read-only data.
 */
#include "snap/hit.h"
#include "snap/registers.h"
#include "snap/signals.h"

char LICENSE[] SEC("license") = "GPL";

/* Before the snapshot: is it ours? Then the snapshot, with nothing in between. */
#define SNAP_BEGIN(hit)                                                                    \
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();       \
	struct snap_hit hit = {};                                                          \
                                                                                           \
	if (!snap_wants(task))                                                             \
		return 0;                                                                  \
	if (snap_cfg.flags & BRINK_SNAP_CFG_SNAPSHOT)                                      \
		hit.shot = brink_snapshot_take(&hit.shot_seq)

/* The end of a hit that may be followed: what captured it is left for the program that has the thread walked. */
#define SNAP_END(ctx, hit)                                                                 \
	do {                                                                               \
		if (snap_capture(ctx, hit) && (snap_cfg.flags & BRINK_SNAP_CFG_FOLLOW))    \
			bpf_tail_call(ctx, &snap_follower, 0);                             \
		return 0;                                                                  \
	} while (0)

brink_always_inline __u64 snap_entry_key(const struct task_struct *task)
{
	return (__u64)task->pid << 32 | snap_cfg.trigger;
}

/* Takes the entry of the current task off the map; `room` is the caller's, for as long as the hit lasts. */
brink_always_inline void snap_take_entry(const struct task_struct *task, struct brink_snap_entry *room,
					 struct snap_hit *hit)
{
	__u64 key = snap_entry_key(task);
	struct brink_snap_entry *found;

	if (!(snap_cfg.flags & BRINK_SNAP_CFG_ENTRY))
		return;
	found = bpf_map_lookup_elem(&snap_entries, &key);
	if (!found)
		return;
	*room = *found;
	hit->entry = room;
	bpf_map_delete_elem(&snap_entries, &key);
}

/* The entry of a function whose return is the trigger; `regs` has its arguments, or is NULL where nobody wants them. */
brink_always_inline int snap_enter(void *regs)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct brink_snap_entry entry = {};
	__u64 key = snap_entry_key(task);
	__u32 i;

	if (!snap_wants(task))
		return 0;
	if (regs) {
#pragma unroll
		for (i = 0; i < SNAP_ARG_COUNT; i++)
			entry.args[i] = brink_ctx_u64(regs, SNAP_ARG_OFFSET(i));
	}
	entry.time_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&snap_entries, &key, &entry, BPF_ANY);
	return 0;
}

brink_always_inline int snap_other_syscall(__u64 number)
{
	return snap_cfg.syscall != ~0u && (__u32)number != snap_cfg.syscall;
}

/* tracepoint:CATEGORY:NAME. The place is the innermost kernel frame behind the tracepoint's own. */
SEC("?tp")
int snap_tracepoint(void *ctx)
{
	SNAP_BEGIN(hit);
	hit.place = SNAP_AT_FRAME;
	hit.kernel_ip = 1;
	SNAP_END(ctx, &hit);
}

/* Raw tracepoints; exec, exit and oom too. */
SEC("?raw_tp")
int snap_raw_tracepoint(void *ctx)
{
	SNAP_BEGIN(hit);
	if (snap_cfg.flags & BRINK_SNAP_CFG_ENTRY_KERNEL) {
		hit.place = SNAP_AT_FRAME;
		hit.kernel_ip = 1;
	} else {
		hit.place = SNAP_AT_USER;
	}
	SNAP_END(ctx, &hit);
}

/* args: task. `live` is lowered by then: the process ends with its last thread. */
SEC("?raw_tp/sched_process_exit")
int snap_exit(struct bpf_raw_tracepoint_args *ctx)
{
	SNAP_BEGIN(hit);
	if (task->signal->live.counter)
		return 0;
	hit.place = SNAP_AT_USER;
	return snap_capture(ctx, &hit);
}

/* args: pt_regs, number. The number first: most calls are others. */
SEC("?raw_tp/sys_enter")
int snap_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	if (snap_other_syscall(ctx->args[1]))
		return 0;
	SNAP_BEGIN(hit);
	hit.syscall = ctx->args[1];
	hit.snap_flags = BRINK_SNAP_HAS_SYSCALL;
	hit.place = SNAP_AT_USER;
	SNAP_END(ctx, &hit);
}

/* The other half of snap_sys_exit where a duration is wanted. */
SEC("?raw_tp/sys_enter")
int snap_sys_entry(struct bpf_raw_tracepoint_args *ctx)
{
	return snap_other_syscall(ctx->args[1]) ? 0 : snap_enter(0);
}

/* args: pt_regs, result. */
SEC("?raw_tp/sys_exit")
int snap_sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct brink_snap_entry room;
	__u64 number;

	SNAP_BEGIN(hit);
	number = snap_syscall_reg(ctx, SNAP_REG_SYSCALL);
	if (snap_other_syscall(number))
		return 0;
	snap_take_entry(task, &room, &hit);
	hit.syscall = number;
	hit.ret = ctx->args[1];
	hit.snap_flags = BRINK_SNAP_HAS_SYSCALL | BRINK_SNAP_HAS_RET;
	hit.place = SNAP_AT_USER;
	SNAP_END(ctx, &hit);
}

/* args: number, siginfo, and at delivery the sigaction. */
brink_always_inline int snap_at_signal(struct bpf_raw_tracepoint_args *ctx, int delivered)
{
	struct k_sigaction *action = (struct k_sigaction *)ctx->args[2];
	__u32 number = ctx->args[0];

	SNAP_BEGIN(hit);
	if (!number || number > 64 || !(snap_cfg.signals >> (number - 1) & 1))
		return 0;
	/* SIG_DFL is 0. */
	if (delivered && (snap_cfg.flags & BRINK_SNAP_CFG_FATAL) && BPF_CORE_READ(action, sa.sa_handler))
		return 0;
	if (delivered && (snap_cfg.flags & BRINK_SNAP_CFG_SNAPSHOT))
		snap_use_made(&hit, task->pid, number);
	hit.signal = number;
	hit.snap_flags = BRINK_SNAP_HAS_SIGNAL;
	snap_signal_info(&hit, ctx->args[1]);
	hit.place = SNAP_AT_USER;
	SNAP_END(ctx, &hit);
}

/* Runs in the victim, before the signal acts. */
SEC("?raw_tp/signal_deliver")
int snap_signal_deliver(struct bpf_raw_tracepoint_args *ctx)
{
	return snap_at_signal(ctx, 1);
}

/*
 * The other half of snap_signal_deliver, with branch hardware. args: number, siginfo, task, group, result (0: it will be
 * delivered). Here a thread that faulted has its own branches still; at delivery it may have been switched out and in.
 */
SEC("?raw_tp/signal_generate")
int snap_signal_made(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = ctx->args[0], tid;

	SNAP_BEGIN(hit);
	if (!number || number > 64 || !(snap_cfg.signals >> (number - 1) & 1) || ctx->args[2] != (__u64)task || ctx->args[4] || !hit.shot)
		return 0;
	tid = task->pid;
	brink_snapshot_settle(hit.shot_seq);
	hit.shot->reserved = SNAP_MADE(number, bpf_ktime_get_ns());
	bpf_map_update_elem(&snap_made, &tid, hit.shot, BPF_ANY);
	if (brink_snapshot_gone(hit.shot_seq))
		bpf_map_delete_elem(&snap_made, &tid);
	return 0;
}

/*
 * Beside them, with branch hardware: what the thread that goes has branched last. args: preempt, the task that goes (the current
 * one), the one that comes.
 */
SEC("?raw_tp/sched_switch")
int snap_leaves(void *ctx)
{
	struct brink_snapshot_slot *made;
	__u32 tid;

	(void)ctx;
	SNAP_BEGIN(hit);
	tid = task->pid;
	if (!tid || !hit.shot)
		return 0;
	brink_snapshot_leaving(hit.shot_seq);
	/* Between a signal's making and its delivery: what goes on from the snapshot of its making is what was there before. */
	made = bpf_map_lookup_elem(&snap_made, &tid);
	if (made && snap_made_is_fresh(made->reserved))
		return 0;
	brink_snapshot_settle(hit.shot_seq);
	hit.shot->reserved = SNAP_LEFT_BORN(task);
	bpf_map_update_elem(&snap_left, &tid, hit.shot, BPF_ANY);
	if (brink_snapshot_gone(hit.shot_seq))
		bpf_map_delete_elem(&snap_left, &tid);
	return 0;
}

/* Runs in the sender. */
SEC("?raw_tp/signal_generate")
int snap_signal_sent(struct bpf_raw_tracepoint_args *ctx)
{
	return snap_at_signal(ctx, 0);
}

/* Kernel and user functions and places: the context is pt_regs. */
brink_always_inline int snap_at_probe(void *ctx)
{
	SNAP_BEGIN(hit);
	hit.ip = brink_ctx_ip(ctx);
	hit.user_ctx = !!(snap_cfg.flags & BRINK_SNAP_CFG_USER_CTX);
	hit.kernel_ip = !hit.user_ctx;
	SNAP_END(ctx, &hit);
}

brink_always_inline int snap_at_return(void *ctx)
{
	struct brink_snap_entry room;

	SNAP_BEGIN(hit);
	snap_take_entry(task, &room, &hit);
	hit.ip = brink_ctx_ip(ctx);
	hit.ret = brink_ctx_u64(ctx, SNAP_REG_RET);
	hit.snap_flags = BRINK_SNAP_HAS_RET;
	hit.user_ctx = !!(snap_cfg.flags & BRINK_SNAP_CFG_USER_CTX);
	hit.kernel_ip = !hit.user_ctx;
	SNAP_END(ctx, &hit);
}

SEC("?kprobe")
int snap_kprobe(void *ctx)
{
	return snap_at_probe(ctx);
}

SEC("?kprobe")
int snap_kentry(void *ctx)
{
	return snap_enter(ctx);
}

SEC("?kretprobe")
int snap_kretprobe(void *ctx)
{
	return snap_at_return(ctx);
}

SEC("?kprobe.multi")
int snap_kmulti(void *ctx)
{
	return snap_at_probe(ctx);
}

SEC("?kprobe.multi")
int snap_kmulti_entry(void *ctx)
{
	return snap_enter(ctx);
}

SEC("?kretprobe.multi")
int snap_kretmulti(void *ctx)
{
	return snap_at_return(ctx);
}

/* The attach type of uprobe_multi is set before load; libbpf has no section name for it. */
SEC("?uprobe")
int snap_uprobe(void *ctx)
{
	return snap_at_probe(ctx);
}

SEC("?uprobe")
int snap_uentry(void *ctx)
{
	return snap_enter(ctx);
}

SEC("?uretprobe")
int snap_uretprobe(void *ctx)
{
	return snap_at_return(ctx);
}

/* The function is set before load. */
SEC("?fentry")
int snap_fentry(void *ctx)
{
	SNAP_BEGIN(hit);
	hit.ip = bpf_get_func_ip(ctx);
	hit.kernel_ip = 1;
	return snap_capture(ctx, &hit);
}

/* Arguments stand in the context of the return too. */
SEC("?fentry")
int snap_fentry_entry(void *ctx)
{
	(void)ctx;
	return snap_enter(0);
}

/* Where in the context the result lies: 8 bytes for each argument. */
const volatile __u32 snap_result_offset = 0;

SEC("?fexit")
int snap_fexit(void *ctx)
{
	struct brink_snap_entry room;

	SNAP_BEGIN(hit);
	snap_take_entry(task, &room, &hit);
	hit.ip = bpf_get_func_ip(ctx);
	hit.kernel_ip = 1;
	bpf_probe_read_kernel(&hit.ret, sizeof(hit.ret), (const char *)ctx + (__u16)snap_result_offset);
	hit.snap_flags = BRINK_SNAP_HAS_RET;
	return snap_capture(ctx, &hit);
}

/* Samples, hardware events, breakpoints. The context cannot be read as memory: values come from its registers only. */
SEC("?perf_event")
int snap_perf(void *ctx)
{
	SNAP_BEGIN(hit);
	hit.ip = brink_ctx_ip(ctx);
	hit.kernel_ip = !brink_ctx_user_mode(ctx);
	hit.signal_addr = brink_ctx_u64(ctx, BRINK_REGS_SIZE + 8);
	SNAP_END(ctx, &hit);
}

BRINK_SNAPSHOT_PRIME(snap_prime)

/* manual: run by the collector on every CPU. Not a hit of the target: of the moment. */
SEC("?raw_tp")
int snap_manual(void *ctx)
{
	struct snap_hit hit = {};

	if (snap_cfg.flags & BRINK_SNAP_CFG_SNAPSHOT)
		hit.shot = brink_snapshot_take(&hit.shot_seq);
	return snap_capture(ctx, &hit);
}
