/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vectors: what string functions use. Registers have 16 bytes; a bit of vknown stands for one. */
#ifndef BRINK_WALK_A64_VECTOR_H_
#define BRINK_WALK_A64_VECTOR_H_

#include "walk/a64/access.h"
#include "walk/a64/vops.h"
#include "walk/lanes.h"

WALK_INLINE __u64 *a64_v(struct brink_walk *w, __u32 i)
{
	return (__u64 *)w->vreg[i & 31].data;
}

/* Writes a register; what lies above `bytes` becomes 0. */
WALK_INLINE void a64_v_write(struct brink_walk *w, __u32 i, __u32 bytes, __u64 low, __u64 high, __u64 known)
{
	__u64 all = walk_bytes(bytes);

	a64_v(w, i)[0] = low & walk_expand(known & all);
	a64_v(w, i)[1] = high & walk_expand((known & all) >> 8);
	known |= ~all;
	/* What is known to be 0 above. */
	w->vknown[i & 31] = known & 0xffff;
}

/* n bytes at the address into T0 and T1; *known: a bit a byte. */
WALK_INLINE int a64_v_load(struct brink_walk *w, __u64 address, __u32 n, __u64 *known)
{
	__u32 msh = n >= 8 ? 0 : 64 - 8 * n;

	w->reg[BRINK_WREG_T1].val = 0;
	w->reg[BRINK_WREG_T1].unk = 0;
	if (w->reg[BRINK_WREG_MEM].unk) {
		*known = 0;
		return 0;
	}
	if (walk_load(w, address, msh & 63, BRINK_WREG_T0))
		return 1;
	if (n > 8 && walk_load(w, address + 8, 0, BRINK_WREG_T1))
		return 1;
	*known = walk_known_bytes(w->reg[BRINK_WREG_T0].unk) | walk_known_bytes(w->reg[BRINK_WREG_T1].unk) << 8;
	return 0;
}

WALK_INLINE int a64_v_store(struct brink_walk *w, __u64 address, __u32 n, __u32 i)
{
	__u64 known = w->vknown[i & 31];
	__u32 msh = n >= 8 ? 0 : 64 - 8 * n;

	w->reg[BRINK_WREG_T0].val = a64_v(w, i)[0];
	w->reg[BRINK_WREG_T0].unk = ~walk_expand(known);
	w->reg[BRINK_WREG_T1].val = a64_v(w, i)[1];
	w->reg[BRINK_WREG_T1].unk = ~walk_expand(known >> 8);
	if (walk_store(w, address, msh & 63, BRINK_WREG_T0))
		return 1;
	return n > 8 && walk_store(w, address + 8, 0, BRINK_WREG_T1);
}

/* LOAD, REPEAT_LOAD, PAIR_LOAD */
WALK_GLOBAL int a64_v_loads(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 known, low, high, step;
	__u32 n, i, count, pair;

	if (!w || !u)
		return 1;
	n = u->msh & 31;
	pair = u->op == BRINK_AV_PAIR_LOAD;
	count = pair ? 2 : u->op == BRINK_AV_REPEAT_LOAD ? 1 : u->aux;
	step = n;
	/* Everything that can fail, fails before a register is changed. */
	if (count > 1 && !w->reg[BRINK_WREG_MEM].unk && walk_touch(w, w->ea, (count * n) & 127))
		return 1;
	for (i = 0; i < 4; i++) {
		if (i >= count)
			break;
		if (a64_v_load(w, w->ea + i * step, n, &known))
			return 1;
		low = w->reg[BRINK_WREG_T0].val;
		high = w->reg[BRINK_WREG_T1].val;
		if (u->op == BRINK_AV_REPEAT_LOAD) {
			__u32 e = u->scale & 3, all = (1u << (1 << e)) - 1;

			known = (known & all) == all ? 0xffff : 0;
			low &= walk_mask(64 - 8 * n);
			low *= ~0ull / walk_mask((64 - (8u << e)) & 63);
			high = low;
			a64_v_write(w, u->dst, u->sh, low, high, known);
			break;
		}
		a64_v_write(w, pair && i ? u->src2 : u->dst + i, n, low, high, known);
	}
	return 0;
}

/* STORE, PAIR_STORE */
WALK_GLOBAL int a64_v_stores(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 n, i, count, pair;

	if (!w || !u)
		return 1;
	n = u->msh & 31;
	pair = u->op == BRINK_AV_PAIR_STORE;
	count = pair ? 2 : u->aux;
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (walk_touch(w, w->ea, (count * n) & 127))
		return 1;
	for (i = 0; i < 4; i++) {
		if (i >= count)
			break;
		if (a64_v_store(w, w->ea + (__u64)i * n, n, pair && i ? u->src2 : u->src + i))
			return 1;
	}
	return 0;
}

/* An element is known when all its bytes are. */
WALK_INLINE __u64 a64_whole(__u64 known, __u32 e)
{
	return walk_spread(walk_gather(known & 0xffff, e), e);
}

WALK_INLINE __u64 a64_lane(__u32 op, __u64 a, __u64 b, __u64 d, __u64 h, __u32 e)
{
	__u64 above;

	switch (op) {
	case BRINK_AL_AND:
		return a & b;
	case BRINK_AL_BIC:
		return a & ~b;
	case BRINK_AL_ORR:
		return a | b;
	case BRINK_AL_ORN:
		return a | ~b;
	case BRINK_AL_EOR:
		return a ^ b;
	case BRINK_AL_BSL:
		return (d & a) | (~d & b);
	case BRINK_AL_BIT:
		return (d & ~b) | (a & b);
	case BRINK_AL_BIF:
		return (d & b) | (a & ~b);
	case BRINK_AL_ADD:
		return walk_lane_add(a, b, h);
	case BRINK_AL_SUB:
		return walk_lane_sub(a, b, h);
	case BRINK_AL_EQ:
		return ~walk_fill_elements(walk_lane_nonzero(a ^ b, h), e);
	case BRINK_AL_TST:
		return walk_fill_elements(walk_lane_nonzero(a & b, h), e);
	case BRINK_AL_GT:
		return walk_fill_elements(walk_lane_above(a ^ h, b ^ h, h), e);
	case BRINK_AL_GE:
		return ~walk_fill_elements(walk_lane_above(b ^ h, a ^ h, h), e);
	case BRINK_AL_HI:
		return walk_fill_elements(walk_lane_above(a, b, h), e);
	case BRINK_AL_HS:
		return ~walk_fill_elements(walk_lane_above(b, a, h), e);
	default:
		if (op >= BRINK_AL_SMAX)
			above = walk_fill_elements(walk_lane_above(a ^ h, b ^ h, h), e);
		else
			above = walk_fill_elements(walk_lane_above(a, b, h), e);
		if (op == BRINK_AL_UMAX || op == BRINK_AL_SMAX)
			above = ~above;
		return (b & above) | (a & ~above);
	}
}

WALK_GLOBAL int a64_v_lanes(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 known, h, r[2];
	__u32 i, e, za, zb;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	h = walk_tops(e);
	za = u->index == BRINK_AV_ZERO_A;
	zb = u->index == BRINK_AV_ZERO_B;
	known = (za ? ~0ull : w->vknown[u->src2 & 31]) & (zb ? ~0ull : w->vknown[u->src & 31]);
	if (u->aux >= BRINK_AL_BSL && u->aux <= BRINK_AL_BIF)
		known &= w->vknown[u->dst & 31];
	if (u->aux >= BRINK_AL_ADD)
		known = a64_whole(known, e);
	/* Of a register with itself: the same whatever it is. */
	if (!u->index && u->src == u->src2 && (u->aux == BRINK_AL_EOR || u->aux == BRINK_AL_SUB || u->aux == BRINK_AL_EQ))
		known = ~0ull;
	for (i = 0; i < 2; i++)
		r[i] = a64_lane(u->aux, za ? 0 : a64_v(w, u->src2)[i], zb ? 0 : a64_v(w, u->src)[i], a64_v(w, u->dst)[i], h, e);
	a64_v_write(w, u->dst, u->sh, r[0], r[1], known);
	return 0;
}

/* The elements of even number of two words, side by side; for those of odd number shift right first. */
WALK_INLINE __u64 a64_even(__u64 x, __u32 e)
{
	if (e == 0) {
		x &= 0x00ff00ff00ff00ffull;
		x |= x >> 8;
	}
	if (e <= 1) {
		x &= 0x0000ffff0000ffffull;
		x |= x >> 16;
	}
	return (__u32)x;
}

/* A bit a byte: those of elements with even number. */
WALK_INLINE __u64 a64_even_known(__u64 x, __u32 e)
{
	__u64 low = a64_even(walk_expand(x), e), high = a64_even(walk_expand(x >> 8), e);

	if (e == 3)
		return x & 0xff;
	return walk_known_bytes(~(low | high << 32));
}

/* UMAXP .. ADDP: pairs of neighbours in a:b. Of 64-bit elements each half is a pair. */
WALK_GLOBAL int a64_v_pairwise(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 even[2], odd[2], ke, ko, known[2], r[2];
	__u32 i, e, n, si;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	n = 8u << e;
	for (i = 0; i < 2; i++) {
		__u64 low, high;

		si = i ? u->src : u->src2;
		low = a64_v(w, si)[0];
		high = a64_v(w, si)[1];
		ke = a64_whole(w->vknown[si & 31], e);
		if (e == 3) {
			even[i] = low;
			odd[i] = high;
			known[i] = (ke & ke >> 8) & 0xff;
			continue;
		}
		even[i] = a64_even(low, e) | a64_even(high, e) << 32;
		odd[i] = a64_even(low >> n, e) | a64_even(high >> n, e) << 32;
		ko = a64_even_known(ke >> (n / 8), e);
		known[i] = a64_even_known(ke, e) & ko;
	}
	/* Registers of eight bytes: four of each. */
	if (u->sh == 8 && e < 3) {
		even[0] = (__u32)even[0] | even[1] << 32;
		odd[0] = (__u32)odd[0] | odd[1] << 32;
		known[0] = (known[0] & 15) | (known[1] & 15) << 4;
	}
	for (i = 0; i < 2; i++)
		r[i] = a64_lane(u->aux, even[i], odd[i], 0, walk_tops(e), e);
	a64_v_write(w, u->dst, u->sh, r[0], r[1], known[0] | known[1] << 8);
	return 0;
}

/* ADDV .. SMINV: halves are folded until one element is left. */
WALK_GLOBAL int a64_v_across(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 v, h, known;
	__u32 e, width, i;

	if (!w || !u)
		return 1;
	e = u->scale & 3;
	h = walk_tops(e);
	known = w->vknown[u->src & 31] & walk_bytes(u->sh);
	v = a64_v(w, u->src)[0];
	if (u->sh == 16)
		v = a64_lane(u->aux, v, a64_v(w, u->src)[1], 0, h, e);
	for (i = 0, width = 32; i < 3; i++, width >>= 1) {
		if (width < 8u << e)
			break;
		v = a64_lane(u->aux, v, v >> width, 0, h, e);
	}
	a64_v_write(w, u->dst, 1u << e, v, 0, known == walk_bytes(u->sh) ? ~0ull : 0);
	return 0;
}

#endif /* BRINK_WALK_A64_VECTOR_H_ */
