/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The branch snapshot of a trigger, in two stages (design section 3):
 *
 *	struct brink_snapshot_slot *slot = brink_snapshot_take(&seq);	first thing in the program
 *	...is this hit wanted? rate limit, conditions...
 *	nr = brink_snapshot_copy(slot, seq, entries, BRINK_MAX_HW_BRANCHES);
 *
 * Every taken branch before the helper freezes the hardware pushes a wanted entry out: no call but that for the CPU's
 * number (inlined by current kernels), no comparison, no bounds check. A branch event must be open on the CPU
 * (src/snapshot/held_events.h), or the helper answers with old entries.
 */
#ifndef BRINK_BPF_LIB_SNAPSHOT_H_
#define BRINK_BPF_LIB_SNAPSHOT_H_

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "brink/abi/snapshot.h"

__weak struct brink_snapshot_slot brink_snapshots[BRINK_SNAPSHOT_CPUS] = {};

static inline __attribute__((always_inline)) struct brink_snapshot_slot *brink_snapshot_take(__u32 *seq)
{
	struct brink_snapshot_slot *slot = &brink_snapshots[bpf_get_smp_processor_id() & (BRINK_SNAPSHOT_CPUS - 1)];

	/* Plain and before the snapshot: whoever interrupts us finishes before we go on. */
	*seq = ++slot->seq;
	slot->bytes = bpf_get_branch_snapshot(slot->entries, sizeof(slot->entries), 0);
	return slot;
}

/*
 * Copies at most `max` entries to `to`, up to the first empty one. The number copied; a negative errno of the helper;
 * -EAGAIN when another snapshot on this CPU has overwritten the slot meanwhile.
 */
static inline __attribute__((always_inline)) long brink_snapshot_copy(struct brink_snapshot_slot *slot, __u32 seq,
								      struct brink_branch *to, __u32 max)
{
	__s64 bytes = *(volatile __s64 *)&slot->bytes;
	__u32 nr, i;

	if (bytes < 0)
		return bytes;
	nr = (__u64)bytes / sizeof(struct brink_branch);
	if (nr > BRINK_MAX_HW_BRANCHES)
		nr = BRINK_MAX_HW_BRANCHES;
	if (nr > max)
		nr = max;
	for (i = 0; i < BRINK_MAX_HW_BRANCHES; i++) {
		if (i >= nr || (!slot->entries[i].from && !slot->entries[i].to))
			break;
		to[i].from = slot->entries[i].from;
		to[i].to = slot->entries[i].to;
		/* 33 bits are perf's; what lies above is the driver's. */
		to[i].info = slot->entries[i].info & ((1ULL << 33) - 1);
	}
	if (*(volatile __u32 *)&slot->seq != seq)
		return -11; /* EAGAIN */
	return i;
}

#endif /* BRINK_BPF_LIB_SNAPSHOT_H_ */
