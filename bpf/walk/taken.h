/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A taken branch: the record of it, and the returns that calls announce. */
#ifndef BRINK_WALK_TAKEN_H_
#define BRINK_WALK_TAKEN_H_

#include "walk/code.h"

/* perf's branch types. */
enum { WALK_COND = 1, WALK_JUMP = 2, WALK_IND = 3, WALK_CALL = 4, WALK_IND_CALL = 5, WALK_RET = 6 };
#define WALK_INFO(type) ((__u64)(type) << 20)

struct walk_ctx {
	struct brink_walk *w;
	struct brink_walk_out *out;
};

/* A taken branch: goes there and records it. 1 ends the walk. */
WALK_INLINE int walk_taken(struct brink_walk *w, struct brink_walk_out *out, __u64 to, __u32 pc, __u32 type)
{
	__u64 from = w->reg[BRINK_WREG_IP].val;
	__u32 at;

	/* Executed, whatever comes of the target. */
	w->steps++;
	w->reg[BRINK_WREG_IP].val = to;
	w->pc = pc;
	if (w->kind_mask >> type & 1) {
		w->nr++;
		at = w->depth - w->nr;
		if (at >= BRINK_MAX_WALK_BRANCHES)
			return walk_stop(w, BRINK_STOP_FULL);
		out->branch[at].from = from;
		out->branch[at].to = to;
		out->branch[at].info = WALK_INFO(type);
		if (!at)
			return walk_stop(w, BRINK_STOP_FULL);
	}
	return pc ? 0 : walk_translate(w);
}

WALK_INLINE void walk_remember_return(struct brink_walk *w, __u64 address, __u32 pc)
{
	struct brink_walk_ret *r = &w->ret[w->ret_top++ & (BRINK_WALK_RET_STACK - 1)];

	r->address = address;
	r->link = pc;
}

#endif /* BRINK_WALK_TAKEN_H_ */
