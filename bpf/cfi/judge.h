/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is judged on the spot, over one window of records in the slot: P1, a P2 within the window, and the window's name
 * (a hash), by which windows that were sent before are known again. P8 and P10 are the check's. User space judges the
 * whole; this is what an action in the kernel goes by.
 */
#ifndef BRINK_BPF_CFI_JUDGE_H_
#define BRINK_BPF_CFI_JUDGE_H_

#include "cfi/machine.h"
#include "cfi/slot.h"

/* P1 of a return to `to`: 1 where no call ends there and it is no restorer. What cannot be read is no answer. */
static __attribute__((noinline)) int cfi_no_call_site(__u64 to)
{
	return !cfi_call_before(to) && !cfi_restores(to);
}

/*
 * A program that has just been executed: where the kernel entered it, and when. What hardware recorded before belongs to
 * code that is not mapped any more. Only for a while: nobody else comes by there later but who wants to be forgotten.
 */
struct cfi_begun {
	__u64 ip;
	__u64 time_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct cfi_begun);
} cfi_begun_at SEC(".maps");

#define CFI_BEGINS_NS 1000000000ull

/* Before a window of the past is judged. */
brink_always_inline void cfi_know_beginning(struct cfi_slot *slot)
{
	__u32 tgid = slot->sample.tgid;
	const struct cfi_begun *begun = bpf_map_lookup_elem(&cfi_begun_at, &tgid);

	slot->begins = begun && slot->sample.time_ns - begun->time_ns < CFI_BEGINS_NS ? begun->ip : 0;
}

/* The kernel has led the thread to `to`: a program's beginning, the end of a call or an interrupt, a signal's handler. */
brink_always_inline void cfi_from_kernel(struct cfi_slot *slot, __u32 at, __u64 to)
{
	if (slot->begins && to == slot->begins) {
		slot->top = 0;
		slot->marked = 0;
		slot->cfi.index = 0;
		slot->cfi.verdict &= ~(BRINK_CFI_P1 | BRINK_CFI_P2);
		slot->cfi.begun = at + 1;
	} else if (!slot->marked) {
		slot->marked = 1;
		slot->mark = slot->top;
	}
}

static long cfi_judge_one(__u32 i, void *data)
{
	struct cfi_slot *slot = *(struct cfi_slot **)data;
	__u32 nr = slot->sample.nr, at = nr - 1 - i, type, bad = 0;
	const struct brink_branch *b;
	__u64 from, to;

	if (i >= nr || at >= BRINK_CFI_DEPTH)
		return 1;
	b = (const struct brink_branch *)&slot->room[at * sizeof(*b)];
	from = b->from;
	to = b->to;
	type = b->info >> 20 & 0xf;
	if (slot->sample.direction == BRINK_DIR_PAST && (__s64)from < 0) {
		cfi_from_kernel(slot, at, to);
		return 0;
	}
	/* Hardware need not say it; calls and returns only. */
	if (!type && slot->sample.direction == BRINK_DIR_PAST)
		type = cfi_kind_at(from);
	slot->name = (slot->name ^ from) * 0x9e3779b97f4a7c15ull;
	slot->name = (slot->name ^ to ^ slot->name >> 29) * 0xbf58476d1ce4e5b9ull;
	if (type == WALK_CALL || type == WALK_IND_CALL) {
		slot->call[slot->top++ & (BRINK_CFI_DEPTH - 1)] = from;
	} else if (type == WALK_RET && slot->top) {
		__u64 call = slot->call[--slot->top & (BRINK_CFI_DEPTH - 1)];

		/*
		 * A handler's: what was open before the kernel called it is open still. Where the kernel has not led the
		 * thread anywhere since the call that is open, there is no handler.
		 */
		if (!cfi_follows(to, call) && slot->marked && slot->top + 1 >= slot->mark && cfi_restores(to))
			slot->top++;
		else if (!cfi_follows(to, call) && !cfi_captures(call))
			bad = BRINK_CFI_P2;
		else if (!cfi_follows(to, call) && slot->top) {
			/* What the thunk stands for: a return, which takes its call along; a jump or call does not. */
			call = slot->call[(slot->top - 1) & (BRINK_CFI_DEPTH - 1)];
			if (cfi_follows(to, call))
				slot->top--;
		}
		if (slot->top < slot->mark)
			slot->marked = 0;
	} else if (type == WALK_RET && cfi_no_call_site(to)) {
		bad = BRINK_CFI_P1;
	}
	if (bad) {
		if (!slot->cfi.verdict)
			slot->cfi.index = at;
		slot->cfi.verdict |= bad;
	}
	return 0;
}

/* Oldest record first, as the program ran (or will run). */
brink_always_inline void cfi_judge(struct cfi_slot *slot, __u64 seed)
{
	struct cfi_slot *data = slot;

	slot->name = seed;
	slot->top = 0;
	slot->marked = slot->mark = 0;
	slot->cfi.begun = 0;
	bpf_loop(BRINK_CFI_DEPTH, cfi_judge_one, &data, 0);
}

#endif /* BRINK_BPF_CFI_JUDGE_H_ */
