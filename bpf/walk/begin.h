/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What every walk starts with on all machines. */
#ifndef BRINK_WALK_BEGIN_H_
#define BRINK_WALK_BEGIN_H_

#include "walk/env.h"

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

/* Makes everything ready but registers and flags. */
WALK_INLINE void walk_begin_common(struct brink_walk *w, const struct brink_walk_config *config)
{
	__u32 i;

	w->gen++;
	if (w->gen == 0 || w->gen > BRINK_WALK_TAG_GEN)
		walk_forget(w);
	w->stop = 0;
	w->pc = 0;
	w->block = 0;
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
	for (i = 0; i < 32; i++)
		w->vknown[i] = 0;
}

#endif /* BRINK_WALK_BEGIN_H_ */
