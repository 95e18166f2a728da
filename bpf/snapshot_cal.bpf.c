// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calibration of on-demand snapshots: one program a way of attaching, each as short as a trigger's first stage. The
 * collector fires it in its own process and learns which functions of this kernel lie between the hook and the helper.
 */
#include "lib/snapshot.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 cal_tgid = 0;

/* Snapshots of the calibrating process, in order. */
#define CAL_RUNS 32
struct cal_run {
	__s64 nr;
	struct brink_branch entries[BRINK_MAX_HW_BRANCHES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CAL_RUNS);
	__type(key, __u32);
	__type(value, struct cal_run);
} cal_runs SEC(".maps");

__u32 cal_count;

static __always_inline int keep(struct brink_snapshot_slot *slot, __u32 seq)
{
	struct cal_run *run;
	__u32 index;

	if (bpf_get_current_pid_tgid() >> 32 != cal_tgid)
		return 0;
	index = __sync_fetch_and_add(&cal_count, 1);
	run = bpf_map_lookup_elem(&cal_runs, &index);
	if (!run)
		return 0;
	run->nr = brink_snapshot_settle(seq);
	if (run->nr >= 0)
		run->nr = brink_snapshot_copy(slot, seq, run->entries, BRINK_MAX_HW_BRANCHES);
	return 0;
}

#define CAL_PROGRAM(section, name)					\
	SEC(section) int name(void *ctx)				\
	{								\
		__u32 seq;						\
		struct brink_snapshot_slot *slot = brink_snapshot_take(&seq);	\
									\
		return keep(slot, seq);					\
	}

CAL_PROGRAM("?raw_tp/sys_enter", cal_raw_tp)
CAL_PROGRAM("?tp_btf/sys_enter", cal_tp_btf)
CAL_PROGRAM("?tracepoint", cal_tracepoint)
CAL_PROGRAM("?kprobe", cal_kprobe)
CAL_PROGRAM("?kprobe.multi", cal_kprobe_multi)
CAL_PROGRAM("?fentry/bpf_fentry_test1", cal_fentry)
CAL_PROGRAM("?fexit/bpf_fentry_test1", cal_fexit)
CAL_PROGRAM("?perf_event", cal_perf_event)
