// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "probe/task_work.h"

extern int bpf_task_work_schedule_resume(struct task_struct *task, struct bpf_task_work *tw, void *map,
					 bpf_task_work_callback_t callback) __ksym;

PROBE_TASK_WORK(bpf_task_work_schedule_resume((void *)bpf_get_current_task_btf(), &work->tw, &works, ran))
