/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A whole walk of A64 code: begin, (fill in the registers), run. */
#ifndef BRINK_WALK_A64_RUN_H_
#define BRINK_WALK_A64_RUN_H_

#include "walk/a64/step.h"
#include "walk/begin.h"

/*
 * Makes the state ready. The caller then sets the general registers (BRINK_A64_REG), reg[IP], flags (PSTATE's), reg[FS]
 * (TPIDR_EL0), vectors, asid, proc, deadline.
 */
WALK_INLINE void a64_begin(struct brink_walk *w, const struct brink_walk_config *config)
{
	__u32 i;

	walk_begin_common(w, config);
	w->flags_known = A64_NZCV;
	for (i = BRINK_WREG_ZERO; i <= BRINK_WREG_T1; i++) {
		w->reg[i].val = 0;
		w->reg[i].unk = i == BRINK_WREG_FS || i == BRINK_A64_MONITOR ? ~0ull : 0;
	}
}

#ifdef __bpf__

static long a64_callback(__u32 i, void *p)
{
	__u32 ended = a64_step((struct walk_ctx *)p);

	WALK_OPAQUE(ended);
	return ended & 1;
}

/* Walks until w->stop is set. */
WALK_INLINE void a64_run(struct brink_walk *w, struct brink_walk_out *out)
{
	struct walk_ctx c = { .w = w, .out = out };

	if (!w->pc && walk_translate(w))
		return;
	bpf_loop(BRINK_WALK_MAX_STEPS + 1, a64_callback, &c, 0);
	if (!w->stop)
		w->stop = BRINK_STOP_BUDGET;
}

#else

static inline void a64_run(struct brink_walk *w, struct brink_walk_out *out)
{
	struct walk_ctx c = { w, out };

	if (!w->pc && walk_translate(w))
		return;
	while (!a64_step(&c)) {
	}
}

#endif

#endif /* BRINK_WALK_A64_RUN_H_ */
