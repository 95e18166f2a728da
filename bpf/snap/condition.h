/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which hits become captures. What a condition does not read is not fetched: a hit that it drops costs its program and
 * one counter, and most hits are dropped.
 */
#ifndef BRINK_BPF_SNAP_CONDITION_H_
#define BRINK_BPF_SNAP_CONDITION_H_

#include "snap/maps.h"
#include "snap/task.h"
#include "snap/values.h"

/* Where a hit's place comes from; the two that cost something are found when they are wanted. */
enum snap_place_of {
	SNAP_AT_IP = 0,		/* hit.ip */
	SNAP_AT_FRAME = 1,	/* the innermost kernel frame behind the tracepoint's own */
	SNAP_AT_USER = 2,	/* the task's user registers */
};

/* What the hook knows of its hit. */
struct snap_hit {
	const struct brink_snap_entry *entry;	/* the function's entry, or NULL */
	struct brink_snapshot_slot *shot;
	__u32 shot_seq;
	__u32 shot_kept;	/* it was settled where it was taken, and kept since */
	__u32 snap_flags;	/* BRINK_SNAP_HAS_* */
	__u64 ip;
	__s64 ret;
	__u32 syscall;
	__s32 signal;
	__s32 signal_code;
	__u32 user_ctx;		/* the context begins with the registers of user code */
	__u64 signal_addr;
	__u32 kernel_ip;
	__u32 place;		/* enum snap_place_of */
};

brink_always_inline __u64 snap_user_reg(const struct task_struct *task, __u32 offset)
{
	const char *regs = (void *)bpf_task_pt_regs((struct task_struct *)task);
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), regs + offset);
	return value;
}

brink_always_inline __u64 snap_place_of_hit(void *ctx, const struct task_struct *task, const struct snap_hit *hit)
{
	__u64 ip = 0;

	switch (hit->place) {
	case SNAP_AT_FRAME:
		bpf_get_stack(ctx, &ip, sizeof(ip), 1);
		return ip;
	case SNAP_AT_USER:
		return snap_user_reg(task, BRINK_REG_IP);
	}
	return hit->ip;
}

/* One input of a condition by itself. 1 with *value set, or 0: not known. `field` is a constant to the verifier. */
brink_always_inline __u64 snap_input(void *ctx, const struct task_struct *task, const struct snap_hit *hit, __u64 duration,
				     __u32 field, __u64 *value)
{
	switch (field) {
	case BRINK_FF_PID:
		*value = (__u32)task->tgid;
		return 1;
	case BRINK_FF_TID:
		*value = (__u32)task->pid;
		return 1;
	case BRINK_FF_CPU:
		*value = bpf_get_smp_processor_id();
		return 1;
	case BRINK_FF_UID:
		*value = (__u32)bpf_get_current_uid_gid();
		return 1;
	case BRINK_FF_CGROUP:
		*value = snap_container_id(task);
		return *value != 0;
	case BRINK_FF_TIME:
		*value = bpf_ktime_get_ns();
		return 1;
	case BRINK_FF_IP:
		*value = snap_place_of_hit(ctx, task, hit);
		return 1;
	case BRINK_FF_COMM:
		return 1;
	}
	if (field < BRINK_FF_EXT)
		return 0;
	return snap_load(ctx, &snap_cfg.load[field & (BRINK_FILTER_MAX_EXT - 1)], hit->entry, duration, value);
}

/*
 * A condition that is a few tests which must all hold, as most are: straight code instead of the interpreter. The tests
 * stand in read-only data, so the verifier takes all but the one comparison away.
 */
brink_always_inline __u32 snap_all_tests(void *ctx, const struct task_struct *task, const struct snap_hit *hit, __u64 duration)
{
	const struct brink_filter_prog *filter = brink_filter_rodata(&snap_cfg.filter);
	__u32 result = BRINK_FILTER_TRUE, i;

#pragma unroll
	for (i = 0; i < BRINK_SNAP_TESTS; i++) {
		const struct brink_filter_op *op = &filter->sample[i];
		__u64 value = 0, comm[2] = {}, known;

		if (i >= snap_cfg.tests)
			break;
		if (op->field == BRINK_FF_COMM)
			bpf_get_current_comm(comm, sizeof(comm));
		known = snap_input(ctx, task, hit, duration, op->field, &value);
		if (op->code == BRINK_FOP_IS_UNKNOWN) {
			if (known)
				return BRINK_FILTER_FALSE;
		} else if (!known) {
			result = BRINK_FILTER_UNKNOWN;
		} else if (!brink_filter_holds(op, value, comm)) {
			return BRINK_FILTER_FALSE;
		}
	}
	return result;
}

/* The inputs of the interpreter. */
brink_always_inline void snap_inputs(struct snap_slot *slot)
{
	struct brink_filter_in *in = &slot->in;
	const struct brink_sample *s = &slot->sample;

	in->value[BRINK_FF_PID] = s->tgid;
	in->value[BRINK_FF_TID] = s->tid;
	in->value[BRINK_FF_CPU] = s->cpu;
	in->value[BRINK_FF_TIME] = s->time_ns;
	in->value[BRINK_FF_IP] = s->ip;
	in->value[BRINK_FF_CGROUP] = slot->snap.container_id;
	in->value[BRINK_FF_UID] = slot->snap.uid;
	in->known = 1u << BRINK_FF_PID | 1u << BRINK_FF_TID | 1u << BRINK_FF_CPU | 1u << BRINK_FF_TIME | 1u << BRINK_FF_IP |
		    1u << BRINK_FF_UID | 1u << BRINK_FF_COMM | (slot->snap.container_id ? 1u << BRINK_FF_CGROUP : 0);
	bpf_get_current_comm(in->comm, sizeof(in->comm));
}

/* --once-per: whether this key is new. */
brink_always_inline int snap_first_of_key(const struct snap_slot *slot)
{
	const struct brink_filter_in *in = &slot->in;
	__u64 key[2] = {};
	__u8 one = 1;

	switch (snap_cfg.key) {
	case BRINK_SNAP_KEY_NONE:
		return 1;
	case BRINK_SNAP_KEY_PID:
		key[0] = slot->sample.tgid;
		break;
	case BRINK_SNAP_KEY_TID:
		key[0] = slot->sample.tid;
		break;
	case BRINK_SNAP_KEY_CPU:
		key[0] = slot->sample.cpu;
		break;
	case BRINK_SNAP_KEY_UID:
		key[0] = slot->snap.uid;
		break;
	case BRINK_SNAP_KEY_COMM:
		key[0] = in->comm[0];
		key[1] = in->comm[1];
		break;
	case BRINK_SNAP_KEY_CGROUP:
		key[0] = slot->snap.container_id;
		break;
	case BRINK_SNAP_KEY_IP:
		key[0] = slot->sample.ip;
		break;
	case BRINK_SNAP_KEY_SLOT:
		key[0] = in->ext[snap_cfg.key_slot & (BRINK_FILTER_MAX_EXT - 1)];
		key[1] = in->ext_known >> (snap_cfg.key_slot & (BRINK_FILTER_MAX_EXT - 1)) & 1;
		break;
	}
	if (bpf_map_update_elem(&snap_seen, &key, &one, BPF_NOEXIST))
		return 0;
	snap_count(BRINK_SNAP_CNT_KEYS);
	return 1;
}

/* --limit: at most so many in each second of the clock. */
brink_always_inline int snap_within_limit(__u64 now)
{
	__u64 second = now / 1000000000ULL;

	if (!snap_cfg.limit)
		return 1;
	if (snap_second != second) {
		/* Two CPUs may both begin the second: one capture more, at most one a CPU. */
		snap_second = second;
		snap_second_taken = 0;
	}
	return __sync_fetch_and_add(&snap_second_taken, 1) < snap_cfg.limit;
}

/* Counts what the condition said of a hit; whether it is one. */
brink_always_inline int snap_judged(__u32 result)
{
	if (result == BRINK_FILTER_TRUE)
		return 1;
	snap_count(result == BRINK_FILTER_FALSE ? BRINK_SNAP_CNT_FALSE : BRINK_SNAP_CNT_UNKNOWN);
	return 0;
}

/* What is decided before a slot is taken; what fails is counted. */
brink_always_inline int snap_begins(void *ctx, const struct task_struct *task, const struct snap_hit *hit, __u64 duration)
{
	if (snap_cfg.count && snap_taken >= snap_cfg.count) {
		snap_count(BRINK_SNAP_CNT_DONE);
		return 0;
	}
	if ((snap_cfg.flags & BRINK_SNAP_CFG_NEED_ENTRY) && !hit->entry) {
		snap_count(BRINK_SNAP_CNT_NO_ENTRY);
		return 0;
	}
	if (snap_cfg.slower_ns && duration < snap_cfg.slower_ns) {
		snap_count(BRINK_SNAP_CNT_FAST);
		return 0;
	}
	return !snap_cfg.tests || snap_judged(snap_all_tests(ctx, task, hit, duration));
}

/* The rest, in the order of its cost; what fails is counted. */
brink_always_inline int snap_passes(struct snap_slot *slot)
{
	if (snap_cfg.flags & BRINK_SNAP_CFG_FILTER && !snap_cfg.tests &&
	    !snap_judged(brink_filter_sample(brink_filter_rodata(&snap_cfg.filter), &slot->in)))
		return 0;
	slot->snap.hit = __sync_fetch_and_add(&snap_matches, 1) + 1;
	if (snap_cfg.nth > 1 && slot->snap.hit % snap_cfg.nth) {
		snap_count(BRINK_SNAP_CNT_SKIPPED);
		return 0;
	}
	if (!snap_first_of_key(slot)) {
		snap_count(BRINK_SNAP_CNT_REPEATED);
		return 0;
	}
	if (!snap_within_limit(slot->sample.time_ns)) {
		snap_count(BRINK_SNAP_CNT_LIMITED);
		return 0;
	}
	if (__sync_fetch_and_add(&snap_taken, 1) >= snap_cfg.count && snap_cfg.count) {
		snap_count(BRINK_SNAP_CNT_DONE);
		return 0;
	}
	return 1;
}

#endif /* BRINK_BPF_SNAP_CONDITION_H_ */
