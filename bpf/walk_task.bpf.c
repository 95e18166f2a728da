// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The walk source in task mode. Work is scheduled "resume", never "signal": that form ends system calls with EINTR.
 * One object a spelling of the kfunc: one that a kernel does not have, or has with other arguments, fails the whole.
 */
#include "walk/task_work.h"

extern int bpf_task_work_schedule_resume(struct task_struct *task, struct bpf_task_work *tw, void *map,
					 bpf_task_work_callback_t callback) __ksym;

#define WALK_SCHEDULE(task, work, map, callback) bpf_task_work_schedule_resume(task, work, map, callback)

#include "walk/first.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("perf_event")
int brink_walk_on_event(void *ctx)
{
	walk_task_sample(ctx);
	return walk_goes_on;
}
