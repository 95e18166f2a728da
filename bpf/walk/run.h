/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A whole walk: begin, (fill in the registers), run. */
#ifndef BRINK_WALK_RUN_H_
#define BRINK_WALK_RUN_H_

#include "walk/step.h"

/* Forgets what earlier walks left in the state. */
WALK_GLOBAL int walk_forget(struct brink_walk *w)
{
	__u32 i;

	if (!w)
		return 1;
	for (i = 0; i < BRINK_WALK_LINES; i++) {
		w->where[i] = 0;
		asm volatile("" : : : "memory");	/* there is no memset to call */
	}
	for (i = 0; i < BRINK_WALK_VALID; i++)
		w->valid[i].address = 0;
	for (i = 0; i < BRINK_WALK_XLAT_CACHE; i++)
		w->tlb[i].gen = 0;
	w->gen = 1;
	return 0;
}

/* Makes the state ready. The caller then sets reg[0..15], reg[IP], flags, reg[FS], reg[GS], asid, proc, deadline. */
WALK_INLINE void walk_begin(struct brink_walk *w, const struct brink_walk_config *config)
{
	__u32 i;

	w->gen++;
	if (w->gen == 0 || w->gen > BRINK_WALK_TAG_GEN)
		walk_forget(w);
	w->flags_known = WALK_ARITH;
	w->stop = 0;
	w->pc = 0;
	w->line = 0;
	w->steps = 0;
	w->max_steps = config->max_steps < BRINK_WALK_MAX_STEPS ? config->max_steps : BRINK_WALK_MAX_STEPS;
	w->nr = 0;
	w->depth = config->depth < BRINK_MAX_WALK_BRANCHES ? config->depth : BRINK_MAX_WALK_BRANCHES;
	w->kind_mask = config->kind_mask;
	w->ret_top = 0;
	w->next_clock = w->max_steps < BRINK_WALK_CLOCK_STEPS ? w->max_steps : BRINK_WALK_CLOCK_STEPS;
	w->miss_reason = 0;
	w->miss_slot = 0;
	w->miss_address = 0;
	w->fault_address = 0;
	w->deadline_ns = 0;
	w->fills = 0;
	w->validated = 0;
	w->code_pages = 0;
	w->mm = 0;
	w->denied = 0;
	w->vectors = 0;
	w->strays = 0;
	w->nr_lines = 0;
	for (i = BRINK_WREG_ZERO; i < BRINK_WREG_K0; i++) {
		w->reg[i].val = 0;
		w->reg[i].unk = i == BRINK_WREG_FS || i == BRINK_WREG_GS ? ~0ull : 0;
	}
	for (i = BRINK_WREG_K0; i < BRINK_WREG_COUNT; i++) {
		w->reg[i].val = 0;
		w->reg[i].unk = ~0ull;
	}
	for (i = 0; i < 32; i++)
		w->vknown[i] = 0;
}

#ifdef __bpf__

static long walk_callback(__u32 i, void *p)
{
	__u32 ended = walk_step((struct walk_ctx *)p);

	/* The compiler knows that it is 0 or 1; the verifier wants to see it. */
	WALK_OPAQUE(ended);
	return ended & 1;
}

/* Walks until w->stop is set. */
WALK_INLINE void walk_run(struct brink_walk *w, struct brink_walk_out *out)
{
	struct walk_ctx c = { .w = w, .out = out };

	if (!w->pc && walk_translate(w))
		return;
	bpf_loop(BRINK_WALK_MAX_STEPS + 1, walk_callback, &c, 0);
	if (!w->stop)
		w->stop = BRINK_STOP_BUDGET;
}

#else

static inline void walk_run(struct brink_walk *w, struct brink_walk_out *out)
{
	struct walk_ctx c = { w, out };

	if (!w->pc && walk_translate(w))
		return;
	while (!walk_step(&c)) {
	}
}

#endif

#endif /* BRINK_WALK_RUN_H_ */
