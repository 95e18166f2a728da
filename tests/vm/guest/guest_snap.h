/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Between guest_snap.bpf.c and the guest tests. */
#ifndef BRINK_TESTS_VM_GUEST_SNAP_H_
#define BRINK_TESTS_VM_GUEST_SNAP_H_

#include <linux/types.h>

#define GUEST_ENTRIES 64

enum guest_hook {
	GUEST_RAW_TP,
	GUEST_TRACEPOINT,
	GUEST_FENTRY,
	GUEST_FEXIT,
	GUEST_KPROBE,
	GUEST_KRETPROBE,
	GUEST_UPROBE,
	GUEST_PERF_EVENT,	/* the snapshot, taken in a perf event's program */
	GUEST_HOOKS
};

struct guest_branch {
	__u64 from;
	__u64 to;
	__u64 info;
};

struct guest_stack {
	__s64 bytes;	/* what the helper returned */
	__u64 ip;	/* perf events: where the sample hit */
	__u32 hits;
	__u32 tgid;
	struct guest_branch entries[GUEST_ENTRIES];
};

#endif
