/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a task-mode walk asks of user space while it waits (bpf/walk/assist.h, src/source/walk_assist.h): code that is
 * not lifted yet, and a context switch, after which the thread's vector registers are in memory.
 *
 * A ring a CPU leads to a thread that preempts the walk. Records: brink_miss (abi/walk.h), or a bare header of type
 * BRINK_REC_SWITCH, which asks for nothing but the preemption.
 */
#ifndef BRINK_ABI_WALK_ASSIST_H_
#define BRINK_ABI_WALK_ASSIST_H_

#include "brink/abi/walk.h"

#define BRINK_REC_SWITCH 0x7fff

/* State components of XSAVE that hold vector and mask registers (bit = component). */
#define BRINK_XSTATE_SSE 0x02
#define BRINK_XSTATE_AVX 0x04	/* upper halves of ymm0..15 */
#define BRINK_XSTATE_MASKS 0x20	/* k0..7 */
#define BRINK_XSTATE_ZMM_HI 0x40 /* upper halves of zmm0..15 */
#define BRINK_XSTATE_HI_ZMM 0x80 /* zmm16..31 */
#define BRINK_XSTATE_LOW 0xfc	/* components between the legacy area and the last one above, which decide offsets */

#define BRINK_VECTORS_EITHER 1	/* saved in the standard form or compacted */
#define BRINK_VECTORS_COMPACT 2	/* the CPU has XSAVES, and the kernel uses it: an area of another form was never saved */

enum brink_xstate_part {
	BRINK_XPART_AVX = 0,
	BRINK_XPART_MASKS = 1,
	BRINK_XPART_ZMM_HI = 2,
	BRINK_XPART_HI_ZMM = 3,
	BRINK_XPART_COUNT = 4
};

/* Read-only data of the task-mode objects. */
struct brink_walk_assist {
	__u32 lift;		/* 1: walks wait for code */
	__u32 vectors;		/* BRINK_VECTORS_*; 0: walks do not ask for vector registers */
	__u64 compact_low;	/* bits BRINK_XSTATE_LOW of xcomp_bv for which `compact` holds */
	__u32 standard[BRINK_XPART_COUNT];	/* offsets in the XSAVE area; 0 = the CPU has none */
	__u32 compact[BRINK_XPART_COUNT];	/* in the compacted form */
	__u32 permille;		/* of a CPU's time that all waits may take */
	__u32 burst_ns;		/* what they may take at the start, and after a pause */
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_assist) == 56);
BRINK_ABI_FIELD(struct brink_walk_assist, lift, 0, 4);
BRINK_ABI_FIELD(struct brink_walk_assist, vectors, 4, 4);
BRINK_ABI_FIELD(struct brink_walk_assist, compact_low, 8, 8);
BRINK_ABI_FIELD(struct brink_walk_assist, standard, 16, 16);
BRINK_ABI_FIELD(struct brink_walk_assist, compact, 32, 16);
BRINK_ABI_FIELD(struct brink_walk_assist, permille, 48, 4);
BRINK_ABI_FIELD(struct brink_walk_assist, burst_ns, 52, 4);

enum brink_assist_kind {
	BRINK_ASSIST_LIFT = 0,
	BRINK_ASSIST_VECTORS = 1,
	BRINK_ASSIST_KINDS = 2
};

/* Per CPU: walk_assist_state. Times and counts since the start; what is left of the waiting time. */
struct brink_assist_state {
	__s64 left_ns;
	__u64 time_ns;		/* when left_ns was filled */
	__u64 asked[BRINK_ASSIST_KINDS];
	__u64 helped[BRINK_ASSIST_KINDS];	/* the walk went further */
	__u64 waited_ns[BRINK_ASSIST_KINDS];
	__u32 debt[BRINK_ASSIST_KINDS];		/* failures since the last success: who fails often is asked rarely */
	__u32 turn;
	__u32 reserved;
};
BRINK_ABI_ASSERT(sizeof(struct brink_assist_state) == 80);
BRINK_ABI_FIELD(struct brink_assist_state, left_ns, 0, 8);
BRINK_ABI_FIELD(struct brink_assist_state, asked, 16, 16);
BRINK_ABI_FIELD(struct brink_assist_state, helped, 32, 16);
BRINK_ABI_FIELD(struct brink_assist_state, waited_ns, 48, 16);
BRINK_ABI_FIELD(struct brink_assist_state, debt, 64, 8);
BRINK_ABI_FIELD(struct brink_assist_state, turn, 72, 4);

#endif /* BRINK_ABI_WALK_ASSIST_H_ */
