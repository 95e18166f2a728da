/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Branches: where they go. */
#ifndef BRINK_WALK_BRANCH_H_
#define BRINK_WALK_BRANCH_H_

#include "walk/alu.h"
#include "walk/taken.h"

/* JRCXZ and LOOP: is it taken? 2: unknown. */
WALK_INLINE __u32 walk_counted(struct brink_walk *w, const struct brink_uop *u, __u32 op)
{
	__u32 cond;

	if (w->reg[WALK_RCX].unk << (u->sh & 63))
		return 2;
	if (op == BRINK_OP_JRCXZ)
		return !(w->reg[WALK_RCX].val << (u->sh & 63));
	cond = u->aux ? walk_cond(w, u->aux == 1 ? 4 : 5) : 1;
	if (cond == 2)
		return 2;
	walk_write(w, WALK_RCX, u->sh, w->reg[WALK_RCX].val - 1, 0);
	return w->reg[WALK_RCX].val << (u->sh & 63) && cond;
}

/* Pushes the return address of a call. 0, or 1: the walk ends. */
WALK_INLINE int walk_call(struct brink_walk *w, const struct brink_uop *u, __u64 back)
{
	if (w->reg[WALK_RSP].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	w->reg[BRINK_WREG_T0].val = back;
	w->reg[BRINK_WREG_T0].unk = 0;
	if (walk_store(w, w->reg[WALK_RSP].val - 8, 0, BRINK_WREG_T0))
		return 1;
	w->reg[WALK_RSP].val -= 8;
	walk_remember_return(w, back, walk_next(w, u));
	return 0;
}

/* All branches. 0: went there; 1: the walk ends; 2: not taken. */
WALK_INLINE int walk_branch(struct brink_walk *w, struct brink_walk_out *out, const struct brink_uop *u, __u32 op)
{
	__u64 ip = w->reg[BRINK_WREG_IP].val, to = ip + (__s64)u->to;
	__u32 cond, pc = u->link, type;

	switch (op) {
	case BRINK_OP_JCC:
		cond = walk_cond(w, u->aux);
		if (cond != 1)
			return cond ? walk_stop(w, BRINK_STOP_UNKNOWN_CONDITION) : 2;
		type = WALK_COND;
		break;
	case BRINK_OP_JMP:
		type = WALK_JUMP;
		break;
	case BRINK_OP_JMPI:
		if (w->reg[u->src & 31].unk)
			return walk_stop(w, BRINK_STOP_UNKNOWN_TARGET);
		to = w->reg[u->src & 31].val;
		pc = 0;
		type = WALK_IND;
		break;
	case BRINK_OP_CALL:
	case BRINK_OP_CALLI:
		type = WALK_CALL;
		if (op == BRINK_OP_CALLI) {
			if (w->reg[u->src & 31].unk)
				return walk_stop(w, BRINK_STOP_UNKNOWN_TARGET);
			to = w->reg[u->src & 31].val;
			pc = 0;
			type = WALK_IND_CALL;
		}
		if (walk_call(w, u, ip + walk_len(u)))
			return 1;
		break;
	case BRINK_OP_RET:
		if (w->reg[BRINK_WREG_MEM].unk)
			return walk_stop(w, BRINK_STOP_UNKNOWN_TARGET);
		to = w->reg[BRINK_WREG_MEM].val;
		w->reg[WALK_RSP].val += 8 + (__u64)(__u32)walk_imm(w);
		pc = 0;
		if (w->ret_top) {
			struct brink_walk_ret *r = &w->ret[--w->ret_top & (BRINK_WALK_RET_STACK - 1)];

			if (r->address == to)
				pc = r->link;
		}
		type = WALK_RET;
		break;
	default:	/* JRCXZ, LOOP */
		cond = walk_counted(w, u, op);
		if (cond != 1)
			return cond ? walk_stop(w, BRINK_STOP_UNKNOWN_CONDITION) : 2;
		type = WALK_COND;
		break;
	}
	return walk_taken(w, out, to, pc, type);
}

#endif /* BRINK_WALK_BRANCH_H_ */
