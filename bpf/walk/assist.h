/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Task mode: what user space does for a walk that waits. A SCHED_FIFO thread of the collector, pinned to this CPU, is
 * woken by a record on a ring of its own and preempts the walk.
 *
 * Lifting: the walk goes on where code was missing. Vectors: the thread was switched out, so its vector registers are in
 * memory and stay true until it returns to user space (the kernel saves them at every switch, x86 __switch_to; nothing
 * but the return loads them again). No BPF program can read them while they are live.
 *
 * Bounded: each wait in time, all waits of a CPU by a bucket, and who fails often is asked rarely.
 */
#ifndef BRINK_WALK_ASSIST_H_
#define BRINK_WALK_ASSIST_H_

#include "brink/abi/walk_assist.h"
#include "walk/program.h"

/* To the switch, and to the answer where the helper itself has to wait (it works some hundred microseconds on a page). */
#define WALK_ASSIST_SWITCH_NS 100000ull
#define WALK_ASSIST_ANSWER_NS 1000000ull
#define WALK_ASSIST_MOST_NS 500000ull
/* A longer wait is one in vain, whatever came of it: on a contested CPU who gives way loses its turn. */
#define WALK_ASSIST_PATIENCE_NS 3000000ull
#define WALK_ASSIST_DEBT 8
#define WALK_ASSIST_RARELY 32

const volatile struct brink_walk_assist walk_assist = {};

/* One a CPU, filled in by user space; none for a CPU without a helper. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);		/* set by user space: CPUs */
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, 65536);
	});
} walk_assist_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_assist_state);
} walk_assist_state SEC(".maps");

WALK_INLINE struct brink_assist_state *walk_assist_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&walk_assist_state, &zero);
}

/* How often the thread was switched out so far. */
WALK_INLINE __u64 walk_switches(const struct task_struct *task)
{
	const struct task_struct___switches *t = (const struct task_struct___switches *)task;

	return BPF_CORE_READ(t, nvcsw) + BPF_CORE_READ(t, nivcsw);
}

/* Waiting time that the CPU has left now. */
WALK_INLINE __s64 walk_assist_refill(struct brink_assist_state *a, __u64 now)
{
	__u64 gap = now - a->time_ns;
	__s64 left = a->left_ns, burst = walk_assist.burst_ns;

	/* Who preempted us has been here since we read the clock. */
	if ((__s64)gap < 0)
		return left;
	if (gap > 1000000000ull)
		gap = 1000000000ull;
	left += gap * walk_assist.permille / 1000;
	if (!a->time_ns || left > burst)
		left = burst;
	a->left_ns = left;
	a->time_ns = now;
	return left;
}

/* Will walk_assist_open say yes a moment later? Who fails often is asked rarely, and is not deferred meanwhile. */
WALK_INLINE int walk_assist_likely(enum brink_assist_kind kind)
{
	struct brink_assist_state *a = walk_assist_of_cpu();

	if (!a || walk_assist_refill(a, bpf_ktime_get_ns()) <= 0)
		return 0;
	if (a->debt[kind] < WALK_ASSIST_DEBT || !(a->turn % WALK_ASSIST_RARELY))
		return 1;
	a->turn++;
	return 0;
}

/* May the walk wait for help of this kind? */
WALK_INLINE int walk_assist_open(struct brink_assist_state *a, const struct task_struct *task, enum brink_assist_kind kind, __u64 now)
{
	const struct task_struct___switches *t = (const struct task_struct___switches *)task;

	if (walk_assist_refill(a, now) <= 0 || (a->debt[kind] >= WALK_ASSIST_DEBT && a->turn++ % WALK_ASSIST_RARELY))
		return 0;
	/* A real-time thread is not preempted by the helper. */
	return BPF_CORE_READ(t, prio) >= 100;
}

WALK_INLINE void walk_assist_done(enum brink_assist_kind kind, __u64 ns, int helped)
{
	struct brink_assist_state *a = walk_assist_of_cpu();

	if (!a)
		return;
	a->asked[kind]++;
	a->waited_ns[kind] += ns;
	/* On a busy CPU others had their turn meanwhile: their time is no cost of ours. */
	a->left_ns -= ns < WALK_ASSIST_MOST_NS ? ns : WALK_ASSIST_MOST_NS;
	if (helped)
		a->helped[kind]++;
	if (helped && ns < WALK_ASSIST_PATIENCE_NS)
		a->debt[kind] = 0;
	else if (a->debt[kind] < WALK_ASSIST_DEBT)
		a->debt[kind]++;
}

struct walk_yield {
	__u64 switches;
	__u64 until_ns;
	__u64 address;
	__u32 kind;	/* enum brink_assist_kind */
	__u32 cpu;
};

/* Records that the helper of a CPU has not worked off. */
WALK_INLINE __u64 walk_assist_waiting(__u32 cpu)
{
	void *ring = bpf_map_lookup_elem(&walk_assist_rings, &cpu);

	return ring ? bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) : 0;
}

/* Reading one's own memory the long way passes a point where the kernel gives way, whatever its preemption model. */
static long walk_yield_once(__u32 i, void *p)
{
	struct walk_yield *y = p;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 byte;

	bpf_copy_from_user_task(&byte, 1, (const void *)y->address, task, 0);
	if (y->kind == BRINK_ASSIST_LIFT ? !walk_assist_waiting(y->cpu) : walk_switches(task) != y->switches)
		return 1;
	return bpf_ktime_get_ns() > y->until_ns;
}

/* Wakes this CPU's helper with a record and gives way. 0: it has been worked off (code), the thread was switched out. */
static __attribute__((noinline)) int walk_assist_call(void *record, __u32 kind, __u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct walk_yield y = { .address = address, .kind = kind, .cpu = cpu };
	void *ring = bpf_map_lookup_elem(&walk_assist_rings, &cpu);
	long error;

	if (!ring)
		return 1;
	y.switches = walk_switches(task);
	y.until_ns = bpf_ktime_get_ns() + (kind == BRINK_ASSIST_LIFT ? WALK_ASSIST_ANSWER_NS : WALK_ASSIST_SWITCH_NS);
	if (kind == BRINK_ASSIST_LIFT)
		error = bpf_ringbuf_output(ring, record, sizeof(struct brink_miss), BPF_RB_FORCE_WAKEUP);
	else
		error = bpf_ringbuf_output(ring, record, sizeof(struct brink_rec_header), BPF_RB_FORCE_WAKEUP);
	if (error)
		return 1;
	bpf_loop(65536, walk_yield_once, &y, 0);
	return kind == BRINK_ASSIST_LIFT ? walk_assist_waiting(cpu) != 0 : walk_switches(task) == y.switches;
}

/* Address of the area where the kernel saves the thread's registers; 0: not found. */
WALK_INLINE __u64 walk_fpstate(const struct task_struct *task)
{
	const void *fpu = (const void *)task + bpf_core_type_size(struct task_struct);
	__u64 state = 0;

	if (bpf_probe_read_kernel(&state, sizeof(state), fpu + bpf_core_field_offset(struct fpu, fpstate)))
		return 0;
	return state;
}

/*
 * Takes the vector and mask registers that the kernel saved (`state`: address of its struct fpstate). 0, or 1: they are
 * not in a form that is known; nothing is changed then.
 */
WALK_GLOBAL int walk_take_vectors(struct brink_walk *w, __u64 state)
{
	__u64 area = state, has = 0, compact = 0;
	__u32 i, avx, masks, zmm_hi, hi_zmm;

	if (!w || !state)
		return 1;
	area += bpf_core_field_offset(struct fpstate, regs);
	if (bpf_probe_read_kernel(&has, sizeof(has), (const void *)(area + 512)) ||
	    bpf_probe_read_kernel(&compact, sizeof(compact), (const void *)(area + 520)))
		return 1;
	/* Without a form: not compacted, or never saved where the kernel compacts. */
	if (compact ? !(compact >> 63) || (compact & BRINK_XSTATE_LOW) != walk_assist.compact_low
		    : walk_assist.vectors != BRINK_VECTORS_EITHER)
		return 1;
	avx = compact ? walk_assist.compact[BRINK_XPART_AVX] : walk_assist.standard[BRINK_XPART_AVX];
	masks = compact ? walk_assist.compact[BRINK_XPART_MASKS] : walk_assist.standard[BRINK_XPART_MASKS];
	zmm_hi = compact ? walk_assist.compact[BRINK_XPART_ZMM_HI] : walk_assist.standard[BRINK_XPART_ZMM_HI];
	hi_zmm = compact ? walk_assist.compact[BRINK_XPART_HI_ZMM] : walk_assist.standard[BRINK_XPART_HI_ZMM];
	for (i = 0; i < 32; i++) {
		__u64 *v = (__u64 *)w->vreg[i].data;
		long error = 0;

		/* A component that is not there has its initial value: zero. */
		v[0] = v[1] = v[2] = v[3] = v[4] = v[5] = v[6] = v[7] = 0;
		if (i < 16) {
			if (has & BRINK_XSTATE_SSE)
				error |= bpf_probe_read_kernel(v, 16, (const void *)(area + 160 + 16 * i));
			if (avx && (has & BRINK_XSTATE_AVX))
				error |= bpf_probe_read_kernel(v + 2, 16, (const void *)(area + avx + 16 * i));
			if (zmm_hi && (has & BRINK_XSTATE_ZMM_HI))
				error |= bpf_probe_read_kernel(v + 4, 32, (const void *)(area + zmm_hi + 32 * i));
		} else if (hi_zmm && (has & BRINK_XSTATE_HI_ZMM)) {
			error |= bpf_probe_read_kernel(v, 64, (const void *)(area + hi_zmm + 64 * (i - 16)));
		}
		w->vknown[i] = error ? 0 : ~0ull;
	}
	for (i = 0; i < 8; i++) {
		__u64 k = 0;
		long error = 0;

		if (masks && (has & BRINK_XSTATE_MASKS))
			error = bpf_probe_read_kernel(&k, 8, (const void *)(area + masks + 8 * i));
		w->reg[BRINK_WREG_K0 + i].val = error ? 0 : k;
		w->reg[BRINK_WREG_K0 + i].unk = error ? ~0ull : 0;
	}
	w->vectors = 1;
	return 0;
}

/* The walk ended for want of a value that a vector or mask register may have held. */
WALK_INLINE int walk_lacks_vectors(const struct brink_walk *w)
{
	return !w->vectors && (w->stop == BRINK_STOP_UNKNOWN_CONDITION || w->stop == BRINK_STOP_UNKNOWN_TARGET || w->stop == BRINK_STOP_UNKNOWN_STORE);
}

#endif /* BRINK_WALK_ASSIST_H_ */
