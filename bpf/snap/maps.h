/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Maps, configuration and counters of one trigger's object (abi/snap.h). */
#ifndef BRINK_BPF_SNAP_MAPS_H_
#define BRINK_BPF_SNAP_MAPS_H_

#include <linux/perf_event.h>

#include "lib/filter.h"
#include "lib/regs.h"
#include "lib/snapshot.h"
#include "snap/shared.h"

/* Threads whose signals are under way at once; a snapshot older than a second is another signal's. */
#define SNAP_MADE_MOST 256
#define SNAP_LEFT_MOST 1024
#define SNAP_LEFT_BORN(task)                            \
	((__u32)((task)->start_boottime >> 10) ^        \
	 (__u32)((const struct task_struct___snap *)(task))->self_exec_id << 20)
#define SNAP_MADE_TICK 20	/* 2^20 ns */
#define SNAP_MADE_AGE 1000	/* ticks */
#define SNAP_MADE(signal, time_ns) ((__u32)(signal) | (__u32)((time_ns) >> SNAP_MADE_TICK) << 8)

/* Room behind the head: every part at its largest, one after another. */
#define SNAP_TAIL                                                                                              \
	(2 * BRINK_MAX_HW_BRANCHES * sizeof(struct brink_branch) + BRINK_MAX_CHAIN * sizeof(__u64) +              \
	 sizeof(struct brink_snap) + (BRINK_SNAP_HISTORY + BRINK_SNAP_TASK_HISTORY) * sizeof(struct brink_snap_event))
#define SNAP_PIECE 2048

/* One capture in the making. Larger than the stack allows, and hits nest and preempt each other: several a CPU. */
#define SNAP_SLOTS 4
struct snap_slot {
	struct brink_sample sample;
	__u8 tail[SNAP_TAIL + SNAP_PIECE];	/* 8-byte aligned, as long as its parts are */
	__u32 at;	/* bytes of the tail in use */
	__u64 next;	/* the history that is being copied: its oldest event */
	struct brink_snap snap;
	struct brink_filter_in in;
	struct brink_branch entries[BRINK_MAX_HW_BRANCHES];
	__u64 chain[BRINK_MAX_CHAIN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SNAP_SLOTS);
	__type(key, __u32);
	__type(value, struct snap_slot);
} snap_slots SEC(".maps");

/* Which slots of the CPU are in use. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SNAP_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} snap_used SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BRINK_SNAP_CNT_MAX);
	__type(key, __u32);
	__type(value, __u64);
} snap_counts SEC(".maps");

/* Functions that have been entered and have not returned. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BRINK_SNAP_MAX_ENTRIES);
	__type(key, __u64);
	__type(value, struct brink_snap_entry);
} snap_entries SEC(".maps");

/*
 * Branch snapshots from where a thread made a signal for itself (a fault, abort, raise), by tid: until it is delivered others may
 * have run on the CPU. `reserved` says for which signal, and when (SNAP_MADE). The least used go first.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SNAP_MADE_MOST);
	__type(key, __u32);
	__type(value, struct brink_snapshot_slot);
} snap_made SEC(".maps");

/*
 * Branch snapshots from where a thread left the CPU last, by tid: what the hardware remembers when it is back is of those who ran
 * meanwhile. `reserved` is of the thread's start and program: a number may come back, and an exec leaves its branches behind. The least
 * used go first.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SNAP_LEFT_MOST);
	__type(key, __u32);
	__type(value, struct brink_snapshot_slot);
} snap_left SEC(".maps");

/* Keys that --once-per has seen; the least used go first. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BRINK_SNAP_MAX_SEEN);
	__type(key, __u64[2]);
	__type(value, __u8);
} snap_seen SEC(".maps");

/* The capture that the CPU hands over to be followed; the program that does (bpf/snap_follow.bpf.c) is put in by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_snap_next);
} snap_next SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} snap_follower SEC(".maps");

/* Of all CPUs: matches so far, captures so far, and those of the second that is running. */
__u64 snap_matches, snap_taken, snap_second, snap_second_taken;

brink_always_inline void snap_count(enum brink_snap_count counter)
{
	__u32 key = counter;
	__u64 *cell = bpf_map_lookup_elem(&snap_counts, &key);

	if (cell)
		__sync_fetch_and_add(cell, 1);
}

/* A free slot of this CPU, or NULL (counted). `*index` goes to snap_release. */
brink_always_inline struct snap_slot *snap_acquire(__u32 *index)
{
	__u32 i;

	for (i = 0; i < SNAP_SLOTS; i++) {
		__u32 key = i;
		__u64 *used = bpf_map_lookup_elem(&snap_used, &key);

		if (used && !__sync_lock_test_and_set(used, 1)) {
			*index = i;
			return bpf_map_lookup_elem(&snap_slots, &key);
		}
	}
	snap_count(BRINK_SNAP_CNT_BUSY);
	return 0;
}

brink_always_inline void snap_release(__u32 index)
{
	__u64 *used = bpf_map_lookup_elem(&snap_used, &index);

	if (used)
		__sync_lock_test_and_set(used, 0);
}

#endif /* BRINK_BPF_SNAP_MAPS_H_ */
