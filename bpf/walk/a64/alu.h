/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Arithmetic and flags with operands that may be partly unknown; conditional instructions. */
#ifndef BRINK_WALK_A64_ALU_H_
#define BRINK_WALK_A64_ALU_H_

#include "walk/a64/reg.h"

/* N and Z of a partly unknown result, shifted up. */
WALK_INLINE void a64_result_flags(const struct walk_pair *r, __u32 *flags, __u32 *known)
{
	*flags = r->val >> 63 ? A64_N : 0;
	*known = r->unk >> 63 ? 0 : A64_N;
	if (!r->unk) {
		*flags |= r->val ? 0 : A64_Z;
		*known |= A64_Z;
	} else if (r->val) {
		*known |= A64_Z;
	}
}

/*
 * r = a + b + carry, everything shifted up by sh, with b inverted already for a subtraction; sets the flags too. carry: 0,
 * 1, or 2 for unknown.
 */
WALK_INLINE void a64_sum(struct brink_walk *w, struct walk_pair *r, __u64 aval, __u64 aunk, __u64 bval, __u64 bunk, __u32 carry, __u32 sh,
			 __u32 set_flags)
{
	__u64 one = 1ull << sh, top = 1ull << 63, c;
	__u32 flags, known;

	r->val = aval;
	r->unk = aunk;
	walk_unk_add(r, bval, bunk);
	walk_unk_add(r, carry == 1 ? one : 0, carry == 2 ? one : 0);
	if (!set_flags)
		return;
	a64_result_flags(r, &flags, &known);
	if (!((aunk | bunk | r->unk) & top)) {
		c = (aval & bval) | ((aval | bval) & ~r->val);
		known |= A64_C | A64_V;
		flags |= c & top ? A64_C : 0;
		flags |= (~(aval ^ bval) & (aval ^ r->val)) & top ? A64_V : 0;
	} else {
		/* The same carry out of the least and of the greatest operands is certain. */
		__u64 min = aval + bval, max = (aval | aunk) + (bval | bunk);
		__u32 cmin = min < aval, cmax = max < (aval | aunk);

		if (carry != 0 && carry != 2) {
			cmin |= min + one < min;
			cmax |= max + one < max;
		} else if (carry == 2) {
			cmax |= max + one < max;
		}
		if (cmin == cmax) {
			known |= A64_C;
			flags |= cmin ? A64_C : 0;
		}
		/* Operands of known and different signs do not overflow. */
		if (!((aunk | bunk) & top) && ((aval ^ bval) & top))
			known |= A64_V;
	}
	a64_flags_all(w, flags, known);
}

/* ADD .. XOR with unknown bits in an operand. */
WALK_GLOBAL int a64_alu_unknown(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg b;
	struct walk_pair r;
	__u64 aval, aunk, bval, bunk, m;
	__u32 sh, op, flags, known;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	op = u->op;
	b = a64_operand_b(w, u);
	aval = a64_reg(w, u->src2)->val << sh;
	aunk = a64_reg(w, u->src2)->unk << sh;
	bval = b.val << sh;
	bunk = b.unk << sh;
	m = ~0ull << sh;
	if (op == BRINK_A64_ADD) {
		a64_sum(w, &r, aval, aunk, bval, bunk, 0, sh, u->aux & BRINK_A64_FLAGS);
	} else if (op == BRINK_A64_SUB) {
		if (u->src2 == u->src && !(u->flags & BRINK_A64_CHANGED))
			aval = aunk = bval = bunk = 0;
		a64_sum(w, &r, aval, aunk, ~bval & m & ~bunk, bunk, 1, sh, u->aux & BRINK_A64_FLAGS);
	} else {
		if (op == BRINK_A64_AND) {
			r.unk = (aunk | bunk) & (aval | aunk) & (bval | bunk);
			r.val = aval & bval;
		} else if (op == BRINK_A64_OR) {
			r.val = aval | bval;
			r.unk = (aunk | bunk) & ~r.val;
		} else {
			r.unk = aunk | bunk;
			r.val = (aval ^ bval) & ~r.unk;
			if (u->src2 == u->src && !(u->flags & BRINK_A64_CHANGED))
				r.val = r.unk = 0;
		}
		if (u->aux & BRINK_A64_FLAGS) {
			a64_result_flags(&r, &flags, &known);
			a64_flags_all(w, flags, known | A64_C | A64_V);
		}
	}
	a64_write(w, u->dst, sh, r.val >> sh, r.unk >> sh);
	return 0;
}

/* ADC, SBC */
WALK_GLOBAL int a64_add_carry(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a, b;
	struct walk_pair r;
	__u64 bval, bunk;
	__u32 sh;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	a = *a64_reg(w, u->src2);
	b = *a64_reg(w, u->src);
	bunk = b.unk << sh;
	bval = b.val << sh;
	if (u->scale)
		bval = ~bval & ~0ull << sh & ~bunk;
	a64_sum(w, &r, a.val << sh, a.unk << sh, bval, bunk, a64_carry(w), sh, u->aux & BRINK_A64_FLAGS);
	a64_write(w, u->dst, sh, r.val >> sh, r.unk >> sh);
	return 0;
}

/* CCMP, CCMN */
WALK_GLOBAL int a64_compare_if(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a, b;
	struct walk_pair r;
	__u64 bval, bunk;
	__u32 sh, cond, otherwise, known;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	cond = a64_cond(w, u->aux);
	otherwise = (__u32)u->index << 28;
	if (cond == 0) {
		a64_flags_all(w, otherwise, A64_NZCV);
		return 0;
	}
	a = *a64_reg(w, u->src2);
	b = *a64_reg(w, u->src);
	bunk = b.unk << sh;
	bval = b.val << sh;
	if (u->scale)
		bval = ~bval & ~0ull << sh & ~bunk;
	a64_sum(w, &r, a.val << sh, a.unk << sh, bval, bunk, u->scale ? 1 : 0, sh, 1);
	/* Either of the two: what both agree on. */
	if (cond == 2) {
		known = w->flags_known & ~(w->flags ^ otherwise);
		a64_flags_all(w, otherwise, known);
	}
	return 0;
}

/* CSEL, CSINC, CSINV, CSNEG */
WALK_GLOBAL int a64_select(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a, b;
	struct walk_pair p;
	__u32 sh, cond;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	cond = a64_cond(w, u->aux);
	a = *a64_reg(w, u->src2);
	b = *a64_reg(w, u->src);
	if (u->scale >= 2)
		b.val = ~b.val & ~b.unk;
	if (u->scale & 1) {
		p.val = b.val;
		p.unk = b.unk;
		walk_unk_add(&p, 1, 0);
		b.val = p.val;
		b.unk = p.unk;
	}
	if (cond == 1)
		a64_write(w, u->dst, sh, a.val, a.unk);
	else if (cond == 0)
		a64_write(w, u->dst, sh, b.val, b.unk);
	else
		a64_write(w, u->dst, sh, a.val, a.unk | b.unk | (a.val ^ b.val));
	return 0;
}

/* Shifts by a register. */
WALK_GLOBAL int a64_shift(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a;
	__u64 m;
	__u32 sh, width, n;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	width = 64 - sh;
	m = walk_mask(sh);
	a = *a64_reg(w, u->src2);
	if (a64_reg(w, u->src)->unk & (width - 1)) {
		/* Zero stays zero. */
		a64_write(w, u->dst, sh, 0, (a.val | a.unk) & m ? ~0ull : 0);
		return 0;
	}
	n = a64_reg(w, u->src)->val & (width - 1);
	a.val &= m;
	a.unk &= m;
	if (u->aux == BRINK_A64_LSL) {
		a.val <<= n;
		a.unk <<= n;
	} else if (u->aux == BRINK_A64_LSR) {
		a.val >>= n;
		a.unk >>= n;
	} else if (u->aux == BRINK_A64_ASR) {
		a.val = (__u64)((__s64)walk_sext(a.val, sh) >> n);
		a.unk = (__u64)((__s64)walk_sext(a.unk, sh) >> n);
	} else if (n) {
		a.val = a.val >> n | a.val << (width - n);
		a.unk = a.unk >> n | a.unk << (width - n);
	}
	a64_write(w, u->dst, sh, a.val, a.unk);
	return 0;
}

#endif /* BRINK_WALK_A64_ALU_H_ */
