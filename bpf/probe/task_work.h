/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Task work from a clock event: scheduled in the interrupt, run on the way back to user space. */
#ifndef BRINK_BPF_PROBE_TASK_WORK_H_
#define BRINK_BPF_PROBE_TASK_WORK_H_

#include "probe/common.h"

/* Complete types: libbpf compares the kinds of a kfunc's arguments, and a forward declaration is another kind. */
struct task_struct {
	int pid;
};
struct bpf_map {
	__u32 id;
};
struct bpf_task_work {
	__u64 __opaque;
} __attribute__((aligned(8)));
typedef int (*bpf_task_work_callback_t)(struct bpf_map *map, void *key, void *value);

struct work {
	struct bpf_task_work tw;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

static int ran(struct bpf_map *map, void *key, void *value)
{
	__sync_fetch_and_add(&probe_out.fired, 1);
	return 0;
}

#define PROBE_TASK_WORK(schedule)						\
	char LICENSE[] SEC("license") = "GPL";					\
	SEC("perf_event") int do_task_work(void *ctx)				\
	{									\
		__u32 zero = 0;							\
		struct work *work = bpf_map_lookup_elem(&works, &zero);		\
										\
		if (!work || !probe_ours())					\
			return 0;						\
		probe_out.value = schedule;					\
		return 0;							\
	}

#endif
