/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A64's registers and flags in a walk's state. */
#ifndef BRINK_WALK_A64_REG_H_
#define BRINK_WALK_A64_REG_H_

#define WALK_VA_BITS 48

#include "walk/a64/ops.h"
#include "walk/code.h"
#include "walk/pure.h"

/* Explicit flags lie as in PSTATE. */
#define A64_N 0x80000000u
#define A64_Z 0x40000000u
#define A64_C 0x20000000u
#define A64_V 0x10000000u
#define A64_NZCV 0xf0000000u

/* The top byte of a data or user code address is ignored. */
#define A64_ADDRESS 0x00ffffffffffffffull

WALK_INLINE struct brink_walk_reg *a64_reg(struct brink_walk *w, __u32 i)
{
	return &w->reg[i & (BRINK_WREG_COUNT - 1)];
}

/* Writes a register: 64 bits, or 32 with the upper half cleared. */
WALK_INLINE void a64_write(struct brink_walk *w, __u32 i, __u32 sh, __u64 val, __u64 unk)
{
	struct brink_walk_reg *r = a64_reg(w, i);
	__u64 m = walk_mask(sh);

	r->val = val & m & ~unk;
	r->unk = unk & m;
}

/* `res` and `carry` are shifted up by sh; bit i of carry is the carry (not the borrow) out of bit i. */
WALK_INLINE void a64_flags_lazy(struct brink_walk *w, __u64 res, __u64 carry)
{
	w->flag_res = res;
	w->flag_carry = carry;
	w->flags_known = BRINK_WALK_FLAGS_LAZY;
}

/* All four at once. */
WALK_INLINE void a64_flags_all(struct brink_walk *w, __u32 value, __u32 known)
{
	w->flags = value & known & A64_NZCV;
	w->flags_known = known & A64_NZCV;
}

WALK_INLINE void a64_flags_settle(struct brink_walk *w)
{
	__u64 r = w->flag_res, c = w->flag_carry;

	if (w->flags_known != BRINK_WALK_FLAGS_LAZY)
		return;
	a64_flags_all(w, (__u32)(r >> 63) << 31 | (__u32)(r == 0) << 30 | (__u32)(c >> 63) << 29 | (__u32)((c ^ c << 1) >> 63) << 28, A64_NZCV);
}

/* C: 0, 1, or 2 for unknown. */
WALK_INLINE __u32 a64_carry(const struct brink_walk *w)
{
	if (w->flags_known == BRINK_WALK_FLAGS_LAZY)
		return w->flag_carry >> 63;
	return w->flags_known & A64_C ? w->flags >> 29 & 1 : 2;
}

WALK_INLINE __u32 a64_cond_explicit(const struct brink_walk *w, __u32 cc)
{
	__u32 f = w->flags, k = w->flags_known, kinds = cc >> 1 & 7;
	__u32 n_is_v = !((f >> 31 ^ f >> 28) & 1), nv_known = (k & (A64_N | A64_V)) == (A64_N | A64_V);
	__u32 one, zero;

	/* `one`: certainly true; `zero`: certainly false. Unknown bits of f are 0. */
	if (kinds == 0) {
		one = f & A64_Z;
		zero = ~f & k & A64_Z;
	} else if (kinds == 1) {
		one = f & A64_C;
		zero = ~f & k & A64_C;
	} else if (kinds == 2) {
		one = f & A64_N;
		zero = ~f & k & A64_N;
	} else if (kinds == 3) {
		one = f & A64_V;
		zero = ~f & k & A64_V;
	} else if (kinds == 4) {
		one = (f & A64_C) && (~f & k & A64_Z);
		zero = (~f & k & A64_C) || (f & A64_Z);
	} else if (kinds == 5) {
		one = nv_known && n_is_v;
		zero = nv_known && !n_is_v;
	} else {
		one = nv_known && n_is_v && (~f & k & A64_Z);
		zero = (nv_known && !n_is_v) || (f & A64_Z);
	}
	if (one)
		return 1 ^ (cc & 1);
	if (zero)
		return cc & 1;
	return 2;
}

/* Condition code of the machine (0 eq, 1 ne, 2 cs, ... 14 and 15 always): 0, 1, or 2 for unknown. */
WALK_INLINE __u32 a64_cond(const struct brink_walk *w, __u32 cc)
{
	__u64 c = w->flag_carry, r = w->flag_res, bits, z, n, v, cf;

	if (walk_unlikely((cc & 15) >= 14))
		return 1;
	if (walk_unlikely(w->flags_known != BRINK_WALK_FLAGS_LAZY))
		return a64_cond_explicit(w, cc);
	z = r == 0;
	n = r >> 63;
	cf = c >> 63;
	v = (c ^ c << 1) >> 63;
	bits = z | cf << 1 | n << 2 | v << 3 | (cf & ~z) << 4 | (n ^ v ^ 1) << 5 | ((n ^ v ^ 1) & ~z) << 6;
	return (bits >> (cc >> 1 & 7) ^ cc) & 1;
}

/* The last operand, extended and shifted as the micro-op says. */
WALK_INLINE struct brink_walk_reg a64_operand_b(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg b = *a64_reg(w, u->src);
	__u32 msh = u->msh & 63, sh = u->sh & 63, n = u->index & 63, width = 64 - sh;

	if (walk_likely(!(u->flags & BRINK_A64_CHANGED)))
		return b;
	if (u->aux & BRINK_A64_SIGNED) {
		b.val = walk_sext(b.val, msh);
		b.unk = walk_sext(b.unk, msh);
	} else {
		b.val &= walk_mask(msh);
		b.unk &= walk_mask(msh);
	}
	if (n) {
		if (u->scale == BRINK_A64_LSL) {
			b.val <<= n;
			b.unk <<= n;
		} else if (u->scale == BRINK_A64_LSR) {
			b.val >>= n;
			b.unk >>= n;
		} else if (u->scale == BRINK_A64_ASR) {
			b.val = (__u64)((__s64)walk_sext(b.val, sh) >> n);
			b.unk = (__u64)((__s64)walk_sext(b.unk, sh) >> n);
		} else {
			b.val = b.val >> n | b.val << ((width - n) & 63);
			b.unk = b.unk >> n | b.unk << ((width - n) & 63);
		}
	}
	if (u->aux & BRINK_A64_INVERT)
		b.val = ~b.val & ~b.unk;
	return b;
}

#endif /* BRINK_WALK_A64_REG_H_ */
