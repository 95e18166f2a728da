/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* From vectors to masks, general registers and flags: what decides branches. And the mask registers themselves. */
#ifndef BRINK_WALK_VMASK_H_
#define BRINK_WALK_VMASK_H_

#include "walk/vshuffle.h"
#include "walk/vstring.h"

/* Top bit set where the predicate holds. */
WALK_INLINE __u64 walk_predicate(__u32 how, __u64 a, __u64 b, __u64 h)
{
	__u64 x = a, y = b, r;

	if (how & 16) {
		x ^= h;
		y ^= h;
	}
	switch (how & 15) {
	case 0:
		return ~walk_lane_nonzero(a ^ b, h) & h;
	case 1:
		return walk_lane_above(y, x, h);
	case 2:
		return ~walk_lane_above(x, y, h) & h;
	case 4:
		return walk_lane_nonzero(a ^ b, h);
	case 5:
		return ~walk_lane_above(y, x, h) & h;
	case 6:
		return walk_lane_above(x, y, h);
	case 7:
		return h;
	case 8:
		return walk_lane_nonzero(a & b, h);
	case 9:
		r = walk_lane_nonzero(a & b, h);
		return ~r & h;
	default:
		return 0;
	}
}

/* The top byte of every element, a bit each. */
WALK_INLINE __u64 walk_top_bytes(__u32 e)
{
	return e == 0 ? ~0ull : e == 1 ? 0xaaaaaaaaaaaaaaaaull : e == 2 ? 0x8888888888888888ull : 0x8080808080808080ull;
}

/* COMPARE: one bit an element into a mask register. MOVMSK and TO_MASK: the top bits. */
WALK_GLOBAL int walk_v_compare(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 bits = 0, known, h, all, k, ku;
	__u32 i, e, ai, bi, per, ki;

	if (!w || !u)
		return 1;
	e = BRINK_V_ESIZE(walk_imm(w));
	h = walk_tops(e);
	ai = u->src2 & 31;
	bi = u->src & 63;
	per = 8u >> e;
	known = walk_vector_known(w, bi);
	if (u->op == BRINK_VOP_COMPARE)
		known &= w->vknown[ai];
	else	/* the top byte of an element decides */
		known |= ~walk_top_bytes(e);
	known = walk_gather(known, e);
	for (i = 0; i < 8; i++) {
		__u64 a = walk_vector_at(w, ai)[i], b = walk_vector_at(w, bi)[i];

		if (8 * i >= u->sh)
			break;
		b = u->op == BRINK_VOP_COMPARE ? walk_predicate(u->aux, a, b, h) : b & h;
		bits |= walk_top_bits(b, e) << (per * i & 63);
	}
	all = walk_bytes((__u32)u->sh >> e);
	known &= all;
	ki = BRINK_V_MASK(walk_imm(w));
	if (ki && u->op == BRINK_VOP_COMPARE) {
		k = w->reg[BRINK_WREG_K0 + ki].val;
		ku = w->reg[BRINK_WREG_K0 + ki].unk;
		bits &= k | ku;
		/* Known where the mask is known to be 0, or both are known. */
		known = (known & ~ku) | (~k & ~ku);
	}
	known |= ~all;
	w->reg[u->dst & 31].val = bits & known & all;
	w->reg[u->dst & 31].unk = ~known;
	return 0;
}

/* Elements of all ones where the mask is set. */
WALK_GLOBAL int walk_v_from_mask(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 ones, unk;
	__u32 i, e;

	if (!w || !u)
		return 1;
	e = BRINK_V_ESIZE(walk_imm(w));
	ones = walk_spread(w->reg[u->src & 31].val, e);
	unk = walk_spread(w->reg[u->src & 31].unk, e);
	for (i = 0; i < 8; i++)
		WALK_RESULT(w)[i] = walk_expand(ones >> (8 * i));
	return walk_v_finish(w, u, ~unk);
}

/* PTEST: ZF of a & b (a is dst's field), CF of ~a & b, the others 0. */
WALK_GLOBAL int walk_v_test(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 z = 0, c = 0, unk = 0, known;
	__u32 i, ai, bi, flags, kf;

	if (!w || !u)
		return 1;
	ai = u->src2 & 31;
	bi = u->src & 63;
	known = w->vknown[ai] & walk_vector_known(w, bi);
	for (i = 0; i < 8; i++) {
		__u64 a = walk_vector_at(w, ai)[i], b = walk_vector_at(w, bi)[i], m = walk_expand(known >> (8 * i));

		if (8 * i >= u->sh)
			break;
		z |= a & b & m;
		c |= ~a & b & m;
		unk |= ~m;
	}
	flags = (z ? 0 : WALK_ZF) | (c ? 0 : WALK_CF);
	kf = WALK_ARITH;
	if (unk && !z)
		kf &= ~WALK_ZF;
	if (unk && !c)
		kf &= ~WALK_CF;
	walk_flags_all(w, flags, kf);
	return 0;
}

/* KORTEST, KTEST; sh is 64 - width. */
WALK_GLOBAL int walk_k_test(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 m, a, b, ua, ub, z, uz, c, uc;
	__u32 flags = 0, known = WALK_ARITH;

	if (!w || !u)
		return 1;
	m = walk_mask(u->sh);
	a = w->reg[u->src2 & 31].val & m;
	ua = w->reg[u->src2 & 31].unk & m;
	b = w->reg[u->src & 31].val & m;
	ub = w->reg[u->src & 31].unk & m;
	if (u->aux) {
		/* KTEST: ZF: a & b is 0; CF: ~a & b is 0. */
		z = a & b;
		uz = (a | ua) & (b | ub) & ~z;
		c = ~(a | ua) & b;
		uc = ~a & (b | ub) & ~c;
		flags = (z ? 0 : WALK_ZF) | (c ? 0 : WALK_CF);
		known &= ~((!z && uz ? WALK_ZF : 0) | (!c && uc ? WALK_CF : 0));
	} else {
		/* KORTEST: ZF: a | b is 0; CF: it is all ones. */
		z = a | b;
		uz = (ua | ub) & ~z;
		flags = (z ? 0 : WALK_ZF) | (z == m ? WALK_CF : 0);
		if (uz && !z)
			known &= ~WALK_ZF;
		if (uz && (z | uz) == m)
			known &= ~WALK_CF;
	}
	walk_flags_all(w, flags, known);
	return 0;
}

WALK_GLOBAL int walk_k_logic(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 m, a, b, ua, ub, r, ur;
	__u32 n, width;

	if (!w || !u)
		return 1;
	m = walk_mask(u->sh);
	width = 64 - (u->sh & 63);
	a = w->reg[u->src2 & 31].val & m;
	ua = w->reg[u->src2 & 31].unk & m;
	b = w->reg[u->src & 31].val & m;
	ub = w->reg[u->src & 31].unk & m;
	n = walk_imm(w) & 0xff;
	ur = ua | ub;
	switch (u->aux) {
	case BRINK_KL_AND:
		r = a & b;
		ur &= (a | ua) & (b | ub);
		break;
	case BRINK_KL_ANDN:
		r = ~a & b;
		ur &= (~a | ua) & (b | ub);
		break;
	case BRINK_KL_OR:
		r = a | b;
		ur &= ~r;
		break;
	case BRINK_KL_XOR:
		r = a ^ b;
		if ((u->src & 31) == (u->src2 & 31))
			ur = 0;
		break;
	case BRINK_KL_XNOR:
		r = ~(a ^ b);
		if ((u->src & 31) == (u->src2 & 31))
			ur = 0;
		break;
	case BRINK_KL_NOT:
		r = ~b;
		ur = ub;
		break;
	case BRINK_KL_MOVE:
		r = b;
		ur = ub;
		break;
	case BRINK_KL_SHIFT_LEFT:
		r = n < width ? b << (n & 63) : 0;
		ur = n < width ? ub << (n & 63) : 0;
		break;
	case BRINK_KL_SHIFT_RIGHT:
		r = n < width ? b >> (n & 63) : 0;
		ur = n < width ? ub >> (n & 63) : 0;
		break;
	case BRINK_KL_UNPACK:	/* the low halves of a and b side by side */
		r = a << (width / 2 & 63) | (b & (m >> (width / 2 & 63)));
		ur = ua << (width / 2 & 63) | (ub & (m >> (width / 2 & 63)));
		break;
	default:	/* ADD */
		r = a + b;
		ur = ur ? ~0ull : 0;
		break;
	}
	ur &= m;
	w->reg[u->dst & 31].val = r & m & ~ur;
	w->reg[u->dst & 31].unk = ur;
	return 0;
}

/* All vector operations. */
WALK_GLOBAL int walk_vector(struct brink_walk *w, const struct brink_uop *u)
{
	if (!w || !u)
		return 1;
	if ((u->src & 63) == BRINK_V_MEM && walk_v_load(w, u))
		return 1;
	switch (u->op) {
	case BRINK_VOP_MOVE:
	case BRINK_VOP_CONST:
		return walk_v_move(w, u);
	case BRINK_VOP_STORE:
	case BRINK_VOP_UNKNOWN_STORE:
		return walk_v_store(w, u);
	case BRINK_VOP_LANE:
		return walk_v_lanes(w, u);
	case BRINK_VOP_COMPARE:
	case BRINK_VOP_MOVMSK:
	case BRINK_VOP_TO_MASK:
		return walk_v_compare(w, u);
	case BRINK_VOP_TO_GPR:
	case BRINK_VOP_FROM_GPR:
	case BRINK_VOP_ZERO_UPPER:
		return walk_v_gpr(w, u);
	case BRINK_VOP_BROADCAST:
		return walk_v_broadcast(w, u);
	case BRINK_VOP_SHUFFLE:
		return walk_v_shuffle(w, u);
	case BRINK_VOP_TERNARY:
		return walk_v_ternary(w, u);
	case BRINK_VOP_TEST:
		return walk_v_test(w, u);
	case BRINK_VOP_SHIFT:
		return walk_v_shift(w, u);
	case BRINK_VOP_KLOGIC:
		return walk_k_logic(w, u);
	case BRINK_VOP_KTEST:
		return walk_k_test(w, u);
	case BRINK_VOP_FROM_MASK:
		return walk_v_from_mask(w, u);
	case BRINK_VOP_STRING:
		return walk_v_string(w, u);
	default:
		return walk_stop(w, BRINK_STOP_UNSUPPORTED);
	}
}

#endif /* BRINK_WALK_VMASK_H_ */
