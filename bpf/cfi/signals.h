/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * rt_sigreturn without a signal: how many handlers a thread is in, counted from where that is known, which is the execution
 * of a program, and of what is forked by threads of which it is known. A handler that is left by longjmp is never taken
 * off: the thread may then return once too often unseen. Threads that this knows nothing of are never suspected, and the
 * map may forget any of them.
 */
#ifndef BRINK_BPF_CFI_SIGNALS_H_
#define BRINK_BPF_CFI_SIGNALS_H_

#include "cfi/check.h"

struct cfi_handlers {
	__u64 start;	/* of the thread: ids come back */
	__u32 open;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct cfi_handlers);
} cfi_in_handlers SEC(".maps");

brink_always_inline struct cfi_handlers *cfi_handlers_of(const struct task_struct *task)
{
	__u32 tid = task->pid;
	struct cfi_handlers *in = bpf_map_lookup_elem(&cfi_in_handlers, &tid);

	return in && in->start == task->start_boottime ? in : 0;
}

/* A program begins: in no handler. */
brink_always_inline void cfi_handlers_begin(const struct task_struct *task)
{
	struct cfi_handlers none = {.start = task->start_boottime};
	__u32 tid = task->pid;

	bpf_map_update_elem(&cfi_in_handlers, &tid, &none, BPF_ANY);
}

/* A child goes on in the handlers that its parent is in. */
brink_always_inline void cfi_handlers_fork(const struct task_struct *parent, const struct task_struct *child)
{
	const struct cfi_handlers *in = cfi_handlers_of(parent);
	struct cfi_handlers its = {};
	__u32 tid = child->pid;

	if (!in)
		return;
	its.open = in->open;
	its.start = child->start_boottime;
	bpf_map_update_elem(&cfi_in_handlers, &tid, &its, BPF_ANY);
}

/* A signal is about to enter a handler. */
brink_always_inline void cfi_handlers_enter(const struct task_struct *task)
{
	struct cfi_handlers *in = cfi_handlers_of(task);

	if (in)
		in->open++;
}

/* 1: nobody called the handler that this return pretends to come from. */
brink_always_inline int cfi_handlers_leave(const struct task_struct *task)
{
	struct cfi_handlers *in = cfi_handlers_of(task);

	if (!in)
		return 0;
	if (!in->open)
		return 1;
	in->open--;
	return 0;
}

/* At its entry. There is no window: what is wrong is that it happens. */
static __attribute__((noinline)) int cfi_check_sigreturn(__u32 nr)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	int gate = cfi_by_syscall(task);	/* by another the number is another call's, which takes nothing off */
	struct cfi_slot *slot;

	if (!gate || !cfi_handlers_leave(task) || gate < 0)
		return 0;
	slot = cfi_slot_claim();
	if (!slot)
		return 0;
	cfi_count_add(BRINK_CFI_CNT_CHECKS, 1);
	if (cfi_fill(slot, task, BRINK_CFI_ENTER, nr, 0)) {
		slot->sample.direction = BRINK_DIR_PAST;
		slot->sample.nr = 0;
		slot->cfi.verdict = BRINK_CFI_P2;
		cfi_count_add(BRINK_CFI_CNT_FORGED, 1);
		cfi_conclude(slot, slot->sample.time_ns, bpf_ktime_get_ns());
	}
	cfi_slot_release(slot);
	return 0;
}

#endif /* BRINK_BPF_CFI_SIGNALS_H_ */
