/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Maps of the walker. User space sets max_entries where noted before it loads the object. */
#ifndef BRINK_WALK_MAPS_H_
#define BRINK_WALK_MAPS_H_

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "brink/abi/walk_state.h"

/* An array whose size user space sets. */
#define WALK_ARRAY(name, flags, count, element) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(map_flags, flags); \
		__uint(max_entries, count); \
		__type(key, __u32); \
		__type(value, element); \
	} name SEC(".maps")

WALK_ARRAY(walk_uops, BPF_F_MMAPABLE, 65536, struct brink_uop);
WALK_ARRAY(walk_pages, BPF_F_MMAPABLE, 256, struct brink_walk_page);
/* One a slot. */
WALK_ARRAY(walk_state, 0, 1, struct brink_walk);
WALK_ARRAY(walk_out, 0, 1, struct brink_walk_out);

WALK_ARRAY(walk_xlat, BPF_F_MMAPABLE, 1, struct brink_walk_xlat);
/* Entries of it, less 1. */
const volatile __u32 walk_xlat_mask = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct brink_walk_proc);
} walk_procs SEC(".maps");

#endif /* BRINK_WALK_MAPS_H_ */
