// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The form of 6.18: the kernel wants the program's own aux as fifth argument, and fills it in. */
#include "probe/task_work.h"

extern int bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *tw, void *map,
					      bpf_task_work_callback_t callback, void *aux) __ksym;

PROBE_TASK_WORK(bpf_task_work_schedule_resume_impl((void *)bpf_get_current_task_btf(), &work->tw, &works, ran, (void *)0))
