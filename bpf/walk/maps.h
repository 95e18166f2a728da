/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Maps of the walker. User space sets max_entries where noted before it loads the object. */
#ifndef BRINK_WALK_MAPS_H_
#define BRINK_WALK_MAPS_H_

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "brink/abi/walk_state.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);	/* set by user space */
	__type(key, __u32);
	__type(value, struct brink_uop);
} walk_uops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 256);	/* set by user space */
	__type(key, __u32);
	__type(value, struct brink_walk_page);
} walk_pages SEC(".maps");

/* Preallocated: entries are looked up in interrupts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct brink_walk_xlat);
} walk_xlat SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct brink_walk_proc);
} walk_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set by user space: slots */
	__type(key, __u32);
	__type(value, struct brink_walk);
} walk_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set by user space: slots */
	__type(key, __u32);
	__type(value, struct brink_walk_out);
} walk_out SEC(".maps");

#endif /* BRINK_WALK_MAPS_H_ */
