/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a signal says about itself, and the branches from where it was made. */
#ifndef BRINK_BPF_SNAP_SIGNALS_H_
#define BRINK_BPF_SNAP_SIGNALS_H_

#include "snap/hit.h"

/* struct kernel_siginfo as user space sees it: number, errno, code, and at 16 the address, or the sender's ids. */
brink_always_inline void snap_signal_info(struct snap_hit *hit, __u64 info)
{
	struct {
		__s32 number, error, code, pad;
		__u64 address;
	} raw = {};

	/* 0, 1 and 2 are no pointers: from user, from the kernel, forced without information. */
	if (info <= 2 || bpf_probe_read_kernel(&raw, sizeof(raw), (const void *)info))
		return;
	hit->signal_code = raw.code;
	hit->signal_addr = raw.address;
	hit->snap_flags |= BRINK_SNAP_HAS_SIGINFO;
}

/* Whether `made` is of a signal that is still under way. */
brink_always_inline int snap_made_is_fresh(__u32 mark)
{
	__u32 age = SNAP_MADE(0, bpf_ktime_get_ns()) - (mark & ~0xffu);

	return mark && age >> 8 <= SNAP_MADE_AGE;
}

/* The snapshot from where the thread made this signal, in place of the one at hand. */
brink_always_inline void snap_use_made(struct snap_hit *hit, __u32 tid, __u32 number)
{
	struct brink_snapshot_slot *made = bpf_map_lookup_elem(&snap_made, &tid);
	__u32 mark;

	if (!made)
		return;
	mark = made->reserved;
	made->reserved = 0;
	if ((mark & 0xff) != number || !snap_made_is_fresh(mark))
		return;
	hit->shot = made;
	hit->shot_seq = made->seq;
	hit->shot_kept = 1;
}

#endif /* BRINK_BPF_SNAP_SIGNALS_H_ */
