/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * String instructions. A repeated one stays at its address and does one element a step (up to eight bytes of a copy or
 * fill), so the walk's budgets bound it and the verifier sees no loop.
 */
#ifndef BRINK_WALK_STRING_H_
#define BRINK_WALK_STRING_H_

#include "walk/misc.h"

#define WALK_REP 1
#define WALK_REPE 2
#define WALK_REPNE 4

/* Loads from rsi or rdi into T0 or T1; an unknown address gives an unknown value. */
WALK_INLINE int walk_string_load(struct brink_walk *w, __u32 at, __u32 msh, __u32 to)
{
	if (w->reg[at].unk) {
		w->reg[to].val = 0;
		w->reg[to].unk = walk_mask(msh);
		return 0;
	}
	return walk_load(w, w->reg[at].val, msh, to);
}

/* One step. w->ml is 1 afterwards when the instruction is to be repeated. */
WALK_GLOBAL int walk_string(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 sh, n, count = 1, op, rep, zf;
	__u64 by;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	n = 8 - (sh >> 3);
	op = u->op;
	rep = u->aux & (WALK_REP | WALK_REPE | WALK_REPNE);
	w->ml = 0;
	if (rep) {
		if (w->reg[WALK_RCX].unk)
			return walk_stop(w, op == BRINK_OP_MOVS || op == BRINK_OP_STOS ? BRINK_STOP_UNKNOWN_STORE : BRINK_STOP_UNKNOWN_CONDITION);
		if (!w->reg[WALK_RCX].val)
			return 0;
	}
	if (w->flags & WALK_DF_UNKNOWN)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if ((op == BRINK_OP_MOVS || op == BRINK_OP_STOS) && w->reg[WALK_RDI].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (rep && n < 8 && !(w->flags & WALK_DF) && w->reg[WALK_RCX].val >= 8 / n &&
	    (op == BRINK_OP_STOS || (op == BRINK_OP_MOVS && w->reg[WALK_RDI].val - w->reg[WALK_RSI].val >= 8))) {
		count = 8 / n;
		sh = 0;
	}
	by = w->flags & WALK_DF ? -(__u64)n : (__u64)n * count;
	switch (op) {
	case BRINK_OP_MOVS:
		if (walk_string_load(w, WALK_RSI, sh, BRINK_WREG_T0) || walk_store(w, w->reg[WALK_RDI].val, sh, BRINK_WREG_T0))
			return 1;
		walk_advance(w, WALK_RSI, by);
		walk_advance(w, WALK_RDI, by);
		break;
	case BRINK_OP_STOS: {
		__u64 m = walk_mask(u->sh), v = w->reg[WALK_RAX].val & m, unk = w->reg[WALK_RAX].unk & m;

		if (count > 1) {
			__u64 copies = n == 1 ? 0x0101010101010101ull : n == 2 ? 0x0001000100010001ull : 0x0000000100000001ull;

			v *= copies;
			unk *= copies;
		}
		w->reg[BRINK_WREG_T0].val = v;
		w->reg[BRINK_WREG_T0].unk = unk;
		if (walk_store(w, w->reg[WALK_RDI].val, sh, BRINK_WREG_T0))
			return 1;
		walk_advance(w, WALK_RDI, by);
		break;
	}
	case BRINK_OP_LODS:
		if (walk_string_load(w, WALK_RSI, sh, BRINK_WREG_T0))
			return 1;
		walk_write(w, WALK_RAX, sh, w->reg[BRINK_WREG_T0].val, w->reg[BRINK_WREG_T0].unk);
		walk_advance(w, WALK_RSI, by);
		break;
	case BRINK_OP_SCAS:
		if (walk_string_load(w, WALK_RDI, sh, BRINK_WREG_T1))
			return 1;
		walk_compare(w, sh, w->reg[WALK_RAX].val, w->reg[WALK_RAX].unk, w->reg[BRINK_WREG_T1].val, w->reg[BRINK_WREG_T1].unk);
		walk_advance(w, WALK_RDI, by);
		break;
	default:
		if (walk_string_load(w, WALK_RSI, sh, BRINK_WREG_T0) || walk_string_load(w, WALK_RDI, sh, BRINK_WREG_T1))
			return 1;
		walk_compare(w, sh, w->reg[BRINK_WREG_T0].val, w->reg[BRINK_WREG_T0].unk, w->reg[BRINK_WREG_T1].val, w->reg[BRINK_WREG_T1].unk);
		walk_advance(w, WALK_RSI, by);
		walk_advance(w, WALK_RDI, by);
		break;
	}
	if (!rep)
		return 0;
	w->reg[WALK_RCX].val -= count;
	if (!w->reg[WALK_RCX].val)
		return 0;
	if (op == BRINK_OP_SCAS || op == BRINK_OP_CMPS) {
		zf = walk_cond(w, 4);
		if (zf == 2) {
			/* This element is done, and counted; whether another follows is what is unknown. */
			w->steps++;
			return walk_stop(w, BRINK_STOP_UNKNOWN_CONDITION);
		}
		if (zf == (rep == WALK_REPNE))
			return 0;
	}
	w->ml = 1;
	return 0;
}

#endif /* BRINK_WALK_STRING_H_ */
