/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * /dev/brink_lbr: how a test tells the module what the PMU and the snapshot shall deliver.
 *
 * Opening for writing with O_TRUNC drops what was fed. Each write is a whole number of struct lbr_feed_stack, at most
 * LBR_FEED_MAX in all. With source=canned the Nth sample gets stack N modulo their number, the Nth snapshot likewise,
 * each with its own count over all CPUs; filters of the event apply to the entries as a driver's would.
 * Reading gives lines "name value": source, fed, samples, snapshots, unexplained (with the last one's addresses).
 */
#ifndef BRINK_TESTS_VM_FEED_H_
#define BRINK_TESTS_VM_FEED_H_

#include <linux/types.h>

#define LBR_FEED_MAX 1024
#define LBR_FEED_ENTRIES 64

struct lbr_feed_entry {
	__u64 from;
	__u64 to;
	__u64 info;	/* the flags word of struct perf_branch_entry */
};

struct lbr_feed_stack {
	__u32 nr;
	__u32 pad;
	__u64 hw_idx;
	struct lbr_feed_entry entries[LBR_FEED_ENTRIES];	/* newest first */
};

#endif
