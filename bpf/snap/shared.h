/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the triggers of a session and the programs beside them have in common: whose hits are wanted, and what went before. */
#ifndef BRINK_BPF_SNAP_SHARED_H_
#define BRINK_BPF_SNAP_SHARED_H_

#include "brink/abi/snap.h"
#include "brink_cgroup.h"
#include "lib/base.h"
#include "lib/target.h"

const volatile struct brink_snap_config snap_cfg = {.nth = 1};

/* Groups of --container, --pod, --cgroup and their opposites, by kernfs id. Shared by the triggers of a session. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BRINK_SNAP_MAX_GROUPS);
	__type(key, __u64);
	__type(value, __u32);
} snap_groups SEC(".maps");

/* What went before, of each CPU and of each task (least used first out). Shared by the triggers of a session. */
struct snap_cpu_history {
	__u64 next;
	struct brink_snap_event event[BRINK_SNAP_HISTORY];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snap_cpu_history);
} snap_cpu_events SEC(".maps");

struct snap_task_history {
	__u64 next;
	struct brink_snap_event event[BRINK_SNAP_TASK_HISTORY];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct snap_task_history);
} snap_task_events SEC(".maps");

/* Set by user space: nothing is a hit for now. */
__u64 snap_paused;

#endif /* BRINK_BPF_SNAP_SHARED_H_ */
