/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sampling event of task mode. Deferring a walk costs a self-interrupt and the way through task work, more than many a
 * walk does. So the walk is tried at once, within a budget of its own; what nothing could carry further is the sample.
 * Only what ended for want of time, code, memory or vector registers is deferred, and goes on from there (task.h).
 */
#ifndef BRINK_WALK_FIRST_H_
#define BRINK_WALK_FIRST_H_

#include "walk/task.h"

/* From the sample to the end of the first try; 0: none is made (deep walks, PREEMPT_RT, --walk-mode task). */
const volatile __u32 walk_first_ns = 0;

static __attribute__((noinline)) int walk_first_walk(void *ctx, struct walk_slot *slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_sample *s = &slot->record.sample;
	__u32 index = slot->index;
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &index);
	struct walk_task_ctx c = {};

	if (!w || !out)
		return 1;
	w->faults = 0;
	w->assists = 0;
	walk_prepare(w, s->time_ns);
	w->deadline_ns = s->time_ns + walk_first_ns;
	walk_take_regs(w, ctx);
	if (walk_take_space(w, task, s->task_start_ns) || walk_translate(w))
		return 0;
	c.walk.w = w;
	c.walk.out = out;
	bpf_loop(BRINK_WALK_MAX_STEPS + 1, walk_task_step, &c, 0);
	if (!w->stop)
		w->stop = BRINK_STOP_BUDGET;
	return 0;
}

/* Would the walk get further in the thread? */
static __attribute__((noinline)) int walk_first_needs_more(const struct brink_walk *w)
{
	switch (w->stop) {
	case BRINK_STOP_BUDGET:
		return w->steps < w->max_steps && walk_config.budget_ns > 2 * walk_first_ns;
	case BRINK_STOP_FAULT:
		return !w->denied;
	case BRINK_STOP_MISS:
	case BRINK_STOP_CODE_CHANGED:
		return walk_assist.lift && (w->miss_reason == BRINK_MISS_PAGE || w->miss_reason == BRINK_MISS_ENTRY) &&
		       walk_assist_likely(BRINK_ASSIST_LIFT);
	default:
		return walk_assist.vectors && walk_lacks_vectors(w) && walk_assist_likely(BRINK_ASSIST_VECTORS);
	}
}

/* The first try is the sample. */
static __attribute__((noinline)) int walk_first_end(struct walk_slot *slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_sample *s = &slot->record.sample;
	__u32 index = slot->index;
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &index);

	if (!w || !out)
		return 1;
	walk_give(w, out, s, slot->record.entries, BRINK_MAX_WALK_BRANCHES);
	if (w->stop == BRINK_STOP_MISS || w->stop == BRINK_STOP_CODE_CHANGED)
		walk_send_miss(w, s, &slot->miss, walk_vm_stamp(task));
	s->walk_ns = bpf_ktime_get_ns() - s->time_ns;
	walk_bucket_pay(s->walk_ns);
	walk_task_finish(slot, slot->chain_nr);
	brink_sample_emit(s);
	return 0;
}

/* 1: the sample is done. */
WALK_INLINE int walk_first_try(void *ctx, struct walk_slot *slot)
{
	__u32 index = slot->index;
	const struct brink_walk *w;

	slot->tried_ns = 0;
	if (!walk_first_ns || walk_first_walk(ctx, slot))
		return 0;
	w = bpf_map_lookup_elem(&walk_state, &index);
	if (!w)
		return 0;
	slot->tried_ns = bpf_ktime_get_ns() - slot->record.sample.time_ns;
	if (walk_first_needs_more(w))
		return 0;
	walk_first_end(slot);
	return 1;
}

/* In the sampling event: takes down where it hit, walks, and asks for more. */
WALK_INLINE void walk_task_sample(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct walk_bucket *bucket = walk_bucket();
	int user = brink_ctx_user_mode(ctx);
	struct walk_slot *slot;
	struct brink_sample *s;

	if (!brink_sample_wanted(ctx, task, user) || !bucket)
		return;
	if (!walk_bucket_open(bucket, bpf_ktime_get_ns())) {
		brink_count(BRINK_CNT_THROTTLED);
		return;
	}
	slot = walk_claim();
	if (!slot) {
		brink_count(BRINK_CNT_RECURSION);
		return;
	}
	s = &slot->record.sample;
	if (!brink_sample_start(ctx, s, task, user))
		goto release;
	walk_under_way(slot, s->time_ns);
	s->direction = BRINK_DIR_FUTURE;
	brink_sample_chain(ctx, s);
	if (s->flags & (BRINK_SAMPLE_KERNEL_IP | BRINK_SAMPLE_COMPAT)) {
		s->stop = s->flags & BRINK_SAMPLE_COMPAT ? BRINK_STOP_UNSUPPORTED : BRINK_STOP_NOT_USER;
		brink_sample_emit(s);
		goto release;
	}
	walk_put_chain_aside(slot);
	slot->sp = brink_ctx_sp(ctx);
	slot->switches = walk_switches(task);
	if (walk_first_try(ctx, slot))
		goto release;
	if (!WALK_SCHEDULE(task, &slot->work, &walk_slots, walk_task_work))
		return;
	if (slot->tried_ns)
		walk_first_end(slot);
	else
		brink_count(BRINK_CNT_RECURSION);
release:
	walk_release(slot);
}

#endif /* BRINK_WALK_FIRST_H_ */
