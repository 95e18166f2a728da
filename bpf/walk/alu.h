/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Register access, and arithmetic with operands that are partly unknown. */
#ifndef BRINK_WALK_ALU_H_
#define BRINK_WALK_ALU_H_

#include "walk/flags.h"
#include "walk/memory.h"
#include "walk/pure.h"

/* Numbers of the operands; ah, ch, dh, bh are worked on in T1 and T0 (walk_high_in, walk_high_out). */
WALK_INLINE __u32 walk_dst(const struct brink_uop *u)
{
	return u->flags & BRINK_UOP_HI_DST ? BRINK_WREG_T1 : u->dst & 31;
}

WALK_INLINE __u32 walk_src(const struct brink_uop *u)
{
	return u->flags & BRINK_UOP_HI_SRC ? BRINK_WREG_T0 : u->src & 31;
}

WALK_INLINE void walk_high_in(struct brink_walk *w, const struct brink_uop *u)
{
	if (u->flags & BRINK_UOP_HI_SRC) {
		w->reg[BRINK_WREG_T0].val = w->reg[u->src & 3].val >> 8 & 0xff;
		w->reg[BRINK_WREG_T0].unk = w->reg[u->src & 3].unk >> 8 & 0xff;
	}
	if (u->flags & BRINK_UOP_HI_DST) {
		w->reg[BRINK_WREG_T1].val = w->reg[u->dst & 3].val >> 8 & 0xff;
		w->reg[BRINK_WREG_T1].unk = w->reg[u->dst & 3].unk >> 8 & 0xff;
	}
}

WALK_INLINE void walk_high_out(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg *r = &w->reg[u->dst & 3];

	r->val = (r->val & ~0xff00ull) | (w->reg[BRINK_WREG_T1].val & 0xff) << 8;
	r->unk = (r->unk & ~0xff00ull) | (w->reg[BRINK_WREG_T1].unk & 0xff) << 8;
}

/* Writes a register as the machine does: 64 and 32 bits whole, 16 and 8 bits into the old value. */
WALK_INLINE void walk_write(struct brink_walk *w, __u32 i, __u32 sh, __u64 val, __u64 unk)
{
	struct brink_walk_reg *r = &w->reg[i & 31];
	__u64 m = walk_mask(sh);

	unk &= m;
	val &= m & ~unk;
	if (sh > 32) {
		val |= r->val & ~m;
		unk |= r->unk & ~m;
	}
	r->val = val;
	r->unk = unk;
}

/* Moves a pointer; an unknown one becomes unknown throughout. */
WALK_INLINE void walk_advance(struct brink_walk *w, __u32 i, __u64 by)
{
	struct brink_walk_reg *r = &w->reg[i];

	if (!r->unk) {
		r->val += by;
	} else {
		r->val = 0;
		r->unk = ~0ull;
	}
}

/* ZF, SF and PF of a partly unknown result; val and unk are shifted up by sh. */
WALK_INLINE void walk_result_flags(__u64 val, __u64 unk, __u32 sh, __u32 *flags, __u32 *known)
{
	*flags = (val >> 63) << 7 | walk_parity(val >> (sh & 63)) << 2;
	*known = unk >> 63 ? 0 : WALK_SF;
	if (!unk) {
		*flags |= val == 0 ? WALK_ZF : 0;
		*known |= WALK_ZF;
	} else if (val) {
		*known |= WALK_ZF;
	}
	if (!(unk >> (sh & 63) & 0xff))
		*known |= WALK_PF;
	*flags &= *known;
}

/* All arithmetic flags at once. */
WALK_INLINE void walk_flags_all(struct brink_walk *w, __u32 value, __u32 known)
{
	w->flags = (w->flags & ~WALK_ARITH) | (value & known & WALK_ARITH);
	w->flags_known = known & WALK_ARITH;
}

/* CF and OF of a - b, as far as the ranges and the signs of the operands decide them. */
WALK_INLINE void walk_unk_sub_flags(const struct walk_pair *a, __u64 bval, __u64 bunk, __u32 *flags, __u32 *known)
{
	if ((a->val | a->unk) < bval) {
		*flags |= WALK_CF;
		*known |= WALK_CF;
	} else if (a->val >= (bval | bunk)) {
		*known |= WALK_CF;
	}
	if (!((a->unk | bunk) >> 63) && !((a->val ^ bval) >> 63))
		*known |= WALK_OF;
}

/* ADD .. TEST with unknown bits in an operand. */
WALK_GLOBAL int walk_alu_unknown(struct brink_walk *w, const struct brink_uop *u)
{
	struct walk_pair r;
	__u64 bval, bunk;
	__u32 sh, di, si, flags, known, op, cf_flags = 0, cf_known = 0;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	op = u->op;
	di = walk_dst(u) & 31;
	si = walk_src(u) & 31;
	r.val = w->reg[di].val << sh;
	r.unk = w->reg[di].unk << sh;
	bval = w->reg[si].val << sh;
	bunk = w->reg[si].unk << sh;
	if (op == BRINK_OP_ADD) {
		if (!((r.unk | bunk) >> 63) && (r.val ^ bval) >> 63)
			cf_known = WALK_OF;
		walk_unk_add(&r, bval, bunk);
	} else if (op == BRINK_OP_SUB || op == BRINK_OP_CMP) {
		if (di == si) {
			r.val = 0;
			r.unk = 0;
			cf_known = WALK_CF | WALK_OF | WALK_AF;
		} else {
			walk_unk_sub_flags(&r, bval, bunk, &cf_flags, &cf_known);
			walk_unk_sub(&r, bval, bunk);
		}
	} else {
		cf_known = WALK_CF | WALK_OF;
		if (op == BRINK_OP_AND || op == BRINK_OP_TEST) {
			r.unk = (r.unk | bunk) & (r.val | r.unk) & (bval | bunk);
			r.val &= bval;
		} else if (op == BRINK_OP_OR) {
			r.val |= bval;
			r.unk = (r.unk | bunk) & ~r.val;
		} else {
			r.val ^= bval;
			r.unk |= bunk;
			if (di == si)
				r.val = r.unk = 0;
			r.val &= ~r.unk;
		}
	}
	walk_result_flags(r.val, r.unk, sh, &flags, &known);
	walk_flags_all(w, flags | cf_flags, known | cf_known);
	if (op != BRINK_OP_CMP && op != BRINK_OP_TEST)
		walk_write(w, di, sh, r.val >> sh, r.unk >> sh);
	return 0;
}

/* INC, DEC, NEG, NOT, ADC, SBB: with or without unknown bits. */
WALK_GLOBAL int walk_alu_more(struct brink_walk *w, const struct brink_uop *u)
{
	struct walk_pair a, r;
	__u64 bval = 0, bunk = 0, one, c;
	__u32 sh, di, si, flags, known, op, cf, add;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	op = u->op;
	di = walk_dst(u) & 31;
	si = walk_src(u) & 31;
	one = 1ull << sh;
	a.val = w->reg[di].val << sh;
	a.unk = w->reg[di].unk << sh;
	if (op == BRINK_OP_NOT) {
		walk_write(w, di, sh, ~w->reg[di].val, w->reg[di].unk);
		return 0;
	}
	cf = walk_flags_carry(w);
	r = a;
	add = op == BRINK_OP_INC || op == BRINK_OP_ADC;
	if (op == BRINK_OP_ADC || op == BRINK_OP_SBB) {
		bval = w->reg[si].val << sh;
		bunk = w->reg[si].unk << sh;
		if (op == BRINK_OP_SBB && di == si) {	/* 0 or -1 by the carry alone */
			a.val = r.val = bval = 0;
			a.unk = r.unk = bunk = 0;
		}
	} else if (op == BRINK_OP_NEG) {
		bval = a.val;
		bunk = a.unk;
		a.val = r.val = 0;
		a.unk = r.unk = 0;
		cf = 0;
	} else {
		bval = one;
	}
	if (add)
		walk_unk_add(&r, bval, bunk);
	else
		walk_unk_sub(&r, bval, bunk);
	if (op == BRINK_OP_ADC || op == BRINK_OP_SBB) {
		__u64 cval = cf == 1 ? one : 0, cunk = cf == 2 ? one : 0;

		if (add)
			walk_unk_add(&r, cval, cunk);
		else
			walk_unk_sub(&r, cval, cunk);
	}
	walk_result_flags(r.val, r.unk, sh, &flags, &known);
	if (!(a.unk | bunk | r.unk)) {
		if (add)
			c = (a.val & bval) | ((a.val | bval) & ~r.val);
		else
			c = (~a.val & bval) | (~(a.val ^ bval) & r.val);
		flags |= c >> 63 | (c >> ((sh + 3) & 63) & 1) << 4 | ((c ^ c << 1) >> 63) << 11;
		known = WALK_ARITH;
	} else if (op == BRINK_OP_NEG && known & WALK_ZF && !(flags & WALK_ZF)) {
		flags |= WALK_CF;
		known |= WALK_CF;
	}
	if (op == BRINK_OP_INC || op == BRINK_OP_DEC) {	/* the carry stays */
		flags = (flags & ~WALK_CF) | (cf == 1);
		known = (known & ~WALK_CF) | (cf != 2);
	}
	walk_flags_all(w, flags, known);
	walk_write(w, di, sh, r.val >> sh, r.unk >> sh);
	return 0;
}

#endif /* BRINK_WALK_ALU_H_ */
