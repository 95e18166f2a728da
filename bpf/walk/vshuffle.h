/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vector instructions that move bytes about: every byte of the result is one of a, one of b, or zero. */
#ifndef BRINK_WALK_VSHUFFLE_H_
#define BRINK_WALK_VSHUFFLE_H_

#include "walk/vector.h"

#define WALK_FROM_B 64
#define WALK_FROM_NONE 128

/* Where byte j of the result comes from: byte of a, WALK_FROM_B + byte of b, WALK_FROM_NONE. */
WALK_INLINE __u32 walk_shuffle_from(__u32 kind, __u32 j, __u32 imm, __u32 e)
{
	__u32 lane = j & 48, i = j & 15, es = 1u << e, t;

	switch (kind) {
	case BRINK_VS_DWORDS:
		return WALK_FROM_B + lane + ((imm >> (2 * (i >> 2)) & 3) << 2) + (i & 3);
	case BRINK_VS_LOW_WORDS:
		return WALK_FROM_B + lane + (i < 8 ? ((imm >> (2 * (i >> 1)) & 3) << 1) + (i & 1) : i);
	case BRINK_VS_HIGH_WORDS:
		return WALK_FROM_B + lane + (i >= 8 ? 8 + ((imm >> (2 * ((i - 8) >> 1)) & 3) << 1) + (i & 1) : i);
	case BRINK_VS_UNPACK_LOW:
	case BRINK_VS_UNPACK_HIGH:
		t = i >> e;
		return (t & 1 ? WALK_FROM_B : 0) + lane + (kind == BRINK_VS_UNPACK_HIGH ? 8 : 0) + ((t >> 1) << e) + (i & (es - 1));
	case BRINK_VS_ALIGN:
		t = i + imm;
		return t < 16 ? WALK_FROM_B + lane + t : t < 32 ? lane + t - 16 : WALK_FROM_NONE;
	case BRINK_VS_LEFT:
		return i >= imm ? WALK_FROM_B + lane + i - imm : WALK_FROM_NONE;
	case BRINK_VS_RIGHT:
		return i + imm < 16 ? WALK_FROM_B + lane + i + imm : WALK_FROM_NONE;
	case BRINK_VS_SINGLES:
		t = (imm >> (2 * (i >> 2)) & 3) << 2;
		return (i >= 8 ? WALK_FROM_B : 0) + lane + t + (i & 3);
	case BRINK_VS_DOUBLES:
		t = (imm >> (j >> 3) & 1) << 3;
		return (i >= 8 ? WALK_FROM_B : 0) + lane + t + (i & 7);
	case BRINK_VS_LOW:
		return j < es ? WALK_FROM_B + j : j;
	case BRINK_VS_HIGH:
		return j >= 8 && j < 16 ? WALK_FROM_B + j - 8 : j;
	case BRINK_VS_HIGH_TO_LOW:
		return j < 8 ? WALK_FROM_B + j + 8 : j;
	case BRINK_VS_DUP_DOUBLE:
		return WALK_FROM_B + lane + (i & 7);
	case BRINK_VS_QWORDS:
		return WALK_FROM_B + (j & 32) + ((imm >> (2 * (j >> 3 & 3)) & 3) << 3) + (j & 7);
	case BRINK_VS_INSERT:
		return lane == imm << 4 ? WALK_FROM_B + i : j;
	case BRINK_VS_EXTRACT:
		return WALK_FROM_B + ((imm << 4) & 48) + i;
	case BRINK_VS_INSERT32:
		return (j & 32) == imm << 5 ? WALK_FROM_B + (j & 31) : j;
	case BRINK_VS_EXTRACT32:
		return WALK_FROM_B + ((imm << 5) & 32) + (j & 31);
	default:	/* PUT */
		return j >> e == imm ? WALK_FROM_B + (j & (es - 1)) : j;
	}
}

/* Byte j of a shuffle's result; its known bit goes to T0. A function of its own for the verifier's sake. */
WALK_GLOBAL int walk_v_byte(struct brink_walk *w, const struct brink_uop *u, __u32 j)
{
	__u32 from, at, bi;
	__u8 byte = 0;
	__u64 k = 1, kb;

	if (!w || !u)
		return 1;
	j &= 63;
	bi = u->src & 63;
	kb = walk_vector_known(w, bi);
	if (u->aux == BRINK_VS_BYTES) {
		/* The control is b; an unknown one gives an unknown byte. */
		from = ((const __u8 *)walk_vector_at(w, bi))[j];
		k = kb >> j & 1;
		from = from & 0x80 ? WALK_FROM_NONE : (j & 48) + (from & 15);
	} else {
		from = walk_shuffle_from(u->aux, j, walk_imm(w) & 0xff, BRINK_V_ESIZE(walk_imm(w)));
	}
	/* The verifier of 6.1 must see the bound where it is used. */
	at = from;
	WALK_OPAQUE(at);
	at &= 63;
	if (from < WALK_FROM_B) {
		byte = w->vreg[u->src2 & 31].data[at];
		k &= w->vknown[u->src2 & 31] >> at;
	} else if (from < WALK_FROM_NONE) {
		byte = ((const __u8 *)walk_vector_at(w, bi))[at];
		k &= kb >> at;
	}
	w->scratch[j] = byte;
	w->reg[BRINK_WREG_T0].val |= (k & 1) << j;
	return 0;
}

WALK_GLOBAL int walk_v_shuffle(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 j;

	if (!w || !u)
		return 1;
	w->reg[BRINK_WREG_T0].val = 0;
	w->reg[BRINK_WREG_T0].unk = 0;
	for (j = 0; j < 64; j++) {
		if (j >= u->sh)
			break;
		if (walk_v_byte(w, u, j))
			return 1;
	}
	return walk_v_finish(w, u, w->reg[BRINK_WREG_T0].val);
}

WALK_GLOBAL int walk_v_broadcast(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 v, k;
	__u32 i, e;

	if (!w || !u)
		return 1;
	e = BRINK_V_ESIZE(walk_imm(w));
	if (u->aux) {
		v = w->reg[u->src & 31].val;
		k = walk_known_bytes(w->reg[u->src & 31].unk);
	} else {
		v = walk_vector_at(w, u->src & 63)[0];
		k = walk_vector_known(w, u->src & 63);
	}
	if (e == 0) {
		v = (v & 0xff) * 0x0101010101010101ull;
		k = (k & 1) * 0xff;
	} else if (e == 1) {
		v = (v & 0xffff) * 0x0001000100010001ull;
		k = (k & 3) * 0x55;
	} else if (e == 2) {
		v = (v & 0xffffffff) * 0x0000000100000001ull;
		k = (k & 15) * 0x11;
	}
	for (i = 0; i < 8; i++)
		WALK_RESULT(w)[i] = v;
	return walk_v_finish(w, u, (k & 0xff) * 0x0101010101010101ull);
}

/* Between general and vector registers; VZEROUPPER. */
WALK_GLOBAL int walk_v_gpr(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 i, n, first, msh;
	__u64 v, known;

	if (!w || !u)
		return 1;
	n = u->msh & 15;
	msh = (64 - 8 * n) & 63;
	if (u->op == BRINK_VOP_TO_GPR) {
		first = u->aux & 63;
		v = WALK_AT(64, w->vreg[u->src & 31].data + first) & walk_mask(msh);
		known = walk_expand(w->vknown[u->src & 31] >> first);
		/* Zero-extended to 64 bits whatever the size. */
		w->reg[u->dst & 31].unk = ~known & walk_mask(msh);
		w->reg[u->dst & 31].val = v & ~w->reg[u->dst & 31].unk;
		return 0;
	}
	if (u->op == BRINK_VOP_FROM_GPR) {
		for (i = 1; i < 8; i++)
			WALK_RESULT(w)[i] = 0;
		WALK_RESULT(w)[0] = w->reg[u->src & 31].val & walk_mask(msh);
		return walk_v_finish(w, u, ~0xffull | walk_known_bytes(w->reg[u->src & 31].unk & walk_mask(msh)));
	}
	for (i = 0; i < 16; i++) {
		__u64 *to = walk_vector_at(w, i), keep = u->aux ? 0 : ~0ull;

		to[0] &= keep;
		to[1] &= keep;
		to[2] = to[3] = to[4] = to[5] = to[6] = to[7] = 0;
		w->vknown[i] |= u->aux ? ~0ull : ~0xffffull;
	}
	return 0;
}

#endif /* BRINK_WALK_VSHUFFLE_H_ */
