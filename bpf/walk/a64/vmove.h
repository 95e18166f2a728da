/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vectors: moves, shifts, elements, bytes in another order. */
#ifndef BRINK_WALK_A64_VMOVE_H_
#define BRINK_WALK_A64_VMOVE_H_

#include "walk/a64/vector.h"

WALK_GLOBAL int a64_v_shift(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 h, ones, keep, r[2];
	__u32 i, e, n, width;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	width = 8u << e;
	n = u->index & 127;
	h = walk_tops(e);
	ones = h >> (width - 1);
	/* Bits of an element that are not shifted in. */
	keep = n >= width ? 0 : u->aux == BRINK_A64_LSL ? (walk_mask(64 - width) << n) & walk_mask(64 - width) : walk_mask(64 - width) >> n;
	keep *= ones;
	for (i = 0; i < 2; i++) {
		__u64 b = a64_v(w, u->src)[i];

		if (u->aux == BRINK_A64_LSL) {
			r[i] = b << (n & 63) & keep;
		} else {
			r[i] = b >> (n & 63) & keep;
			if (u->aux == BRINK_A64_ASR)
				r[i] |= walk_fill_elements(b & h, e) & ~keep;
		}
	}
	a64_v_write(w, u->dst, u->sh, r[0], r[1], a64_whole(w->vknown[u->src & 31], e));
	return 0;
}

/* SHRN, XTN: scale is log2 of the wide element's bytes, 1..3. */
WALK_GLOBAL int a64_v_narrow(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 low, high, known, r;
	__u32 e, n;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	n = u->index & 63;
	known = a64_whole(w->vknown[u->src & 31], e);
	/* What comes from the next element is cut off again. */
	low = a64_v(w, u->src)[0] >> n;
	high = a64_v(w, u->src)[1] >> n;
	r = a64_even(low, (e - 1) & 3) | a64_even(high, (e - 1) & 3) << 32;
	known = a64_even_known(known, (e - 1) & 3);
	if (u->aux)
		a64_v_write(w, u->dst, 16, a64_v(w, u->dst)[0], r, (w->vknown[u->dst & 31] & 0xff) | known << 8);
	else
		a64_v_write(w, u->dst, 8, r, 0, known);
	return 0;
}

/* Four bytes' elements at twice their width. */
WALK_INLINE __u64 a64_widen(__u64 x, __u32 e)
{
	x = (__u32)x;
	if (e <= 1)
		x = (x | x << 16) & 0x0000ffff0000ffffull;
	if (e == 0)
		x = (x | x << 8) & 0x00ff00ff00ff00ffull;
	return x;
}

/* USHLL, SSHLL */
WALK_GLOBAL int a64_v_widen(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 source, known, r[2], h, ones;
	__u32 i, e, n, upper;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	n = u->index & 31;
	upper = u->aux >> 1 & 1;
	h = walk_tops(e);
	ones = walk_tops((e + 1) & 3) >> (((16u << e) - 1) & 63);
	source = a64_v(w, u->src)[upper];
	known = walk_expand(w->vknown[u->src & 31] >> (8 * upper));
	for (i = 0; i < 2; i++) {
		__u64 x = source >> (32 * i);

		r[i] = a64_widen(x, e);
		if (u->aux & 1)
			r[i] |= a64_widen(walk_fill_elements(x & h, e), e) << (8u << e);
		/* What a neighbour's sign shifts in is cut off. */
		r[i] = r[i] << n & ~(ones * ((1ull << n) - 1));
	}
	known = walk_known_bytes(~(a64_widen(known, e) | a64_widen(known, e) << (8u << e))) |
		walk_known_bytes(~(a64_widen(known >> 32, e) | a64_widen(known >> 32, e) << (8u << e))) << 8;
	a64_v_write(w, u->dst, 16, r[0], r[1], a64_whole(known, (e + 1) & 3));
	return 0;
}

/* Element n of a register, at the bottom. */
WALK_INLINE __u64 a64_element(struct brink_walk *w, __u32 i, __u32 e, __u32 n, __u64 *known)
{
	__u32 at = (n << e) & 15, bits = 1u << (1u << e);

	*known = w->vknown[i & 31] >> at & (bits - 1);
	return a64_v(w, i)[at >> 3] >> (8 * (at & 7)) & walk_mask((64 - (8u << e)) & 63);
}

/* Every element the same. */
WALK_INLINE void a64_v_fill(struct brink_walk *w, const struct brink_uop *u, __u64 v, __u64 known)
{
	__u32 e = u->scale & 3, all = (1u << (1u << e)) - 1;

	v *= ~0ull / walk_mask((64 - (8u << e)) & 63);
	a64_v_write(w, u->dst, u->sh, v, v, (known & all) == all ? ~0ull : 0);
}

/* Element index of dst. */
WALK_INLINE void a64_v_put(struct brink_walk *w, const struct brink_uop *u, __u64 v, __u64 known)
{
	__u32 e = u->scale & 3, at = ((__u32)u->index << e) & 15, shift = 8 * (at & 7);
	__u64 m = walk_mask((64 - (8u << e)) & 63), bits = (1u << (1u << e)) - 1;
	__u64 *d = &a64_v(w, u->dst)[at >> 3];

	known &= bits;
	v &= m & walk_expand(known);
	*d = (*d & ~(m << shift)) | v << shift;
	w->vknown[u->dst & 31] = ((w->vknown[u->dst & 31] & ~(bits << at)) | known << at) & 0xffff;
}

/* REPEAT .. MOVE_REG */
WALK_GLOBAL int a64_v_elements(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg g;
	__u64 v, known, gk;
	__u32 e, n;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	g = *a64_reg(w, u->src);
	gk = walk_known_bytes(g.unk);
	switch (u->op) {
	case BRINK_AV_REPEAT:
		v = a64_element(w, u->src, e, u->index, &known);
		a64_v_fill(w, u, v, known);
		break;
	case BRINK_AV_REPEAT_REG:
		a64_v_fill(w, u, g.val & walk_expand(gk) & walk_mask((64 - (8u << e)) & 63), gk);
		break;
	case BRINK_AV_PUT:
		v = a64_element(w, u->src, e, u->aux, &known);
		a64_v_put(w, u, v, known);
		break;
	case BRINK_AV_PUT_REG:
		a64_v_put(w, u, g.val, gk);
		break;
	case BRINK_AV_GET:
		v = a64_element(w, u->src, e, u->index, &known);
		known = ~walk_expand(known) & walk_mask((64 - (8u << e)) & 63);
		if (u->aux) {
			v = walk_sext(v, (64 - (8u << e)) & 63);
			known = walk_sext(known, (64 - (8u << e)) & 63);
		}
		a64_write(w, u->dst, u->sh & 63, v, known);
		break;
	case BRINK_AV_MOVE:
		n = u->msh & 31;
		a64_v_write(w, u->dst, n, a64_v(w, u->src)[0] & walk_expand(walk_bytes(n)), n > 8 ? a64_v(w, u->src)[1] : 0,
			    w->vknown[u->src & 31]);
		break;
	default:	/* MOVE_REG */
		n = u->msh & 15;
		a64_v_write(w, u->dst, n, g.val, 0, gk);
		break;
	}
	return 0;
}

/* MOVI, MVNI, FMOV, ORR, BIC with an immediate */
WALK_GLOBAL int a64_v_const(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 v, low, high, known = ~0ull;

	if (!w || !u)
		return 1;
	v = walk_wide(w, u);
	low = high = v;
	if (u->aux) {
		low = a64_v(w, u->dst)[0];
		high = a64_v(w, u->dst)[1];
		low = u->aux == 1 ? low | v : low & ~v;
		high = u->aux == 1 ? high | v : high & ~v;
		known = w->vknown[u->dst & 31];
	}
	a64_v_write(w, u->dst, u->sh, low, high, known);
	return 0;
}

/* Where byte i of the result comes from, in a:b (a at 0..15, b at 16..31). */
WALK_INLINE __u32 a64_from(const struct brink_uop *u, __u32 i)
{
	__u32 e = u->scale & 3, within = i & ((1u << e) - 1), n = i >> e, count = ((__u32)u->sh & 31) >> e, half = count >> 1, pick, from;

	switch (u->aux) {
	case BRINK_AS_EXTRACT:
		from = i + u->index;
		return from < u->sh ? from : 16 + from - u->sh;
	case BRINK_AS_ZIP1:
	case BRINK_AS_ZIP2:
		pick = (n >> 1) + (u->aux == BRINK_AS_ZIP2 ? half : 0);
		return (n & 1) * 16 + (pick << e) + within;
	case BRINK_AS_UZP1:
	case BRINK_AS_UZP2:
		pick = 2 * n + (u->aux == BRINK_AS_UZP2);
		return (pick < count ? pick << e : 16 + ((pick - count) << e)) + within;
	case BRINK_AS_TRN1:
	case BRINK_AS_TRN2:
		pick = (n & ~1u) + (u->aux == BRINK_AS_TRN2);
		return (n & 1) * 16 + (pick << e) + within;
	default:	/* REVERSE */
		return i ^ ((1u << u->index) - 1) ^ ((1u << e) - 1);
	}
}

/* Bytes of a:b by a rule, or (TABLE) bytes of a by index in b; counts of ones. */
WALK_GLOBAL int a64_v_bytes(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 *s, known, got = 0, kb;
	__u32 i;

	if (!w || !u)
		return 1;
	s = (__u64 *)w->scratch;
	s[0] = a64_v(w, u->src2)[0];
	s[1] = a64_v(w, u->src2)[1];
	s[2] = a64_v(w, u->src)[0];
	s[3] = a64_v(w, u->src)[1];
	kb = w->vknown[u->src & 31];
	known = (w->vknown[u->src2 & 31] & 0xffff) | (kb & 0xffff) << 16;
	for (i = 0; i < 16; i++) {
		__u32 from, v;

		if (i >= u->sh)
			break;
		if (u->op == BRINK_AV_COUNT_ONES) {
			v = walk_count_ones(w->scratch[16 + i]);
			got |= kb & 1ull << i;
		} else if (u->op == BRINK_AV_TABLE) {
			from = w->scratch[16 + i];
			v = from < 16 ? w->scratch[from & 15] : 0;
			if ((kb >> i & 1) && (from >= 16 || (known >> from & 1)))
				got |= 1ull << i;
		} else {
			from = a64_from(u, i) & 31;
			WALK_OPAQUE(from);
			v = w->scratch[from & 31];
			got |= (known >> (from & 31) & 1) << i;
		}
		w->scratch[32 + i] = v;
	}
	a64_v_write(w, u->dst, u->sh, s[4], s[5], got);
	return 0;
}

WALK_INLINE int a64_vector(struct brink_walk *w, const struct brink_uop *u)
{
	switch (u->op) {
	case BRINK_AV_LOAD:
	case BRINK_AV_PAIR_LOAD:
	case BRINK_AV_REPEAT_LOAD:
		return a64_v_loads(w, u);
	case BRINK_AV_STORE:
	case BRINK_AV_PAIR_STORE:
		return a64_v_stores(w, u);
	case BRINK_AV_LANE:
		return a64_v_lanes(w, u);
	case BRINK_AV_PAIRWISE:
		return a64_v_pairwise(w, u);
	case BRINK_AV_ACROSS:
		return a64_v_across(w, u);
	case BRINK_AV_SHIFT:
		return a64_v_shift(w, u);
	case BRINK_AV_NARROW:
		return a64_v_narrow(w, u);
	case BRINK_AV_WIDEN:
		return a64_v_widen(w, u);
	case BRINK_AV_CONST:
		return a64_v_const(w, u);
	case BRINK_AV_SHUFFLE:
	case BRINK_AV_TABLE:
	case BRINK_AV_COUNT_ONES:
		return a64_v_bytes(w, u);
	default:
		return a64_v_elements(w, u);
	}
}

#endif /* BRINK_WALK_A64_VMOVE_H_ */
