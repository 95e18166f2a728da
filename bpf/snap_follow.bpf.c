// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What follows a capture (snap/follow.h). */
#include "walk/task_work.h"

extern int bpf_task_work_schedule_resume(struct task_struct *task, struct bpf_task_work *tw, void *map,
					 bpf_task_work_callback_t callback) __ksym;

#define WALK_SCHEDULE(task, work, map, callback) bpf_task_work_schedule_resume(task, work, map, callback)

#include "snap/follow.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
