/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Interrupt mode: the piece that perf_event programs call between brink_sample_begin and brink_sample_emit.
 *
 * Slot = CPU. Such programs do not nest on a CPU, and are not preempted except on PREEMPT_RT, where this mode is not
 * used.
 */
#ifndef BRINK_WALK_INTERRUPT_H_
#define BRINK_WALK_INTERRUPT_H_

#include "walk/program.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_miss);
} walk_misses SEC(".maps");

/*
 * Walks the current task from the sample's registers and fills s. 0: emit the sample. 1: throttled, counted, drop it.
 */
WALK_INLINE int walk_sample(void *ctx, struct brink_sample *s, struct brink_branch *entries, __u32 room)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 slot = bpf_get_smp_processor_id();
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &slot);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &slot);
	struct walk_bucket *bucket = walk_bucket();
	__u32 zero = 0;
	struct brink_miss *miss = bpf_map_lookup_elem(&walk_misses, &zero);

	s->direction = BRINK_DIR_FUTURE;
	if (!w || !out || !bucket || !miss)
		return 0;
	if (s->flags & (BRINK_SAMPLE_KERNEL_IP | BRINK_SAMPLE_COMPAT)) {
		s->stop = s->flags & BRINK_SAMPLE_COMPAT ? BRINK_STOP_UNSUPPORTED : BRINK_STOP_NOT_USER;
		return 0;
	}
	if (!walk_bucket_open(bucket, s->time_ns)) {
		brink_count(BRINK_CNT_THROTTLED);
		return 1;
	}
	walk_prepare(w, s->time_ns);
	walk_take_regs(w, ctx);
	walk_go(w, out, task, s->task_start_ns);
	walk_give(w, out, s, entries, room);
	if (w->stop == BRINK_STOP_MISS || w->stop == BRINK_STOP_CODE_CHANGED)
		walk_send_miss(w, s, miss, walk_vm_stamp(task));
	s->walk_ns = bpf_ktime_get_ns() - s->time_ns;
	walk_bucket_pay(s->walk_ns);
	return 0;
}

#endif /* BRINK_WALK_INTERRUPT_H_ */
