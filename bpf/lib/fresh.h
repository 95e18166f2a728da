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

/* Where the entries begin that are what they were in `before`, to the end. */
static inline __attribute__((always_inline)) __u32 brink_fresh_tail(const struct brink_branch *now, const struct brink_branch *before, __u32 nr)
{
	__u32 tail = nr, i;

	for (i = 0; i < BRINK_MAX_HW_BRANCHES; i++) {
		__u32 at = nr - 1 - i;

		BRINK_FRESH_OPAQUE(at);
		if (i >= nr || at >= BRINK_MAX_HW_BRANCHES)
			break;
		if (now[at].from != before[at].from || now[at].to != before[at].to || now[at].info != before[at].info)
			break;
		tail = at;
	}
	return tail;
}

/*
 * The number of entries of snapshot `seq`, the newest of its CPU and `nr` long, that may be new. The one before counts if
 * it was the driver's last reading, which another tracer may have made meanwhile.
 *
 * In the same stint nothing has emptied the registers since: what was new then is new still. Else all that stands where it
 * stood goes, also what came since and is the same by chance: shorter, not wrong. Where everything is as before (a loop
 * around a sleep, on hardware that counts no cycles), what is new ends at the latest with the run that the kernel began.
 */
static inline __attribute__((always_inline)) __u32 brink_fresh_entries(const struct brink_snapshot_cpu *cpu, __u32 seq, __u32 nr)
{
	const struct brink_snapshot_slot *now = &cpu->half[seq & 1], *before = &cpu->half[~seq & 1];
	__u32 had = cpu->count[~seq & 1], tail;

	if (!before->seq || before->seq != seq - 1 || before->bytes < 0)
		return brink_fresh_run(now->entries, nr);
	if (cpu->stint[0] != cpu->stint[1])
		had = 0;
	if (had >= nr)
		return nr;
	tail = brink_fresh_tail(now->entries, before->entries, nr);
	if (had)
		return tail > had ? tail : had;
	return tail ? tail : brink_fresh_run(now->entries, nr);
}

#endif /* BRINK_BPF_LIB_FRESH_H_ */
