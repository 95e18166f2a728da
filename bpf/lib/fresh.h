/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How much of a snapshot is new. The drivers of Intel (architectural LBR) and AMD empty the registers when the CPU turns
 * to another thread, read the entries that have come since, and copy out their whole buffer: behind the new entries it
 * holds, at the same places, what the snapshot before has read, perhaps of another process. Compiled for BPF and for
 * the host.
 */
#ifndef BRINK_BPF_LIB_FRESH_H_
#define BRINK_BPF_LIB_FRESH_H_

#include "brink/abi/snapshot.h"

/* The verifier is to see an index and its bound, not a pointer that runs. */
#define BRINK_FRESH_OPAQUE(x) asm volatile("" : "+r"(x))

/* Longest way without a taken branch that is believed. */
#define BRINK_FRESH_STRAIGHT 16384

/* The newest of `nr` entries up to where one branch does not lead to the next, as at the way back from the kernel. */
static inline __attribute__((always_inline)) __u32 brink_fresh_run(const struct brink_branch *now, __u32 nr)
{
	__u32 i;

	for (i = 1; i < BRINK_MAX_HW_BRANCHES; i++) {
		if (i >= nr || now[i - 1].from - now[i].to >= BRINK_FRESH_STRAIGHT)
			break;
	}
	return i < nr ? i : nr;
}

/*
 * The number of entries of `now` that may be new, at most `nr`, where `before` is the snapshot before on this CPU and the
 * registers may have been emptied in between. Entries that came since then and are by chance what was at their place go
 * too: shorter, not wrong. Where everything is as before (a loop around a sleep, on hardware that counts no cycles),
 * what is new ends at the latest with such a run: the kernel let the thread go on.
 */
static inline __attribute__((always_inline)) __u32 brink_fresh_entries(const struct brink_branch *now, const struct brink_branch *before, __u32 nr)
{
	__u32 fresh = nr, i;

	for (i = 0; i < BRINK_MAX_HW_BRANCHES; i++) {
		__u32 at = nr - 1 - i;

		BRINK_FRESH_OPAQUE(at);
		if (i >= nr || at >= BRINK_MAX_HW_BRANCHES)
			break;
		if (now[at].from != before[at].from || now[at].to != before[at].to || now[at].info != before[at].info)
			break;
		fresh = at;
	}
	return fresh ? fresh : brink_fresh_run(now, nr);
}

#endif /* BRINK_BPF_LIB_FRESH_H_ */
