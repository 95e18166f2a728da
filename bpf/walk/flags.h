/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The flags: kept lazily as result and carries of the last operation, or explicitly with a mask of what is known. */
#ifndef BRINK_WALK_FLAGS_H_
#define BRINK_WALK_FLAGS_H_

#include "walk/env.h"

/* `res` and `carry` are shifted up by sh; bit i of carry is the carry (borrow) out of bit i. */
WALK_INLINE void walk_flags_lazy(struct brink_walk *w, __u64 res, __u64 carry, __u32 sh)
{
	w->flag_res = res;
	w->flag_carry = carry;
	w->flag_sh = sh;
	w->flags_known = BRINK_WALK_FLAGS_LAZY;
}

/* Even parity of the low byte, as PF. */
WALK_INLINE __u32 walk_parity(__u64 res)
{
	__u32 x = res & 0xff;

	x ^= x >> 4;
	return 0x9669 >> (x & 15) & 1;
}

/* Makes the flags explicit. */
WALK_INLINE void walk_flags_settle(struct brink_walk *w)
{
	__u32 sh = w->flag_sh & 63, f = w->flags & ~WALK_ARITH;
	__u64 c = w->flag_carry, r = w->flag_res;

	if (w->flags_known != BRINK_WALK_FLAGS_LAZY)
		return;
	f |= (__u32)(c >> 63);
	f |= walk_parity(r >> sh) << 2;
	f |= (__u32)(c >> ((sh + 3) & 63) & 1) << 4;
	f |= (__u32)(r == 0) << 6;
	f |= (__u32)(r >> 63) << 7;
	f |= (__u32)((c ^ c << 1) >> 63) << 11;
	w->flags_known = WALK_ARITH;
	if (w->flag_sh & WALK_SH_AF_UNKNOWN) {
		w->flags_known = WALK_ARITH & ~WALK_AF;
		f &= ~WALK_AF;
	}
	w->flags = f;
}

/* Changes the flags of `mask`: to `value` where `known`, to unknown elsewhere. The others stay. */
WALK_INLINE void walk_flags_put(struct brink_walk *w, __u32 mask, __u32 value, __u32 known)
{
	walk_flags_settle(w);
	known &= mask;
	w->flags = (w->flags & ~mask) | (value & known);
	w->flags_known = (w->flags_known & ~mask) | known;
}

/* 0, 1, or 2 for unknown. */
WALK_INLINE __u32 walk_flags_carry(const struct brink_walk *w)
{
	if (w->flags_known == BRINK_WALK_FLAGS_LAZY)
		return w->flag_carry >> 63;
	return w->flags_known & WALK_CF ? w->flags & WALK_CF : 2;
}

WALK_INLINE __u32 walk_cond_explicit(const struct brink_walk *w, __u32 cc)
{
	__u32 f = w->flags, k = w->flags_known;
	__u32 one = 0, zero = 0, so_known = (k & (WALK_SF | WALK_OF)) == (WALK_SF | WALK_OF);
	__u32 so = (f >> 7 ^ f >> 11) & 1;

	/* `one`: certainly true; `zero`: certainly false. Unknown bits of f are 0. */
	switch (cc >> 1 & 7) {
	case 0:
		one = f & WALK_OF;
		zero = ~f & k & WALK_OF;
		break;
	case 1:
		one = f & WALK_CF;
		zero = ~f & k & WALK_CF;
		break;
	case 2:
		one = f & WALK_ZF;
		zero = ~f & k & WALK_ZF;
		break;
	case 3:
		one = f & (WALK_CF | WALK_ZF);
		zero = (~f & k & (WALK_CF | WALK_ZF)) == (WALK_CF | WALK_ZF);
		break;
	case 4:
		one = f & WALK_SF;
		zero = ~f & k & WALK_SF;
		break;
	case 5:
		one = f & WALK_PF;
		zero = ~f & k & WALK_PF;
		break;
	case 6:
		one = so_known & so;
		zero = so_known & ~so;
		break;
	default:
		one = (f & WALK_ZF) | (so_known & so);
		zero = (~f & k & WALK_ZF) && (so_known & ~so);
		break;
	}
	if (one)
		return 1 ^ (cc & 1);
	if (zero)
		return cc & 1;
	return 2;
}

/* Condition code of the machine (0 o, 1 no, 2 b, ... 15 g): 0, 1, or 2 for unknown. */
WALK_INLINE __u32 walk_cond(const struct brink_walk *w, __u32 cc)
{
	__u64 c = w->flag_carry, r = w->flag_res, bits, z, s, o, b;

	if (walk_unlikely(w->flags_known != BRINK_WALK_FLAGS_LAZY))
		return walk_cond_explicit(w, cc);
	/* All conditions at once: no branch to mispredict. */
	z = r == 0;
	s = r >> 63;
	b = c >> 63;
	o = (c ^ c << 1) >> 63;
	bits = o | b << 1 | z << 2 | (b | z) << 3 | s << 4 | (s ^ o) << 6 | ((s ^ o) | z) << 7;
	if (walk_unlikely((cc & 14) == 10))
		bits = (__u64)walk_parity(r >> (w->flag_sh & 63)) << 5;
	return (bits >> (cc >> 1 & 7) ^ cc) & 1;
}

#endif /* BRINK_WALK_FLAGS_H_ */
