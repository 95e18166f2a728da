/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vector instructions: operands, results under masks, moves, element-wise operations. */
#ifndef BRINK_WALK_VECTOR_H_
#define BRINK_WALK_VECTOR_H_

#include "walk/vlane.h"

/* Results are made here before they go to the destination. */
#define WALK_RESULT(w) ((__u64 *)(w)->scratch)

WALK_INLINE int walk_v_misaligned(struct brink_walk *w, const struct brink_uop *u)
{
	if (!(walk_imm(w) & BRINK_V_ALIGNED) || !(w->ea & (u->msh - 1)))
		return 0;
	w->fault_address = w->ea;
	return walk_stop(w, BRINK_STOP_FAULT);
}

/* Loads the memory operand into vtmp; an element is broadcast. */
WALK_GLOBAL int walk_v_load(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 n, i, msh;
	__u64 known = 0;

	if (!w || !u)
		return 1;
	n = u->msh & 127;
	if (w->reg[BRINK_WREG_MEM].unk) {
		w->vtmp_known = ~walk_bytes(n);
		for (i = 0; i < 8; i++)
			walk_vector_at(w, BRINK_V_MEM)[i] = 0;
		if (walk_imm(w) & BRINK_V_BROADCAST)
			w->vtmp_known = 0;
		return 0;
	}
	if (walk_v_misaligned(w, u))
		return 1;
	msh = n >= 8 ? 0 : 64 - 8 * n;
	for (i = 0; i < 8; i++) {
		walk_vector_at(w, BRINK_V_MEM)[i] = 0;
		if (8 * i >= n) {
			known |= 0xffull << (8 * i);
			continue;
		}
		if (walk_load(w, w->ea + 8 * i, msh & 63, BRINK_WREG_T0))
			return 1;
		walk_vector_at(w, BRINK_V_MEM)[i] = w->reg[BRINK_WREG_T0].val;
		known |= walk_known_bytes(w->reg[BRINK_WREG_T0].unk) << (8 * i);
	}
	if (walk_imm(w) & BRINK_V_BROADCAST) {
		__u64 v = w->reg[BRINK_WREG_T0].val, k = walk_known_bytes(w->reg[BRINK_WREG_T0].unk | ~walk_mask(msh));

		/* Elements of 1, 2, 4 or 8 bytes, doubled up. */
		if (n == 1) {
			v *= 0x0101010101010101ull;
			k *= 0xff;
		} else if (n == 2) {
			v *= 0x0001000100010001ull;
			k *= 0x55;
		} else if (n == 4) {
			v *= 0x0000000100000001ull;
			k *= 0x11;
		}
		known = (k & 0xff) * 0x0101010101010101ull;
		for (i = 0; i < 8; i++)
			walk_vector_at(w, BRINK_V_MEM)[i] = v;
	}
	w->vtmp_known = known;
	return 0;
}

/* Moves the result (known: a bit a byte) to dst under the write mask. */
WALK_GLOBAL int walk_v_finish(struct brink_walk *w, const struct brink_uop *u, __u64 known)
{
	__u64 bytes, sel, maybe = 0, old_known;
	__u32 i, k, zeroing;

	if (!w || !u)
		return 1;
	bytes = walk_bytes(u->sh);
	k = BRINK_V_MASK(walk_imm(w));
	zeroing = walk_imm(w) & BRINK_V_ZEROING;
	sel = bytes;
	if (k) {
		__u32 e = BRINK_V_ESIZE(walk_imm(w));

		sel &= walk_spread(w->reg[BRINK_WREG_K0 + k].val, e);
		maybe = walk_spread(w->reg[BRINK_WREG_K0 + k].unk, e) & bytes;
	}
	old_known = w->vknown[u->dst & 31];
	known = (known & sel) | (~sel & (zeroing ? bytes : old_known & bytes));
	known &= ~maybe;
	known |= walk_imm(w) & BRINK_V_LEGACY ? old_known & ~bytes : ~bytes;
	w->vknown[u->dst & 31] = known;
	for (i = 0; i < 8; i++) {
		__u64 *to = &walk_vector_at(w, u->dst & 31)[i], m = walk_expand(sel >> (8 * i)), keep = ~m;

		if (zeroing)
			keep &= ~walk_expand(bytes >> (8 * i));
		if (!(walk_imm(w) & BRINK_V_LEGACY))
			keep &= walk_expand(bytes >> (8 * i));
		*to = (WALK_RESULT(w)[i] & m) | (*to & keep);
	}
	return 0;
}

WALK_GLOBAL int walk_v_move(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 i, si;

	if (!w || !u)
		return 1;
	si = u->src & 63;
	for (i = 0; i < 8; i++)
		WALK_RESULT(w)[i] = u->op == BRINK_VOP_CONST ? (__u64)-(__s64)(u->aux & 1) : walk_vector_at(w, si)[i];
	return walk_v_finish(w, u, u->op == BRINK_VOP_CONST ? ~0ull : walk_vector_known(w, si));
}

WALK_INLINE __u64 walk_lane(__u32 op, __u64 a, __u64 b, __u64 h, __u32 e)
{
	__u64 above;

	switch (op) {
	case BRINK_VL_AND:
		return a & b;
	case BRINK_VL_ANDN:
		return ~a & b;
	case BRINK_VL_OR:
		return a | b;
	case BRINK_VL_XOR:
		return a ^ b;
	case BRINK_VL_ADD:
		return walk_lane_add(a, b, h);
	case BRINK_VL_SUB:
		return walk_lane_sub(a, b, h);
	case BRINK_VL_EQ:
		return ~walk_fill_elements(walk_lane_nonzero(a ^ b, h), e);
	case BRINK_VL_GT:
		return walk_fill_elements(walk_lane_above(a ^ h, b ^ h, h), e);
	default:
		if (op >= BRINK_VL_MINS)
			above = walk_fill_elements(walk_lane_above(a ^ h, b ^ h, h), e);
		else
			above = walk_fill_elements(walk_lane_above(a, b, h), e);
		if (op == BRINK_VL_MAXU || op == BRINK_VL_MAXS)
			above = ~above;
		return (b & above) | (a & ~above);
	}
}

WALK_GLOBAL int walk_v_lanes(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 known, h;
	__u32 i, e, ai, bi;

	if (!w || !u)
		return 1;
	e = BRINK_V_ESIZE(walk_imm(w));
	h = walk_tops(e);
	ai = u->src2 & 31;
	bi = u->src & 63;
	known = w->vknown[ai] & walk_vector_known(w, bi);
	if (u->aux >= BRINK_VL_ADD)
		known = walk_spread(walk_gather(known, e), e);
	for (i = 0; i < 8; i++)
		WALK_RESULT(w)[i] = walk_lane(u->aux, walk_vector_at(w, ai)[i], walk_vector_at(w, bi)[i], h, e);
	return walk_v_finish(w, u, known);
}

/* Shifts of elements by an immediate; no byte elements exist. */
WALK_GLOBAL int walk_v_shift(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 known, h, ones;
	__u32 i, e, n, width, si, beyond;

	if (!w || !u)
		return 1;
	e = BRINK_V_ESIZE(walk_imm(w));
	width = 8u << e;
	n = walk_imm(w) & 0xff;
	beyond = n >= width;
	if (beyond)
		n = width - 1;
	si = u->src & 63;
	h = walk_tops(e);
	ones = h >> (width - 1);
	known = walk_spread(walk_gather(walk_vector_known(w, si), e), e);
	for (i = 0; i < 8; i++) {
		__u64 a = walk_vector_at(w, si)[i], sign = walk_fill_elements(a & h, e), low, r;

		/* `low`: the bits of an element below n (left) or kept by a right shift. */
		if (u->aux == 0) {
			low = ones * ((1ull << n) - 1);
			r = beyond ? 0 : a << n & ~low;
		} else {
			low = ones * ((~0ull >> (64 - width)) >> n);
			r = a >> n & low;
			if (u->aux == 2)
				r |= sign & ~low;
			else if (beyond)
				r = 0;
		}
		WALK_RESULT(w)[i] = r;
	}
	return walk_v_finish(w, u, known);
}

WALK_GLOBAL int walk_v_ternary(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 known;
	__u32 i, j, ai, bi, di;
	__u64 imm;

	if (!w || !u)
		return 1;
	imm = walk_imm(w) & 0xff;
	ai = u->src2 & 31;
	bi = u->src & 63;
	di = u->dst & 31;
	known = w->vknown[di] & w->vknown[ai] & walk_vector_known(w, bi);
	for (i = 0; i < 8; i++) {
		__u64 a = walk_vector_at(w, di)[i], b = walk_vector_at(w, ai)[i], c = walk_vector_at(w, bi)[i], r = 0;

		for (j = 0; j < 8; j++) {
			/* The compiler must not make a branch of it: the verifier would take each way. */
			__u64 on = (__u64)((__s64)(imm << (63 - j)) >> 63);

			WALK_OPAQUE(on);

			r |= (j & 4 ? a : ~a) & (j & 2 ? b : ~b) & (j & 1 ? c : ~c) & on;
		}
		WALK_RESULT(w)[i] = r;
	}
	return walk_v_finish(w, u, known);
}

/* Stores n = msh bytes of register src, from byte aux on, eight at a time. */
WALK_GLOBAL int walk_v_store(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 sel, known;
	__u32 n, i, k, first, msh;

	if (!w || !u)
		return 1;
	n = u->msh & 127;
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (walk_v_misaligned(w, u))
		return 1;
	sel = walk_bytes(n);
	k = BRINK_V_MASK(walk_imm(w));
	if (k) {
		__u32 e = BRINK_V_ESIZE(walk_imm(w));

		if (walk_spread(w->reg[BRINK_WREG_K0 + k].unk, e) & sel)
			return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
		sel &= walk_spread(w->reg[BRINK_WREG_K0 + k].val, e);
	}
	if (!sel)
		return 0;
	/* Everything that can fail, fails here. */
	if (walk_touch(w, w->ea, n))
		return 1;
	first = u->aux & 63;
	msh = n >= 8 ? 0 : 64 - 8 * n;
	known = u->op == BRINK_VOP_UNKNOWN_STORE ? 0 : w->vknown[u->src & 31] >> first;
	for (i = 0; i < 8; i++) {
		__u64 m = walk_expand(sel >> (8 * i)), unk = ~walk_expand(known >> (8 * i)), val;

		if (8 * i >= n)
			break;
		if (!m)
			continue;
		val = WALK_AT(64, w->vreg[u->src & 31].data + ((first + 8 * i) & 63));
		m &= walk_mask(msh);
		if (m != walk_mask(msh)) {
			if (walk_load(w, w->ea + 8 * i, msh & 63, BRINK_WREG_T1))
				return 1;
			val = (val & m) | (w->reg[BRINK_WREG_T1].val & ~m);
			unk = (unk & m) | (w->reg[BRINK_WREG_T1].unk & ~m);
		}
		w->reg[BRINK_WREG_T0].val = val & ~unk;
		w->reg[BRINK_WREG_T0].unk = unk;
		if (walk_store(w, w->ea + 8 * i, msh & 63, BRINK_WREG_T0))
			return 1;
	}
	return 0;
}

#endif /* BRINK_WALK_VECTOR_H_ */
