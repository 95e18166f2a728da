/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Types of the task work kfuncs. Complete: libbpf compares the kinds of arguments, and a forward declaration is another. */
#ifndef BRINK_WALK_TASK_WORK_H_
#define BRINK_WALK_TASK_WORK_H_

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "brink_task.h"

struct bpf_map {
	__u32 id;
};

struct bpf_task_work {
	__u64 __opaque;
} __attribute__((aligned(8)));

typedef int (*bpf_task_work_callback_t)(struct bpf_map *map, void *key, void *value);

#endif /* BRINK_WALK_TASK_WORK_H_ */
