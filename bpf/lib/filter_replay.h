/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the filter's replay program and its test share. */
#ifndef BRINK_BPF_LIB_FILTER_REPLAY_H_
#define BRINK_BPF_LIB_FILTER_REPLAY_H_

#include "brink/abi/filter.h"

#define REPLAY_ENTRIES 64

struct replay_stack {
	struct brink_filter_in in;
	__u32 nr;
	__u32 kept;
	__u32 sample_result;	/* enum brink_filter_result */
	__u32 reserved;
	struct brink_filter_counts counts;
	struct brink_branch source[REPLAY_ENTRIES];	/* as "the hardware" gave it */
	struct brink_branch entries[REPLAY_ENTRIES];	/* what is left */
};
BRINK_ABI_ASSERT(sizeof(struct replay_stack) == 216 + 16 + 24 + 2 * 64 * 24);

#endif /* BRINK_BPF_LIB_FILTER_REPLAY_H_ */
