/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A whole walk: begin, (fill in the registers), run. */
#ifndef BRINK_WALK_RUN_H_
#define BRINK_WALK_RUN_H_

#include "walk/begin.h"
#include "walk/step.h"

/* Makes the state ready. The caller then sets reg[0..15], reg[IP], flags, reg[FS], reg[GS], asid, proc, deadline. */
WALK_INLINE void walk_begin(struct brink_walk *w, const struct brink_walk_config *config)
{
	__u32 i;

	walk_begin_common(w, config);
	w->flags_known = WALK_ARITH;
	for (i = BRINK_WREG_ZERO; i < BRINK_WREG_K0; i++) {
		w->reg[i].val = 0;
		w->reg[i].unk = i == BRINK_WREG_FS || i == BRINK_WREG_GS ? ~0ull : 0;
	}
	for (i = BRINK_WREG_K0; i < BRINK_WREG_K0 + 8; i++) {
		w->reg[i].val = 0;
		w->reg[i].unk = ~0ull;
	}
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
