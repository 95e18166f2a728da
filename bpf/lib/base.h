/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What every BPF source of brink starts with: helpers, the ABI, the configuration and the shared maps. */
#ifndef BRINK_BPF_LIB_BASE_H_
#define BRINK_BPF_LIB_BASE_H_

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "brink/abi/event.h"
#include "brink/abi/session.h"

#define brink_always_inline static inline __attribute__((always_inline))
#define brink_barrier_var(var) asm volatile("" : "+r"(var))

/* Set by the session before load and frozen: what it turns off is dead code to the verifier. */
__weak const volatile struct brink_bpf_config brink_cfg = {};

/*
 * Shared maps. Weak, so that objects linked together agree on one definition; objects loaded apart are given the
 * session's maps by name. Sizes are the session's business (bpf_map__set_max_entries).
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} brink_ring SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BRINK_CNT_MAX);
	__type(key, __u32);
	__type(value, __u64);
} brink_counters SEC(".maps") __weak;

/* Not preallocated: a set is small as a rule, and its members change in task context only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BRINK_MAX_TASKS);
	__type(key, __u32);
	__type(value, struct brink_task_entry);
} brink_tasks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, BRINK_MAX_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} brink_cgroups SEC(".maps") __weak;

/* Counts on this CPU; programs may be nested (NMI), so the addition is atomic. */
brink_always_inline void brink_count_add(enum brink_counter counter, __u64 n)
{
	__u32 key = counter;
	__u64 *cell = bpf_map_lookup_elem(&brink_counters, &key);

	if (cell)
		__sync_fetch_and_add(cell, n);
}

brink_always_inline void brink_count(enum brink_counter counter)
{
	brink_count_add(counter, 1);
}

/* Above the session's mark, the least bytes within which records wake the reader: CPUs may pass the mark together. */
#define BRINK_WAKE_WINDOW 65536

/*
 * Sends `bytes` at `record` through the ring. 0, or the negative error with the loss counted by cause. The reader is
 * woken where the fill passes the session's mark, not by each record above it: a wake-up is an interrupt to ourselves,
 * and costs more than the record. Its timer collects what lies below, and what a reader that is too slow leaves above.
 */
brink_always_inline long brink_ring_send(void *record, __u64 bytes)
{
	__u64 fill = bpf_ringbuf_query(&brink_ring, BPF_RB_AVAIL_DATA);
	__u64 above = fill - brink_cfg.wake_bytes;
	__u64 window = brink_cfg.wake_bytes > BRINK_WAKE_WINDOW ? brink_cfg.wake_bytes : BRINK_WAKE_WINDOW;
	__u64 flags = fill >= brink_cfg.wake_bytes && above < window ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	long error = bpf_ringbuf_output(&brink_ring, record, bytes, flags);

	if (!error)
		return 0;
	/* A ring whose lock is held by what we interrupted fails like a full one; its fill tells which it was. */
	brink_count(fill + bytes + 8 >= brink_cfg.ring_bytes ? BRINK_CNT_RING_FULL : BRINK_CNT_RING_CONTENDED);
	brink_count_add(BRINK_CNT_LOST_BYTES, bytes);
	return error;
}

#endif /* BRINK_BPF_LIB_BASE_H_ */
