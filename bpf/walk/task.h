/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Task mode: the sample defers its walk to the thread's return to user space. There the thread is in no hurry:
 * interrupts are on, it may be preempted, and memory that is not present is brought in.
 *
 * The object says how work is scheduled, before it includes this:
 *	#include "walk/task_work.h"
 *	#define WALK_SCHEDULE(task, work, map, callback) ...
 *
 * A request owns one slot (walk_slots, walk_state, walk_out) from the sample to the end of the walk, by thread and not by
 * CPU: others may run in between.
 */
#ifndef BRINK_WALK_TASK_H_
#define BRINK_WALK_TASK_H_

#define BRINK_OWN_SCRATCH
#define BRINK_SCRATCH_BRANCHES BRINK_MAX_WALK_BRANCHES
#include "brink/abi/walk.h"
#include "brink_regs.h"

/* Every kernel that has task work has these. The walk is preemptible: it looks at the mappings under the read lock. */
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
#define WALK_RCU_LOCK() bpf_rcu_read_lock()
#define WALK_RCU_UNLOCK() bpf_rcu_read_unlock()

#include "walk/assist.h"
#include "walk/program.h"
#include "walk/slot.h"
#include "walk/user_regs.h"

/* From the sample to the start of the walk, and to its end; later ones are dropped, for the file is kept in order. */
#define WALK_LATE_START_NS 20000000ull
#define WALK_LATE_END_NS 50000000ull
/* Pages brought in for one walk, at most. */
#define WALK_MOST_FAULTS 64
/* Times that one walk waits for code, at most. */
#define WALK_MOST_LIFTS 64

/* Where a walk begins. An object whose walks begin elsewhere says so before it includes this. */
#ifndef WALK_TAKE_REGS
#define WALK_TAKE_REGS(w, task, slot) walk_take_user_regs(w, task, (slot)->record.sample.ip, (slot)->sp)
#endif

struct walk_task_ctx {
	struct walk_ctx walk;
	__u64 *epoch;
	struct walk_slot *slot;	/* null: in the sampling event (first.h), where nothing waits */
};

/* How a walk begins. */
enum walk_task_how {
	WALK_FRESH = 0,
	WALK_WITH_VECTORS = 1,	/* which are saved */
	WALK_RESUMED = 2,	/* where the first try ended */
};

/* Its epoch ended meanwhile: whatever the walk knows about code may be gone. */
WALK_INLINE void walk_forget_code(struct brink_walk *w)
{
	__u32 i;

	w->stop = 0;
	w->block = 0;
	w->ret_top = 0;
	w->next_clock = w->steps;
	for (i = 0; i < BRINK_WALK_VALID; i++)
		w->valid[i].address = 0;
	for (i = 0; i < BRINK_WALK_XLAT_CACHE; i++)
		w->tlb[i].gen = 0;
}

/*
 * The walk ended: goes on all the same if it was for memory that can be brought in. Everything that can fail in an
 * instruction fails before it changes anything, so the walk resumes where it is; what it knows about code is
 * forgotten, because the epoch ends meanwhile.
 */
static __attribute__((noinline)) long walk_fault_in(struct walk_task_ctx *c)
{
	struct brink_walk *w = c->walk.w;
	__u64 byte = 0;
	long error;

	if (w->stop != BRINK_STOP_FAULT || w->denied || w->faults >= WALK_MOST_FAULTS)
		return 1;
	w->faults++;
	__sync_fetch_and_add(c->epoch, 1);
	error = bpf_copy_from_user(&byte, 1, (const void *)(w->fault_address & ~(__u64)(BRINK_WALK_LINE_SIZE - 1)));
	__sync_fetch_and_add(c->epoch, 1);
	if (error)
		return 1;
	walk_forget_code(w);
	return walk_translate(w);
}

/*
 * The walk came to code that is not lifted: has it lifted now and goes on there. A missing instruction has changed
 * nothing either.
 */
static __attribute__((noinline)) long walk_lift_in(struct walk_task_ctx *c)
{
	struct brink_walk *w = c->walk.w;
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_assist_state *a = walk_assist_of_cpu();
	__u64 start, byte, ns;
	long ended = 1;

	if (!walk_assist.lift || (w->stop != BRINK_STOP_MISS && w->stop != BRINK_STOP_CODE_CHANGED) ||
	    (w->miss_reason != BRINK_MISS_PAGE && w->miss_reason != BRINK_MISS_ENTRY) || w->assists >= WALK_MOST_LIFTS || !a)
		return 1;
	start = bpf_ktime_get_ns();
	if (!walk_assist_open(a, task, BRINK_ASSIST_LIFT, start))
		return 1;
	w->assists++;
	__sync_fetch_and_add(c->epoch, 1);
	bpf_copy_from_user(&byte, 1, (const void *)w->miss_address);
	walk_fill_miss(w, &c->slot->record.sample, &c->slot->miss, walk_vm_stamp(task));
	walk_assist_call(&c->slot->miss, BRINK_ASSIST_LIFT, w->miss_address);
	__sync_fetch_and_add(c->epoch, 1);
	walk_forget_code(w);
	ended = walk_translate(w);
	ns = bpf_ktime_get_ns() - start;
	c->slot->assist_ns += ns;
	if (w->deadline_ns)
		w->deadline_ns += ns;
	walk_assist_done(BRINK_ASSIST_LIFT, ns, !ended);
	return ended;
}

WALK_INLINE long walk_goes_on_after(struct walk_task_ctx *c)
{
	return walk_fault_in(c) && walk_lift_in(c);
}

static long walk_task_step(__u32 i, void *p)
{
	struct walk_task_ctx *c = p;
	long ended;

	if (walk_likely(!walk_step(&c->walk)))
		return 0;
	if (!c->slot)
		return 1;
	ended = walk_goes_on_after(c);
	/* The compiler knows that it is 0 or 1, the verifier does not. */
	WALK_OPAQUE(ended);
	return ended & 1;
}

/* Sets out, from the registers or where the first try ended. 0: there is something to execute. */
WALK_INLINE long walk_task_set_out(struct walk_task_ctx *c, __u32 how)
{
	struct brink_walk *w = c->walk.w;

	if (how == WALK_RESUMED && w->stop != BRINK_STOP_BUDGET)
		return walk_goes_on_after(c);
	if (how == WALK_RESUMED)
		walk_forget_code(w);
	return walk_translate(w) && walk_goes_on_after(c);
}

WALK_INLINE void walk_task_run(struct brink_walk *w, struct brink_walk_out *out, __u64 *epoch, struct walk_slot *slot, __u32 how)
{
	struct walk_task_ctx c = { .walk = { .w = w, .out = out }, .epoch = epoch, .slot = slot };

	__sync_fetch_and_add(epoch, 1);
	if (!walk_task_set_out(&c, how)) {
		bpf_loop(BRINK_WALK_MAX_STEPS + 1, walk_task_step, &c, 0);
		if (!w->stop)
			w->stop = BRINK_STOP_BUDGET;
	}
	__sync_fetch_and_add(epoch, 1);
}

/*
 * Makes ready for a walk from the registers with which the thread goes on. 0; 1: those registers are not the sample's;
 * 2: the walk has ended.
 */
static __attribute__((noinline)) int walk_task_ready(struct walk_slot *slot, __u32 index, __u32 how)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_sample *s = &slot->record.sample;
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);

	if (!w)
		return 1;
	if (how == WALK_RESUMED) {
		const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);

		/* The budget is one walk's, whatever part of it the first try took. */
		walk_set_deadline(w, bpf_ktime_get_ns() - slot->tried_ns);
		walk_take_mappings(w, task->mm, s->task_start_ns);
		return brink_regs_ip(regs) != s->ip || regs->sp != slot->sp;
	}
	w->faults = 0;
	w->assists = 0;
	walk_prepare(w, bpf_ktime_get_ns());
	if (WALK_TAKE_REGS(w, task, slot))
		return 1;
	if (walk_take_space(w, task, s->task_start_ns))
		return 2;
	if (how == WALK_WITH_VECTORS)
		walk_take_vectors(w, walk_fpstate(task));
	return 0;
}

/* One walk. 1: the thread's registers are not the sample's. */
static __attribute__((noinline)) int walk_task_attempt(struct walk_slot *slot, __u32 index, __u32 how)
{
	int state = walk_task_ready(slot, index, how);
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &index);
	struct brink_walk_flight *flight = bpf_map_lookup_elem(&walk_flights, &index);

	if (!w || !out || !flight || state == 1)
		return 1;
	if (!state)
		walk_task_run(w, out, &flight->epoch, slot, how);
	return 0;
}

/*
 * After a walk that ended for want of vector registers: has the thread switched out. 1: they are in memory, it is to be
 * walked again.
 */
static __attribute__((noinline)) int walk_task_save(struct walk_slot *slot, __u32 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);
	struct brink_assist_state *a = walk_assist_of_cpu();
	__u64 start = bpf_ktime_get_ns();
	int failed = 0;

	if (!walk_assist.vectors || !w || !a || !walk_lacks_vectors(w) || !walk_assist_open(a, task, BRINK_ASSIST_VECTORS, start))
		return 0;
	slot->before = w->nr;
	if (walk_switches(task) == slot->switches) {
		slot->kick.type = BRINK_REC_SWITCH;
		slot->kick.size = sizeof(slot->kick);
		failed = walk_assist_call(&slot->kick, BRINK_ASSIST_VECTORS, slot->record.sample.ip);
	}
	slot->waited_ns = bpf_ktime_get_ns() - start;
	slot->assist_ns += slot->waited_ns;
	if (failed)
		walk_assist_done(BRINK_ASSIST_VECTORS, slot->waited_ns, 0);
	return !failed;
}

/* A miss is answered with bytes only: makes the page present first. */
WALK_INLINE void walk_task_miss(const struct brink_walk *w, struct walk_slot *slot, struct task_struct *task)
{
	__u64 byte;

	if (w->miss_reason) {
		bpf_copy_from_user(&byte, 1, (const void *)w->miss_address);
		walk_send_miss(w, &slot->record.sample, &slot->miss, walk_vm_stamp(task));
	}
}

/* Record filter, then the chain that the sample took, behind the entries that are left. */
WALK_INLINE void walk_task_finish(struct walk_slot *slot, __u32 chain_nr)
{
	struct brink_sample *s = &slot->record.sample;
	__u32 nr;

	if ((brink_cfg.flags & BRINK_CFG_FILTER_RECORDS) && s->nr) {
		brink_filter_inputs(&slot->filter.in, s);
		brink_sample_filter_with(s, &slot->filter);
	}
	nr = s->nr;
	WALK_OPAQUE(nr);
	WALK_OPAQUE(chain_nr);
	if (!chain_nr || chain_nr > BRINK_MAX_CHAIN || nr > BRINK_MAX_WALK_BRANCHES)
		return;
	if (!bpf_probe_read_kernel(&slot->record.entries[nr], chain_nr * sizeof(slot->chain[0]), slot->chain))
		s->chain_nr = chain_nr;
}

/* Puts the sample's chain aside: branches come before it. */
static __attribute__((noinline, unused)) int walk_put_chain_aside(struct walk_slot *slot)
{
	struct brink_sample *s = &slot->record.sample;
	__u32 chain_nr = s->chain_nr;

	WALK_OPAQUE(chain_nr);
	if (chain_nr > BRINK_MAX_CHAIN)
		chain_nr = 0;
	if (chain_nr)
		bpf_probe_read_kernel(slot->chain, chain_nr * sizeof(slot->chain[0]), slot->record.entries);
	slot->chain_nr = chain_nr;
	s->chain_nr = 0;
	return 0;
}

/* Emits what came of it. */
static __attribute__((noinline)) int walk_task_end(struct walk_slot *slot, __u32 index)
{
	struct brink_sample *s = &slot->record.sample;
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &index);
	struct brink_assist_state *a = walk_assist_of_cpu();
	__u64 now;

	if (!w || !out || !a)
		return 1;
	walk_give(w, out, s, slot->record.entries, BRINK_MAX_WALK_BRANCHES);
	if (w->stop == BRINK_STOP_MISS || w->stop == BRINK_STOP_CODE_CHANGED)
		walk_task_miss(w, slot, bpf_get_current_task_btf());
	now = bpf_ktime_get_ns();
	s->walk_ns = slot->tried_ns + now - slot->start_ns - slot->assist_ns;
	walk_bucket_pay(s->walk_ns);
	if (now - s->time_ns > WALK_LATE_END_NS)
		return 1;
	walk_task_finish(slot, slot->chain_nr);
	brink_sample_emit(s);
	return 0;
}

/*
 * The walk itself, if the first try has not shown already that it takes vector registers. 1: there is none. What the
 * first try saw stays true of the sample when the thread goes on elsewhere (to a signal's handler).
 */
WALK_INLINE int walk_task_first_attempt(struct walk_slot *slot, __u32 index)
{
	const struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);

	if (!w)
		return 1;
	if (!slot->tried_ns)
		return walk_task_attempt(slot, index, WALK_FRESH);
	if (!walk_lacks_vectors(w))
		walk_task_attempt(slot, index, WALK_RESUMED);
	return 0;
}

/* In the thread, on its way back to user space. 1: too late. */
WALK_INLINE int walk_task_walk(struct walk_slot *slot, __u32 index)
{
	slot->start_ns = bpf_ktime_get_ns();
	slot->assist_ns = 0;
	if (slot->start_ns - slot->record.sample.time_ns > WALK_LATE_START_NS || walk_task_first_attempt(slot, index)) {
		walk_bucket_pay(slot->tried_ns);
		return 1;
	}
	if (walk_task_save(slot, index)) {
		struct brink_walk *w;

		if (walk_task_attempt(slot, index, WALK_WITH_VECTORS))
			return 1;
		w = bpf_map_lookup_elem(&walk_state, &index);
		if (w)
			walk_assist_done(BRINK_ASSIST_VECTORS, slot->waited_ns, w->nr > slot->before);
	}
	return walk_task_end(slot, index);
}

static __attribute__((unused)) int walk_task_work(struct bpf_map *map, void *key, void *value)
{
	struct walk_slot *slot = value;

	if (walk_task_walk(slot, *(__u32 *)key))
		brink_count(BRINK_CNT_LATE);
	walk_release(slot);
	return 0;
}

#endif /* BRINK_WALK_TASK_H_ */
