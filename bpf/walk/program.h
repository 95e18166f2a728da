/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * From a sample to a walk, whether in the sampling event itself (interrupt.h) or when the thread returns to user space
 * (task.h). The object sets walk_config before load.
 */
#ifndef BRINK_WALK_PROGRAM_H_
#define BRINK_WALK_PROGRAM_H_

#include "brink_mm.h"
#include "walk/miss.h"

const volatile struct brink_walk_config walk_config = {
	.depth = 32,
	.max_steps = 8192,
	.budget_ns = 20000,
	.kind_mask = BRINK_WALK_ALL_KINDS,
	.bucket_permille = 20,
	.bucket_burst_ns = 10000000,
};

/* What the programs return: whether the event does what it does besides running them (a signal, a record). */
const volatile __u32 walk_goes_on = 0;

/*
 * Names the address space. The pointers of mm and executable may be used again; the stack's random start tells a new
 * image from the old one. 0: none (kernel thread).
 */
WALK_INLINE __u64 walk_asid(const struct task_struct *task)
{
	const struct mm_struct *mm = task->mm;
	__u64 exe = 0, self = 0, asid;

	if (!mm)
		return 0;
	bpf_core_read(&exe, sizeof(exe), &mm->exe_file);
	bpf_core_read(&self, sizeof(self), &task->mm);
	asid = (exe ^ self << 8) * 0x9e3779b97f4a7c15ull ^ mm->start_stack * 0xbf58476d1ce4e5b9ull ^ mm->start_code;
	return asid ? asid : 1;
}

/* Changes with mappings of the kind that device memory is (struct brink_walk_proc). */
WALK_INLINE __u64 walk_vm_stamp(const struct task_struct *task)
{
	const struct mm_struct *mm = task->mm;

	return mm ? mm->total_vm - mm->data_vm - mm->stack_vm - mm->exec_vm : 0;
}

/* The token bucket of a CPU: walk time that is left, and when it was filled. */
struct walk_bucket {
	__s64 left_ns;
	__u64 time_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_bucket);
} walk_buckets SEC(".maps");

/* Refills the bucket. 0 when there is nothing left. */
WALK_INLINE int walk_bucket_open(struct walk_bucket *b, __u64 now)
{
	__u64 gap = now - b->time_ns, burst = walk_config.bucket_burst_ns;
	__s64 left = b->left_ns;

	if (!walk_config.bucket_permille)
		return 1;
	/* One long walk must not keep the CPU's samples away for longer than a burst takes to come. */
	if (left < -(__s64)burst)
		left = -(__s64)burst;
	/* A long pause fills it whatever the rate; and keeps the product in range. */
	if (gap > 1000000000ull)
		gap = 1000000000ull;
	left += gap * walk_config.bucket_permille / 1000;
	if (left > (__s64)burst)
		left = burst;
	b->left_ns = left;
	b->time_ns = now;
	return left > 0;
}

WALK_INLINE struct walk_bucket *walk_bucket(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&walk_buckets, &zero);
}

/* Takes the time of a walk that has ended. Atomic: a sample may come in between. */
WALK_INLINE void walk_bucket_pay(__u64 ns)
{
	struct walk_bucket *b = walk_bucket();

	if (b)
		__sync_fetch_and_add(&b->left_ns, -(__s64)ns);
}

/*
 * The kernel writes a thread's restartable-sequence area on the way back to user space: its CPU, its sequence. The lines
 * where it lies read as unknown.
 */
WALK_INLINE void walk_hide_rseq(struct brink_walk *w, const struct task_struct *task)
{
	const struct task_struct___rseq *plain = (const void *)task;
	const struct task_struct___rseq_data *data = (const void *)task;
	__u64 start = 0, len = 32;
	__u32 nr = w->proc.nr_ranges;

	if (bpf_core_field_exists(plain->rseq)) {
		start = (__u64)BPF_CORE_READ(plain, rseq);
		if (bpf_core_field_exists(plain->rseq_len))
			len = BPF_CORE_READ(plain, rseq_len);
	} else if (bpf_core_field_exists(data->rseq.usrptr)) {
		start = (__u64)BPF_CORE_READ(data, rseq.usrptr);
		len = BPF_CORE_READ(data, rseq.len);
	}
	if (!start || nr >= BRINK_WALK_RANGES)
		return;
	WALK_OPAQUE(nr);
	w->proc.range[nr & (BRINK_WALK_RANGES - 1)].start = start & ~63ull;
	w->proc.range[nr & (BRINK_WALK_RANGES - 1)].end = (start + len + 63) & ~63ull;
	w->proc.range[nr & (BRINK_WALK_RANGES - 1)].kind = BRINK_RANGE_UNKNOWN;
	w->proc.nr_ranges = nr + 1;
}

/* What user space knows about the process. 0, or 1 with w->stop set. */
WALK_INLINE int walk_take_process(struct brink_walk *w, const struct task_struct *task)
{
	const struct brink_walk_proc *proc = bpf_map_lookup_elem(&walk_procs, &w->asid);

	if (!proc || proc->vm_stamp != walk_vm_stamp(task))
		return walk_miss(w, BRINK_MISS_PROCESS, 0, w->reg[BRINK_WREG_IP].val);
	if (proc->flags & BRINK_PROC_REFUSED)
		return walk_stop(w, BRINK_STOP_DEVICE_MEMORY);
	w->proc = *proc;
	walk_hide_rseq(w, task);
	if (proc->flags & BRINK_PROC_FSBASE)
		walk_take_bases(w, task);
	return 0;
}

/*
 * The address space of the registers in w, and what is known about it. 0, or 1 with w->stop set. `born_ns`: when its
 * process was born.
 */
WALK_INLINE int walk_take_space(struct brink_walk *w, const struct task_struct *task, __u64 born_ns)
{
	walk_regs_known(w);
	w->asid = walk_asid(task);
	if (!w->asid)
		return walk_stop(w, BRINK_STOP_NOT_USER);
	if (walk_take_process(w, task))
		return 1;
	walk_take_mappings(w, task->mm, born_ns);
	return 0;
}

/* Walks from the registers in w. */
WALK_INLINE void walk_go(struct brink_walk *w, struct brink_walk_out *out, const struct task_struct *task, __u64 born_ns)
{
	if (!walk_take_space(w, task, born_ns))
		walk_run(w, out);
}

/* Moves the result into the sample, whose entries hold `room` branches. */
WALK_INLINE void walk_give(const struct brink_walk *w, const struct brink_walk_out *out, struct brink_sample *s,
			   struct brink_branch *entries, __u32 room)
{
	__u32 nr = w->nr, first = w->depth - nr;

	s->direction = BRINK_DIR_FUTURE;
	s->stop = w->stop;
	s->end_ip = w->reg[BRINK_WREG_IP].val;
	s->steps = w->steps;
	if (walk_config.kind_mask != BRINK_WALK_ALL_KINDS)
		s->flags |= BRINK_SAMPLE_FILTERED;
	WALK_OPAQUE(nr);
	if (nr > room || first >= BRINK_MAX_WALK_BRANCHES || first + nr > BRINK_MAX_WALK_BRANCHES)
		return;
	if (nr && !bpf_probe_read_kernel(entries, nr * sizeof(*entries), &out->branch[first]))
		s->nr = nr;
}

WALK_INLINE void walk_set_deadline(struct brink_walk *w, __u64 now)
{
	w->start_ns = now;
	w->deadline_ns = walk_config.budget_ns ? now + walk_config.budget_ns - walk_config.reserve_ns : 0;
}

/* Makes w ready for a walk of the sample. The caller then fills in the registers. */
WALK_INLINE void walk_prepare(struct brink_walk *w, __u64 now)
{
	struct brink_walk_config config = {
		.depth = walk_config.depth,
		.max_steps = walk_config.max_steps,
		.kind_mask = walk_config.kind_mask,
	};

	walk_begin(w, &config);
	walk_set_deadline(w, now);
}

#endif /* BRINK_WALK_PROGRAM_H_ */
