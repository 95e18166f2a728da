// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Task mode with the kfunc's spelling of 6.18: the program's own aux is the fifth argument, and the kernel fills it in. */
#include "walk/task_work.h"

extern int bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *tw, void *map,
					      bpf_task_work_callback_t callback, void *aux) __ksym;

#define WALK_SCHEDULE(task, work, map, callback) bpf_task_work_schedule_resume_impl(task, work, map, callback, (void *)0)

#include "walk/first.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("perf_event")
int brink_walk_on_event(void *ctx)
{
	walk_task_sample(ctx);
	return walk_goes_on;
}
