/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vector operations of A64 micro-ops. dst, src2 ("a") and src ("b") are vector registers 0..31, sh the length of the
 * result in bytes (what lies above becomes 0), scale log2 of the element's bytes unless said otherwise.
 */
#ifndef BRINK_WALK_A64_VOPS_H_
#define BRINK_WALK_A64_VOPS_H_

#include "walk/a64/ops.h"

enum brink_a64_vop {
	BRINK_AV_LOAD = BRINK_A64_V,	/* aux registers from dst on, msh bytes each, one behind the other in memory */
	BRINK_AV_STORE,		/* the same, from src on */
	BRINK_AV_PAIR_LOAD,	/* dst, src2 */
	BRINK_AV_PAIR_STORE,	/* src, src2 */
	BRINK_AV_REPEAT_LOAD,	/* msh bytes in every element */
	BRINK_AV_LANE,		/* a aux (enum brink_av_lane) b; index: which operand is 0 (BRINK_AV_ZERO_*) */
	BRINK_AV_PAIRWISE,	/* of a, b; aux: enum brink_av_lane */
	BRINK_AV_ACROSS,	/* of all elements of b in sh bytes, one element */
	BRINK_AV_SHIFT,		/* b by index; aux: enum brink_a64_shift (LSL, LSR, ASR) */
	BRINK_AV_NARROW,	/* halves of b's elements (scale: of b) from bit index on; aux 1: to the upper half of dst */
	BRINK_AV_WIDEN,		/* b's elements (scale: of b) doubled, left by index; aux 1 signed; 2: of the upper half */
	BRINK_AV_REPEAT,	/* element index of b everywhere */
	BRINK_AV_REPEAT_REG,	/* general b everywhere */
	BRINK_AV_PUT,		/* element index = element aux of b */
	BRINK_AV_PUT_REG,	/* element index = general b */
	BRINK_AV_GET,		/* general dst (sh bits less than 64) = element index of b; aux 1: sign-extended */
	BRINK_AV_MOVE,		/* msh bytes of b, zero above */
	BRINK_AV_MOVE_REG,	/* msh bytes of general b, zero above */
	BRINK_AV_CONST,		/* disp and imm in every eight bytes; aux 0 mov, 1 orr, 2 bic, with dst */
	BRINK_AV_SHUFFLE,	/* bytes of a, b; aux: enum brink_av_shuffle */
	BRINK_AV_TABLE,		/* bytes of a by index in b */
	BRINK_AV_COUNT_ONES,	/* of every byte of b */
	BRINK_AV_MAX
};

#define BRINK_AV_ZERO_B 1
#define BRINK_AV_ZERO_A 2

enum brink_av_lane {
	BRINK_AL_AND, BRINK_AL_BIC, BRINK_AL_ORR, BRINK_AL_ORN, BRINK_AL_EOR,
	BRINK_AL_BSL, BRINK_AL_BIT, BRINK_AL_BIF,	/* with dst as the third operand; up to here by bit */
	BRINK_AL_ADD, BRINK_AL_SUB, BRINK_AL_EQ, BRINK_AL_GT, BRINK_AL_GE, BRINK_AL_HI, BRINK_AL_HS, BRINK_AL_TST,
	BRINK_AL_UMAX, BRINK_AL_UMIN, BRINK_AL_SMAX, BRINK_AL_SMIN,
};

enum brink_av_shuffle {
	BRINK_AS_EXTRACT,	/* from byte index on */
	BRINK_AS_ZIP1, BRINK_AS_ZIP2, BRINK_AS_UZP1, BRINK_AS_UZP2, BRINK_AS_TRN1, BRINK_AS_TRN2,
	BRINK_AS_REVERSE,	/* elements of 1 << scale bytes of a, within groups of 1 << index bytes */
};

#endif /* BRINK_WALK_A64_VOPS_H_ */
