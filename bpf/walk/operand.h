/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What every step does alike on all machines: budgets, and the memory operand. */
#ifndef BRINK_WALK_OPERAND_H_
#define BRINK_WALK_OPERAND_H_

#include "walk/memory.h"

/* Budgets; every BRINK_WALK_CLOCK_STEPS steps. */
WALK_GLOBAL int walk_clock(struct brink_walk *w)
{
	__u64 now, left;
	__u32 next = BRINK_WALK_CLOCK_STEPS;

	if (!w)
		return 1;
	if (w->steps >= w->max_steps)
		return walk_stop(w, BRINK_STOP_BUDGET);
	if (w->deadline_ns) {
		now = WALK_CLOCK();
		if (now >= w->deadline_ns)
			return walk_stop(w, BRINK_STOP_BUDGET);
		/* Close to the end the clock is read more often: a step in cold caches takes up to half a microsecond. */
		left = (w->deadline_ns - now) >> 9;
		if (left < next)
			next = left < 2 ? 2 : left;
	}
	next += w->steps;
	w->next_clock = next < w->max_steps ? next : w->max_steps;
	return 0;
}

/* Resolves, and with LOAD reads, the memory operand. Everything that can fail, fails here. */
WALK_INLINE int walk_operand(struct brink_walk *w, const struct brink_uop *u, __u32 flags)
{
	__u32 msh = u->msh & 63, n = 8 - (msh >> 3), offset = w->ea & 63;
	int i;

	if (walk_unlikely(w->reg[BRINK_WREG_MEM].unk)) {
		if (flags & BRINK_UOP_STORE)
			return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
		w->reg[BRINK_WREG_MEM].val = 0;
		w->reg[BRINK_WREG_MEM].unk = walk_mask(msh);
		return 0;
	}
	if (walk_unlikely(offset + n > 64)) {
		if (walk_load(w, w->ea, msh, BRINK_WREG_MEM))
			return 1;
		w->ml = WALK_LINE_NONE;
		return 0;
	}
	i = walk_line(w, w->ea);
	if (i < 0)
		return 1;
	w->ml = i;
	if (flags & BRINK_UOP_LOAD)
		walk_line_load(w, i, offset, msh, &w->reg[BRINK_WREG_MEM]);
	return 0;
}

#endif /* BRINK_WALK_OPERAND_H_ */
