/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Branches of A64. */
#ifndef BRINK_WALK_A64_BRANCH_H_
#define BRINK_WALK_A64_BRANCH_H_

#include "walk/a64/reg.h"
#include "walk/taken.h"

#define A64_LR 38

/* The target in a register; authenticated (aux, bits of an address): without its code. 0, or 1: the walk ends. */
WALK_INLINE int a64_target(struct brink_walk *w, const struct brink_uop *u, __u64 *to)
{
	const struct brink_walk_reg *r = a64_reg(w, u->src);
	__u64 m = u->aux ? (1ull << (u->aux & 63)) - 1 : A64_ADDRESS;

	if (r->unk & m)
		return walk_stop(w, BRINK_STOP_UNKNOWN_TARGET);
	*to = r->val & m;
	if (*to & 3) {
		w->fault_address = *to;
		return walk_stop(w, BRINK_STOP_FAULT);
	}
	return 0;
}

WALK_INLINE void a64_link(struct brink_walk *w, const struct brink_uop *u, __u64 ip)
{
	w->reg[A64_LR].val = ip + 4;
	w->reg[A64_LR].unk = 0;
	walk_remember_return(w, ip + 4, walk_next(w, u));
}

/* CBZ, CBNZ: 0, 1, or 2 for unknown. */
WALK_INLINE __u32 a64_compare_zero(struct brink_walk *w, const struct brink_uop *u)
{
	const struct brink_walk_reg *r = a64_reg(w, u->src);
	__u32 sh = u->sh & 63;

	if (r->val << sh)
		return u->aux & 1;
	return r->unk << sh ? 2 : !(u->aux & 1);
}

WALK_INLINE __u32 a64_test_bit(struct brink_walk *w, const struct brink_uop *u)
{
	const struct brink_walk_reg *r = a64_reg(w, u->src);
	__u32 n = u->index & 63;

	if (r->unk >> n & 1)
		return 2;
	return (r->val >> n & 1) ^ (u->aux & 1) ^ 1;
}

/* All branches. 0: went there; 1: the walk ends; 2: not taken. */
WALK_INLINE int a64_branch(struct brink_walk *w, struct brink_walk_out *out, const struct brink_uop *u, __u32 op)
{
	__u64 ip = w->reg[BRINK_WREG_IP].val, to = ip + (__s64)u->to;
	__u32 cond = 1, pc = u->link, type;

	switch (op) {
	case BRINK_A64_BCOND:
	case BRINK_A64_CBZ:
	case BRINK_A64_TBZ:
		if (op == BRINK_A64_BCOND)
			cond = a64_cond(w, u->aux);
		else
			cond = op == BRINK_A64_CBZ ? a64_compare_zero(w, u) : a64_test_bit(w, u);
		if (cond != 1)
			return cond ? walk_stop(w, BRINK_STOP_UNKNOWN_CONDITION) : 2;
		type = WALK_COND;
		break;
	case BRINK_A64_B:
		type = WALK_JUMP;
		break;
	case BRINK_A64_BL:
		a64_link(w, u, ip);
		type = WALK_CALL;
		break;
	case BRINK_A64_BR:
		if (a64_target(w, u, &to))
			return 1;
		pc = 0;
		type = WALK_IND;
		break;
	case BRINK_A64_BLR:
		if (a64_target(w, u, &to))
			return 1;
		a64_link(w, u, ip);
		pc = 0;
		type = WALK_IND_CALL;
		break;
	default:	/* RET */
		if (a64_target(w, u, &to))
			return 1;
		pc = 0;
		if (w->ret_top) {
			struct brink_walk_ret *r = &w->ret[--w->ret_top & (BRINK_WALK_RET_STACK - 1)];

			if (r->address == to)
				pc = r->link;
		}
		type = WALK_RET;
		break;
	}
	return walk_taken(w, out, to, pc, type);
}

#endif /* BRINK_WALK_A64_BRANCH_H_ */
