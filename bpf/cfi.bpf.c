// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The check points of brink cfi run that any kernel offers: entries and exits of chosen system calls, fatal signals,
 * threads that are preempted, periodic samples.
 */
#include "cfi/signals.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CFI_PROT_EXEC 4

/* The third argument of the call, of mmap and mprotect the protection, makes code. */
brink_always_inline int cfi_makes_code(void)
{
	const void *regs = (const void *)bpf_task_pt_regs((struct task_struct *)bpf_get_current_task_btf());
	__u64 protection = 0;

	bpf_probe_read_kernel(&protection, sizeof(protection), (const char *)regs + 8 * CFI_REG_ARG2);
	return protection & CFI_PROT_EXEC;
}

/* Cheapest tests first: most calls of the machine end at one of them. */
brink_always_inline void cfi_at_call(__u32 point, __u64 nr, __u64 ret)
{
	__u32 side = point == BRINK_CFI_ENTER ? BRINK_CFI_AT_ENTER : BRINK_CFI_AT_EXIT, how, tid;
	struct cfi_turns *turns;

	if (nr >= BRINK_CFI_CALLS)
		return;
	how = cfi_config.call[nr];
	if (!(how & side))
		return;
	if (how & BRINK_CFI_SIGRETURN) {
		if (cfi_wants((struct task_struct *)bpf_get_current_task_btf()))
			cfi_check_sigreturn(nr);
		return;
	}
	turns = cfi_turns_here();
	tid = cfi_tid();
	if (!turns || (!(how & BRINK_CFI_FIRST) && cfi_turn_skips(turns, tid)))
		return;
	if (!cfi_wants((struct task_struct *)bpf_get_current_task_btf()) || ((how & BRINK_CFI_IF_EXEC) && !cfi_makes_code()))
		return;
	if ((how & BRINK_CFI_FIRST) || cfi_turn_open(turns, tid, walk_config.bucket_permille))
		cfi_check(point, nr, how, ret);
}

/*
 * Two ways to the calls, of which user space attaches one. A raw tracepoint is one program at all calls of the machine.
 * Tracepoints of single calls cost the others less (docs/cfi.md, Cost), but each is an event of its own, whose end takes
 * the kernel tens of milliseconds.
 */

/* args: pt_regs, number. */
SEC("raw_tp/sys_enter")
int cfi_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	cfi_at_call(BRINK_CFI_ENTER, ctx->args[1], 0);
	return 0;
}

/* args: pt_regs, result. */
SEC("raw_tp/sys_exit")
int cfi_sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	cfi_at_call(BRINK_CFI_EXIT, cfi_call_of(ctx->args[0]), ctx->args[1]);
	return 0;
}

/* The record of syscalls/sys_exit_NAME; sys_enter_NAME has the arguments from `ret` on, and no more than the call takes. */
struct cfi_call {
	__u64 common;
	__s32 nr;
	__s32 pad;
	__u64 ret;
};

SEC("tracepoint")
int cfi_call_enter(struct cfi_call *ctx)
{
	cfi_at_call(BRINK_CFI_ENTER, (__u32)ctx->nr, 0);
	return 0;
}

SEC("tracepoint")
int cfi_call_exit(struct cfi_call *ctx)
{
	cfi_at_call(BRINK_CFI_EXIT, (__u32)ctx->nr, ctx->ret);
	return 0;
}

BRINK_SNAPSHOT_PRIME(cfi_prime)

/* args: number, siginfo, sigaction. In the victim, before the signal acts: there is nothing ahead to walk. */
SEC("raw_tp/signal_deliver")
int cfi_signal(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 number = ctx->args[0];
	__u64 handler = 0;
	struct {
		__s32 number, error, code, pad;
		__u64 address;
	} info = {};
	struct cfi_slot *slot;

	/* Its action, of which the handler is the first word: 0 default, 1 ignored. */
	if (!bpf_probe_read_kernel(&handler, sizeof(handler), (const void *)ctx->args[2]) && handler > 1)
		cfi_handlers_enter(task);
	/* ILL, TRAP, BUS, SEGV, SYS */
	if (number != 4 && number != 5 && number != 7 && number != 11 && number != 31)
		return 0;
	if (!cfi_wants(task))
		return 0;
	slot = cfi_slot_claim();
	if (!slot)
		return 0;
	cfi_count_add(BRINK_CFI_CNT_CHECKS, 1);
	if (cfi_fill(slot, task, BRINK_CFI_SIGNAL, ~0u, 0)) {
		slot->sample.direction = BRINK_DIR_PAST;
		slot->cfi.signal = number;
		if (ctx->args[1] > 2 && !bpf_probe_read_kernel(&info, sizeof(info), (const void *)ctx->args[1])) {
			slot->cfi.signal_code = info.code;
			slot->cfi.fault_address = info.address;
		}
		/* The word that a return has just taken: what it left below the stack pointer. */
		if (CFI_RET_LEFT && !bpf_probe_read_user(slot->cfi.stack, sizeof(slot->cfi.stack), (const void *)(slot->cfi.regs[CFI_REG_SP] - CFI_RET_LEFT)))
			slot->cfi.stack_words = BRINK_CFI_STACK;
		cfi_conclude(slot, slot->sample.time_ns, bpf_ktime_get_ns());
	}
	cfi_slot_release(slot);
	return 0;
}

/* args: task, its pid before, the binary. In the new program, whose registers stand at its beginning. */
SEC("raw_tp/sched_process_exec")
int cfi_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct cfi_begun begun = {.time_ns = bpf_ktime_get_ns()};
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 tgid = task->tgid;

	(void)ctx;
	if (bpf_probe_read_kernel(&begun.ip, sizeof(begun.ip), (const char *)bpf_task_pt_regs(task) + 8 * CFI_REG_IP))
		return 0;
	bpf_map_update_elem(&cfi_begun_at, &tgid, &begun, BPF_ANY);
	cfi_handlers_begin(task);
	return 0;
}

/* parent, child */
SEC("tp_btf/sched_process_fork")
int cfi_fork(unsigned long long *ctx)
{
	cfi_handlers_fork((const struct task_struct *)ctx[0], (const struct task_struct *)ctx[1]);
	return 0;
}

/* args: preempt, prev, next. A thread that leaves the CPU in the middle of user code; in a call its checks are the call's. */
SEC("raw_tp/sched_switch")
int cfi_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	if (!task->mm || !cfi_wants(task))
		return 0;
	if (cfi_in_call((const void *)bpf_task_pt_regs(task)))
		return 0;
	cfi_check(BRINK_CFI_SWITCH, ~0u, 0, 0);
	return 0;
}

SEC("perf_event")
int brink_walk_on_event(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	brink_count(BRINK_CNT_EVENTS);
	/* In the kernel the thread's checks are those of its call. */
	if (!brink_ctx_user_mode(ctx) || !cfi_wants(task))
		return walk_goes_on;
	cfi_check(BRINK_CFI_SAMPLE, ~0u, 0, 0);
	return walk_goes_on;
}
