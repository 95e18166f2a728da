/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PCMPESTRI, PCMPESTRM, PCMPISTRI, PCMPISTRM: comparison of two strings in registers. C libraries search sets of
 * characters with them, compilers the ends of tokens.
 */
#ifndef BRINK_WALK_VSTRING_H_
#define BRINK_WALK_VSTRING_H_

#include "walk/vector.h"

/* imm8 */
#define WALK_STR_WORDS 0x01
#define WALK_STR_SIGNED 0x02
#define WALK_STR_AGGREGATE(imm) ((imm) >> 2 & 3)
#define WALK_STR_NEGATE 0x10
#define WALK_STR_MASKED 0x20
#define WALK_STR_LAST 0x40	/* of an index: the last match; of a mask: whole elements */

enum { WALK_STR_ANY, WALK_STR_RANGES, WALK_STR_EACH, WALK_STR_ORDERED };

/* The elements of b for which b == v (how 0), b >= v (1) or b <= v (2); v in every element. A bit an element. */
WALK_INLINE __u32 walk_str_match(const __u64 *b, __u64 v, __u32 how, __u32 e, __u64 h)
{
	__u64 lo, hi;

	if (how == 0) {
		lo = ~walk_lane_nonzero(b[0] ^ v, h) & h;
		hi = ~walk_lane_nonzero(b[1] ^ v, h) & h;
	} else if (how == 1) {
		lo = ~walk_lane_above(v, b[0], h) & h;
		hi = ~walk_lane_above(v, b[1], h) & h;
	} else {
		lo = ~walk_lane_above(b[0], v, h) & h;
		hi = ~walk_lane_above(b[1], v, h) & h;
	}
	return walk_top_bits(lo, e) | walk_top_bits(hi, e) << (8 >> e);
}

/* Valid elements of a string with an end mark of 0: those before the first. */
WALK_INLINE __u32 walk_str_until_zero(const __u64 *v, __u32 e, __u64 h, __u32 all)
{
	__u32 zero = walk_str_match(v, 0, 0, e, h);

	/* The bits below the lowest one. */
	return zero ? (zero - 1) & ~zero & all : all;
}

/* Valid elements by a length in a register, of which the absolute value counts. */
WALK_INLINE __u32 walk_str_by_length(__u64 length, __u32 wide, __u32 all, __u32 n)
{
	__u64 l = wide ? length : (__u64)(__s64)(__s32)length;

	if ((__s64)l < 0)
		l = -l;
	return l >= n ? all : (1u << (l & 31)) - 1;
}

/* Bits set, of 16. */
WALK_INLINE __u32 walk_str_ones(__u32 x)
{
	x -= x >> 1 & 0x5555;
	x = (x & 0x3333) + (x >> 2 & 0x3333);
	x = (x + (x >> 4)) & 0x0f0f;
	return (x + (x >> 8)) & 31;
}

/* Which elements of b match, before polarity. `va` and `vb` are the valid elements. */
WALK_GLOBAL int walk_str_aggregate(struct brink_walk *w, __u32 imm, __u64 valid)
{
	__u32 e = imm & WALK_STR_WORDS, n = 16 >> e, all = (1u << n) - 1, how = WALK_STR_AGGREGATE(imm);
	__u32 va = valid & 0xffff, vb = valid >> 16 & 0xffff, res = how == WALK_STR_ORDERED ? all : 0, ge = 0, j;
	__u64 h = walk_tops(e), flip = imm & WALK_STR_SIGNED ? h : 0, copies = e ? 0x0001000100010001ull : 0x0101010101010101ull;
	__u64 a[2], b[2];

	if (!w)
		return 0;
	/* Both were put into vtmp: a in bytes 0..15, b behind. */
	a[0] = walk_vector_at(w, BRINK_V_MEM)[0] ^ flip;
	a[1] = walk_vector_at(w, BRINK_V_MEM)[1] ^ flip;
	b[0] = walk_vector_at(w, BRINK_V_MEM)[2] ^ flip;
	b[1] = walk_vector_at(w, BRINK_V_MEM)[3] ^ flip;
	if (how == WALK_STR_EACH) {
		b[0] ^= a[0];
		b[1] ^= a[1];
		return (walk_str_match(b, 0, 0, e, h) & va & vb) | (~va & ~vb & all);
	}
	for (j = 0; j < 16; j++) {
		__u32 at = j << e, match;
		__u64 v = (at < 8 ? a[0] : a[1]) >> (8 * (at & 7)) & (e ? 0xffff : 0xff);

		if (j >= n || !(va >> j))
			break;
		v *= copies;
		match = walk_str_match(b, v, how != WALK_STR_RANGES ? 0 : j & 1 ? 2 : 1, e, h) & vb;
		if (how == WALK_STR_ANY)
			res |= match;
		else if (how == WALK_STR_ORDERED)
			res &= match >> j | (~(all >> j) & all);
		else if (j & 1)
			res |= ge & match;
		else
			ge = match;
	}
	return res;
}

WALK_GLOBAL int walk_v_string(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 imm, e, n, all, va, vb, res, ai, bi, kept = WALK_AF | WALK_PF, flags;
	__u64 h, lo, hi;

	if (!w || !u)
		return 1;
	imm = walk_imm(w) & 0xff;
	e = imm & WALK_STR_WORDS;
	n = 16 >> e;
	all = (1u << n) - 1;
	h = walk_tops(e);
	ai = u->src2 & 31;
	bi = u->src & 63;
	if ((w->vknown[ai] & walk_vector_known(w, bi) & 0xffff) != 0xffff ||
	    ((u->aux & BRINK_STR_EXPLICIT) && ((w->reg[WALK_RAX].unk | w->reg[WALK_RDX].unk) & (u->aux & BRINK_STR_WIDE ? ~0ull : 0xffffffffull)))) {
		walk_flags_all(w, 0, kept);
		if (!(u->aux & BRINK_STR_MASK)) {
			walk_write(w, WALK_RCX, 32, 0, ~0ull);
			return 0;
		}
		return walk_v_finish(w, u, 0);
	}
	lo = walk_vector_at(w, bi)[0];
	hi = walk_vector_at(w, bi)[1];
	walk_vector_at(w, BRINK_V_MEM)[0] = walk_vector_at(w, ai)[0];
	walk_vector_at(w, BRINK_V_MEM)[1] = walk_vector_at(w, ai)[1];
	walk_vector_at(w, BRINK_V_MEM)[2] = lo;
	walk_vector_at(w, BRINK_V_MEM)[3] = hi;
	if (u->aux & BRINK_STR_EXPLICIT) {
		va = walk_str_by_length(w->reg[WALK_RAX].val, u->aux & BRINK_STR_WIDE, all, n);
		vb = walk_str_by_length(w->reg[WALK_RDX].val, u->aux & BRINK_STR_WIDE, all, n);
	} else {
		va = walk_str_until_zero(walk_vector_at(w, BRINK_V_MEM), e, h, all);
		vb = walk_str_until_zero(walk_vector_at(w, BRINK_V_MEM) + 2, e, h, all);
	}
	res = walk_str_aggregate(w, imm, va | (__u64)vb << 16);
	if (imm & WALK_STR_NEGATE)
		res ^= imm & WALK_STR_MASKED ? vb : all;
	flags = (res ? WALK_CF : 0) | (vb != all ? WALK_ZF : 0) | (va != all ? WALK_SF : 0) | (res & 1 ? WALK_OF : 0);
	walk_flags_all(w, flags, WALK_ARITH);
	if (u->aux & BRINK_STR_MASK) {
		lo = imm & WALK_STR_LAST ? walk_spread(res, e) : 0;
		WALK_RESULT(w)[0] = imm & WALK_STR_LAST ? walk_expand(lo) : res;
		WALK_RESULT(w)[1] = imm & WALK_STR_LAST ? walk_expand(lo >> 8) : 0;
		return walk_v_finish(w, u, ~0ull);
	}
	lo = n;
	if (res && (imm & WALK_STR_LAST)) {
		hi = res;
		hi |= hi >> 1;
		hi |= hi >> 2;
		hi |= hi >> 4;
		hi |= hi >> 8;
		lo = walk_str_ones(hi) - 1;
	} else if (res) {
		lo = walk_str_ones((res - 1) & ~res);
	}
	walk_write(w, WALK_RCX, 32, lo, 0);
	return 0;
}

#endif /* BRINK_WALK_VSTRING_H_ */
