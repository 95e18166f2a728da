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

#endif /* BRINK_BPF_LIB_BASE_H_ */
