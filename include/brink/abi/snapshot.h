/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* On-demand branch snapshots: the per-CPU buffer that a program fills first thing, and one finished snapshot. */
#ifndef BRINK_ABI_SNAPSHOT_H_
#define BRINK_ABI_SNAPSHOT_H_

#include <linux/types.h>

#include "brink/abi/event.h"

/* Places are picked by cpu & (BRINK_SNAPSHOT_CPUS - 1): no bounds check, no branch. More CPUs are refused. */
#define BRINK_SNAPSHOT_CPUS 512

/* Filled before anything else; another program on the same CPU may come in between, `seq` tells. */
struct brink_snapshot_slot {
	__s64 bytes;		/* of the helper: bytes, or a negative errno */
	__u32 seq;		/* snapshots begun on this CPU */
	__u32 reserved;
	struct brink_branch entries[BRINK_MAX_HW_BRANCHES];	/* newest first */
};
BRINK_ABI_ASSERT(sizeof(struct brink_snapshot_slot) == 16 + 24 * BRINK_MAX_HW_BRANCHES);
BRINK_ABI_FIELD(struct brink_snapshot_slot, bytes, 0, 8);
BRINK_ABI_FIELD(struct brink_snapshot_slot, seq, 8, 4);
BRINK_ABI_FIELD(struct brink_snapshot_slot, reserved, 12, 4);
BRINK_ABI_FIELD(struct brink_snapshot_slot, entries, 16, 24 * BRINK_MAX_HW_BRANCHES);

/*
 * A CPU's last two snapshots, by turns. Where the hardware held fewer branches than it has room for, the drivers leave
 * behind them what they had read before, and count it as if it were fresh: the older of the two tells what that was.
 */
struct brink_snapshot_cpu {
	__u32 seq;		/* snapshots begun */
	__u32 count[2];		/* entries of each that are new; 0: not found out */
	__u32 reserved;
	__u64 stint[2];		/* which thread took it, and how often it had been switched out by then */
	struct brink_snapshot_slot half[2];
};
BRINK_ABI_ASSERT(sizeof(struct brink_snapshot_cpu) == 32 + 2 * sizeof(struct brink_snapshot_slot));
BRINK_ABI_FIELD(struct brink_snapshot_cpu, seq, 0, 4);
BRINK_ABI_FIELD(struct brink_snapshot_cpu, count, 4, 8);
BRINK_ABI_FIELD(struct brink_snapshot_cpu, reserved, 12, 4);
BRINK_ABI_FIELD(struct brink_snapshot_cpu, stint, 16, 16);
BRINK_ABI_FIELD(struct brink_snapshot_cpu, half, 32, 2 * sizeof(struct brink_snapshot_slot));

#endif /* BRINK_ABI_SNAPSHOT_H_ */
