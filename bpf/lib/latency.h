/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The log that the latency programs keep of each CPU, and the slots of measured threads. Everything is written by the
 * CPU it is about; readers in user space tolerate a torn last event.
 */
#ifndef BRINK_BPF_LIB_LATENCY_H_
#define BRINK_BPF_LIB_LATENCY_H_

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "brink/abi/latency.h"
#include "brink/abi/snapshot.h"
#include "brink_sched.h"

__weak const volatile struct brink_lat_config lat_cfg = {};

/* Sizes are set before load: one entry a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_lat_cpu);
} lat_cpus SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BRINK_LAT_SLOTS);
	__type(key, __u32);
	__type(value, struct brink_lat_slot);
} lat_slots SEC(".maps") __weak;

/* tid -> slot */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BRINK_LAT_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} lat_threads SEC(".maps") __weak;

/*
 * Branches before the switch that this CPU made last (0) and before its last two timer interrupts (1 and 2, in turn): the
 * one before a late interrupt shows what ran when interrupts still came.
 */
#define LAT_SNAPSHOTS 4
#define LAT_SNAPSHOT_SWITCH 0
__weak struct brink_snapshot_slot lat_snapshots[LAT_SNAPSHOTS * BRINK_SNAPSHOT_CPUS] = {};
__weak __u32 lat_turns[BRINK_SNAPSHOT_CPUS] = {};

#define lat_inline static inline __attribute__((always_inline))

/* First thing in a program: every call and branch before the helper pushes an entry out. */
lat_inline void lat_take_snapshot(__u32 which)
{
	struct brink_snapshot_slot *slot = &lat_snapshots[(bpf_get_smp_processor_id() & (BRINK_SNAPSHOT_CPUS - 1)) * LAT_SNAPSHOTS + which];

	slot->bytes = bpf_get_branch_snapshot(slot->entries, sizeof(slot->entries), 0);
}

lat_inline void lat_take_irq_snapshot(void)
{
	__u32 cpu = bpf_get_smp_processor_id() & (BRINK_SNAPSHOT_CPUS - 1);
	__u32 turn = ++lat_turns[cpu] & 1;
	struct brink_snapshot_slot *slot = &lat_snapshots[cpu * LAT_SNAPSHOTS + 1 + turn];

	slot->bytes = bpf_get_branch_snapshot(slot->entries, sizeof(slot->entries), 0);
}

lat_inline struct brink_lat_cpu *lat_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&lat_cpus, &cpu);
}

lat_inline struct brink_lat_slot *lat_slot_of(__u32 tid)
{
	__u32 *index = bpf_map_lookup_elem(&lat_threads, &tid);

	if (!index)
		return 0;
	return bpf_map_lookup_elem(&lat_slots, index);
}

/* Programs on a CPU interrupt each other: the place is taken first, then written. */
lat_inline struct brink_lat_event *lat_append(struct brink_lat_cpu *cpu, __u32 kind, __u32 id, __u64 start, __u64 end)
{
	__u64 at = __sync_fetch_and_add(&cpu->head, 1);
	struct brink_lat_event *event = &cpu->events[at & (BRINK_LAT_EVENTS - 1)];

	event->start = start;
	event->end = end;
	event->busy = end - start;
	event->work = 0;
	event->kind = kind;
	event->id = id;
	event->aux = 0;
	event->count = 1;
	event->faults = 0;
	event->reclaim_us = 0;
	event->comm[0] = 0;
	return event;
}

/* Interrupts: one that follows its like within 50 us, with at most two others logged between, joins it. */
#define LAT_JOIN_NS 50000
lat_inline struct brink_lat_event *lat_log_irq(struct brink_lat_cpu *cpu, __u32 kind, __u32 id, __u64 start, __u64 end)
{
	struct brink_lat_event *event;
	__u32 back;

	for (back = 1; back <= 3; back++) {
		event = &cpu->events[(cpu->head - back) & (BRINK_LAT_EVENTS - 1)];
		if (event->kind != kind || event->id != id || event->end > start || start - event->end > LAT_JOIN_NS)
			continue;
		event->end = end;
		event->busy += end - start;
		event->count++;
		return event;
	}
	return lat_append(cpu, kind, id, start, end);
}

/* Number of entries copied, or the helper's error. */
lat_inline __s32 lat_copy_branches(struct brink_branch *to, __u32 which)
{
	struct brink_snapshot_slot *slot = &lat_snapshots[(bpf_get_smp_processor_id() & (BRINK_SNAPSHOT_CPUS - 1)) * LAT_SNAPSHOTS + (which & (LAT_SNAPSHOTS - 1))];
	__u32 i, nr;

	if (slot->bytes < 0)
		return slot->bytes;
	nr = (__u64)slot->bytes / sizeof(struct brink_branch);
	if (nr > BRINK_MAX_HW_BRANCHES)
		nr = BRINK_MAX_HW_BRANCHES;
	for (i = 0; i < BRINK_MAX_HW_BRANCHES; i++) {
		if (i >= nr)
			break;
		to[i] = slot->entries[i];
	}
	return nr;
}

/* The current task, which was interrupted (AT_WAKING) or gives way (AT_SWITCH). */
lat_inline void lat_capture(void *ctx, struct brink_lat_cpu *cpu, __u32 at, __u64 now)
{
	struct brink_lat_capture *capture = &cpu->capture[at];
	__u64 id = bpf_get_current_pid_tgid();
	__u32 turn;

	capture->when = now;
	capture->tid = id;
	capture->tgid = id >> 32;
	capture->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(capture->comm, sizeof(capture->comm));
	capture->kernel_bytes = bpf_get_stack(ctx, capture->kernel_stack, sizeof(capture->kernel_stack), 0);
	capture->user_bytes = capture->tgid ? bpf_get_stack(ctx, capture->user_stack, sizeof(capture->user_stack), BPF_F_USER_STACK) : 0;
	capture->branches = 0;
	capture->previous_branches = 0;
	capture->previous_when = cpu->timer_before;
	if (!lat_cfg.snapshots)
		return;
	if (at == BRINK_LAT_AT_SWITCH) {
		capture->branches = lat_copy_branches(capture->entries, LAT_SNAPSHOT_SWITCH);
		return;
	}
	turn = lat_turns[bpf_get_smp_processor_id() & (BRINK_SNAPSHOT_CPUS - 1)] & 1;
	capture->branches = lat_copy_branches(capture->entries, 1 + turn);
	capture->previous_branches = lat_copy_branches(capture->previous, 2 - turn);
}

#endif /* BRINK_BPF_LIB_LATENCY_H_ */
