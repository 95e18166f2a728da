/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the feature probe's BPF programs and the prober share. */
#ifndef BRINK_ABI_PROBE_H_
#define BRINK_ABI_PROBE_H_

#include <linux/types.h>

#include "brink/abi/event.h"

/* Results of one probe object, in its .bss; only the process `tgid` of the read-only data is counted. */
struct brink_probe_out {
	__u64 fired;		/* times the program ran in the probing process */
	__s64 value;		/* what the helper under test returned */
	__u64 extra;		/* second figure, where a probe has one */
};
BRINK_ABI_ASSERT(sizeof(struct brink_probe_out) == 24);
BRINK_ABI_FIELD(struct brink_probe_out, fired, 0, 8);
BRINK_ABI_FIELD(struct brink_probe_out, value, 8, 8);
BRINK_ABI_FIELD(struct brink_probe_out, extra, 16, 8);

/* One snapshot as the helper gave it: bytes, or a negative errno. */
struct brink_probe_stack {
	__s64 bytes;
	struct brink_branch entries[BRINK_MAX_HW_BRANCHES];
};
BRINK_ABI_ASSERT(sizeof(struct brink_probe_stack) == 8 + 64 * 24);
BRINK_ABI_FIELD(struct brink_probe_stack, bytes, 0, 8);
BRINK_ABI_FIELD(struct brink_probe_stack, entries, 8, 64 * 24);

/* The ring buffer round trip carries this word. */
#define BRINK_PROBE_MAGIC 0x6272696e6b707262ULL

#endif /* BRINK_ABI_PROBE_H_ */
