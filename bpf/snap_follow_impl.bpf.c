// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What follows a capture (snap/follow.h). With the kfunc's spelling of 6.18: see walk_task_impl.bpf.c. */
#include "walk/task_work.h"

extern int bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *tw, void *map,
					      bpf_task_work_callback_t callback, void *aux) __ksym;

#define WALK_SCHEDULE(task, work, map, callback) bpf_task_work_schedule_resume_impl(task, work, map, callback, (void *)0)

#include "snap/follow.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
