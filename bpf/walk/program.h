/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * From a sample to a walk: the piece that perf_event programs call between brink_sample_begin and brink_sample_emit.
 *
 * Interrupt mode: slot = CPU. Such programs do not nest on a CPU, and are not preempted except on PREEMPT_RT, where
 * this mode is not used. The object sets walk_config before load.
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

/* Refills the bucket. 0 when there is nothing left. */
WALK_INLINE int walk_bucket_open(struct brink_walk *w, __u64 now)
{
	__u64 gap = now - w->bucket_time_ns, burst = walk_config.bucket_burst_ns;
	__s64 left = w->bucket_ns;

	if (!walk_config.bucket_permille)
		return 1;
	/* A long pause fills it whatever the rate; and keeps the product in range. */
	if (gap > 1000000000ull)
		gap = 1000000000ull;
	left += gap * walk_config.bucket_permille / 1000;
	if (left > (__s64)burst)
		left = burst;
	w->bucket_ns = left;
	w->bucket_time_ns = now;
	return left > 0;
}

/* pt_regs of a perf_event context, at fixed offsets (lib/regs.h says why). */
WALK_INLINE void walk_take_regs(struct brink_walk *w, void *ctx)
{
	w->reg[0].val = brink_ctx_u64(ctx, 80);
	w->reg[1].val = brink_ctx_u64(ctx, 88);
	w->reg[2].val = brink_ctx_u64(ctx, 96);
	w->reg[3].val = brink_ctx_u64(ctx, 40);
	w->reg[4].val = brink_ctx_u64(ctx, 152);
	w->reg[5].val = brink_ctx_u64(ctx, 32);
	w->reg[6].val = brink_ctx_u64(ctx, 104);
	w->reg[7].val = brink_ctx_u64(ctx, 112);
	w->reg[8].val = brink_ctx_u64(ctx, 72);
	w->reg[9].val = brink_ctx_u64(ctx, 64);
	w->reg[10].val = brink_ctx_u64(ctx, 56);
	w->reg[11].val = brink_ctx_u64(ctx, 48);
	w->reg[12].val = brink_ctx_u64(ctx, 24);
	w->reg[13].val = brink_ctx_u64(ctx, 16);
	w->reg[14].val = brink_ctx_u64(ctx, 8);
	w->reg[15].val = brink_ctx_u64(ctx, 0);
	w->reg[BRINK_WREG_IP].val = brink_ctx_u64(ctx, 128);
	w->flags = brink_ctx_u64(ctx, 144);
}

/* What user space knows about the process. 0, or 1 with w->stop set. */
WALK_INLINE int walk_take_process(struct brink_walk *w, const struct task_struct *task)
{
	const struct task_struct___thread *thread = (const struct task_struct___thread *)task;
	const struct brink_walk_proc *proc = bpf_map_lookup_elem(&walk_procs, &w->asid);

	if (!proc || proc->vm_stamp != walk_vm_stamp(task))
		return walk_miss(w, BRINK_MISS_PROCESS, 0, w->reg[BRINK_WREG_IP].val);
	if (proc->flags & BRINK_PROC_REFUSED)
		return walk_stop(w, BRINK_STOP_DEVICE_MEMORY);
	w->proc = *proc;
	if (proc->flags & BRINK_PROC_FSBASE) {
		w->reg[BRINK_WREG_FS].val = BPF_CORE_READ(thread, thread.fsbase);
		w->reg[BRINK_WREG_FS].unk = 0;
		w->reg[BRINK_WREG_GS].val = BPF_CORE_READ(thread, thread.gsbase);
		w->reg[BRINK_WREG_GS].unk = 0;
	}
	return 0;
}

/* Walks from the registers in w. */
WALK_INLINE void walk_go(struct brink_walk *w, struct brink_walk_out *out, const struct task_struct *task, __u64 born_ns)
{
	__u32 i;

	for (i = 0; i < 16; i++)
		w->reg[i].unk = 0;
	w->asid = walk_asid(task);
	if (!w->asid) {
		w->stop = BRINK_STOP_NOT_USER;
		return;
	}
	if (walk_take_process(w, task))
		return;
	walk_take_mappings(w, task->mm, born_ns);
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

/*
 * Walks the current task from the sample's registers and fills s. 0: emit the sample. 1: throttled, counted, drop it.
 */
WALK_INLINE int walk_sample(void *ctx, struct brink_sample *s, struct brink_branch *entries, __u32 room)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 slot = bpf_get_smp_processor_id();
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &slot);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &slot);
	struct brink_walk_config config;

	s->direction = BRINK_DIR_FUTURE;
	if (!w || !out)
		return 0;
	if (s->flags & (BRINK_SAMPLE_KERNEL_IP | BRINK_SAMPLE_COMPAT)) {
		s->stop = s->flags & BRINK_SAMPLE_COMPAT ? BRINK_STOP_UNSUPPORTED : BRINK_STOP_NOT_USER;
		return 0;
	}
	if (!walk_bucket_open(w, s->time_ns)) {
		brink_count(BRINK_CNT_THROTTLED);
		return 1;
	}
	config.depth = walk_config.depth;
	config.max_steps = walk_config.max_steps;
	config.kind_mask = walk_config.kind_mask;
	walk_begin(w, &config);
	w->start_ns = s->time_ns;
	w->deadline_ns = walk_config.budget_ns ? s->time_ns + walk_config.budget_ns : 0;
	walk_take_regs(w, ctx);
	walk_go(w, out, task, s->task_start_ns);
	walk_give(w, out, s, entries, room);
	if (w->stop == BRINK_STOP_MISS || w->stop == BRINK_STOP_CODE_CHANGED)
		walk_send_miss(w, s, walk_vm_stamp(task));
	s->walk_ns = bpf_ktime_get_ns() - s->time_ns;
	w->bucket_ns -= s->walk_ns;
	return 0;
}

#endif /* BRINK_WALK_PROGRAM_H_ */
