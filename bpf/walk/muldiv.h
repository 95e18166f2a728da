/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Multiplication and division. */
#ifndef BRINK_WALK_MULDIV_H_
#define BRINK_WALK_MULDIV_H_

#include "walk/alu.h"
#include "walk/pure.h"

/* IMUL with two or three operands: SF, ZF, AF, PF undefined. */
WALK_GLOBAL int walk_imul(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, b, lo, hi;
	__u32 sh, over;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	if ((w->reg[u->src & 31].unk | w->reg[u->src2 & 31].unk) << sh) {
		__u64 ua = w->reg[u->src & 31].unk | w->reg[u->src2 & 31].unk;

		/* Bits below the lowest unknown one are those of the product of what is known. */
		a = w->reg[u->src & 31].val * w->reg[u->src2 & 31].val;
		walk_write(w, u->dst & 31, sh, a, -(ua & -ua));
		walk_flags_all(w, 0, 0);
		return 0;
	}
	a = walk_sext(w->reg[u->src & 31].val, sh);
	b = walk_sext(w->reg[u->src2 & 31].val, sh);
	lo = a * b;
	if (sh) {
		over = walk_sext(lo, sh) != lo;
	} else {
		hi = walk_imul_high(a, b);
		over = hi != (__u64)((__s64)lo >> 63);
	}
	walk_flags_all(w, over ? WALK_CF | WALK_OF : 0, WALK_CF | WALK_OF);
	walk_write(w, u->dst & 31, sh, lo, 0);
	return 0;
}

/* Writes the double-width result of an operation on rdx:rax (ax for 8 bits). */
WALK_INLINE void walk_write_wide(struct brink_walk *w, __u32 sh, __u64 lo, __u64 hi, __u64 unk)
{
	if (sh == 56) {
		walk_write(w, WALK_RAX, 48, (lo & 0xff) | (hi & 0xff) << 8, unk);
		return;
	}
	walk_write(w, WALK_RAX, sh, lo, unk);
	walk_write(w, WALK_RDX, sh, hi, unk);
}

/* MUL1, IMUL1, MULX */
WALK_GLOBAL int walk_mul(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, b, lo, hi, unk, m;
	__u32 sh, over, ai, bi;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	m = walk_mask(sh);
	ai = u->op == BRINK_OP_MULX ? WALK_RDX : WALK_RAX;
	bi = walk_src(u) & 31;
	unk = (w->reg[ai].unk | w->reg[bi].unk) & m;
	a = w->reg[ai].val & m;
	b = w->reg[bi].val & m;
	if (u->op == BRINK_OP_IMUL1) {
		a = walk_sext(a, sh);
		b = walk_sext(b, sh);
	}
	lo = a * b;
	if (sh)
		hi = (u->op == BRINK_OP_IMUL1 ? (__u64)((__s64)lo >> (64 - sh)) : lo >> (64 - sh)) & m;
	else
		hi = u->op == BRINK_OP_IMUL1 ? walk_imul_high(a, b) : walk_mul_high(a, b);
	if (u->op == BRINK_OP_IMUL1)
		over = hi != ((__u64)((__s64)(lo << sh) >> 63) & m);
	else
		over = hi != 0;
	if (unk)
		unk = ~0ull;
	if (u->op == BRINK_OP_MULX) {
		walk_write(w, u->src2 & 31, sh, lo, unk);
		walk_write(w, u->dst & 31, sh, hi, unk);
		return 0;
	}
	walk_write_wide(w, sh, lo, hi, unk);
	walk_flags_all(w, over ? WALK_CF | WALK_OF : 0, unk ? 0 : WALK_CF | WALK_OF);
	return 0;
}

/*
 * T0 : T1 (upper, lower half) by reg[IMM]; upper < divisor. Quotient to T0, rest to T1. Written without branches, and a
 * function of its own: the verifier follows it once.
 */
WALK_GLOBAL int walk_div_wide(struct brink_walk *w)
{
	__u64 hi, lo, d, q = 0;
	__u32 i;

	if (!w)
		return 1;
	hi = w->reg[BRINK_WREG_T0].val;
	lo = w->reg[BRINK_WREG_T1].val;
	d = w->reg[BRINK_WREG_IMM].val;
	for (i = 0; i < 64; i++) {
		__u64 top = hi >> 63, take;

		hi = hi << 1 | lo >> 63;
		lo <<= 1;
		/* take = top || hi >= d, by the borrow of hi - d */
		take = top | (1 ^ (((~hi & d) | (~(hi ^ d) & (hi - d))) >> 63));
		WALK_OPAQUE(take);
		hi -= d & -take;
		q = q << 1 | take;
	}
	w->reg[BRINK_WREG_T0].val = q;
	w->reg[BRINK_WREG_T1].val = hi;
	return 0;
}

/* DIV, IDIV. All flags are undefined. A division fault ends the walk: the program gets a signal. */
WALK_GLOBAL int walk_div(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 hi, lo, d, q, r, m, unk;
	__u32 sh, neg_n = 0, neg_d = 0;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	m = walk_mask(sh);
	d = w->reg[walk_src(u) & 31].val & m;
	unk = w->reg[walk_src(u) & 31].unk & m;
	if (sh == 56) {
		lo = w->reg[WALK_RAX].val & 0xff;
		hi = w->reg[WALK_RAX].val >> 8 & 0xff;
		unk |= w->reg[WALK_RAX].unk & 0xffff;
	} else {
		lo = w->reg[WALK_RAX].val & m;
		hi = w->reg[WALK_RDX].val & m;
		unk |= (w->reg[WALK_RAX].unk | w->reg[WALK_RDX].unk) & m;
	}
	if (unk) {
		walk_write_wide(w, sh, 0, 0, ~0ull);
		walk_flags_all(w, 0, 0);
		return 0;
	}
	if (u->op == BRINK_OP_IDIV) {
		neg_n = hi >> (63 - sh) & 1;
		neg_d = d >> (63 - sh) & 1;
		if (neg_n) {
			lo = -lo & m;
			hi = (~hi + (lo == 0)) & m;
		}
		if (neg_d)
			d = -d & m;
	}
	if (hi >= d)	/* includes division by zero */
		goto fault;
	if (sh) {
		__u64 n = hi << (64 - sh) | lo;

		q = n / d;
		r = n % d;
	} else if (!hi) {
		q = lo / d;
		r = lo % d;
	} else {
		w->reg[BRINK_WREG_T0].val = hi;
		w->reg[BRINK_WREG_T1].val = lo;
		w->reg[BRINK_WREG_IMM].val = d;
		if (walk_div_wide(w))
			return 1;
		q = w->reg[BRINK_WREG_T0].val;
		r = w->reg[BRINK_WREG_T1].val;
	}
	if (u->op == BRINK_OP_IDIV) {
		__u64 limit = 1ull << (63 - sh);

		if (q > limit || (q == limit && neg_n == neg_d))
			goto fault;
		if (neg_n != neg_d)
			q = -q;
		if (neg_n)
			r = -r;
	}
	walk_write_wide(w, sh, q, r, 0);
	walk_flags_all(w, 0, 0);
	return 0;
fault:
	w->fault_address = w->reg[BRINK_WREG_IP].val;
	return walk_stop(w, BRINK_STOP_FAULT);
}

#endif /* BRINK_WALK_MULDIV_H_ */
