/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One hit from hook to ring, in two stages (docs/snap.md): first whose hit it is, then the branch snapshot, and only
 * then everything that costs calls: values, conditions, rates, the record.
 */
#ifndef BRINK_BPF_SNAP_HIT_H_
#define BRINK_BPF_SNAP_HIT_H_

#include "snap/task.h"
#include "snap/values.h"

/* What the hook knows of its hit. */
struct snap_hit {
	const struct brink_snap_entry *entry;	/* the function's entry, or NULL */
	struct brink_snapshot_slot *shot;
	__u32 shot_seq;
	__u32 snap_flags;	/* BRINK_SNAP_HAS_* */
	__u64 ip;
	__s64 ret;
	__u32 syscall;
	__s32 signal;
	__s32 signal_code;
	__u64 signal_addr;
	__u32 user_ctx;		/* the context begins with the registers of user code */
	__u32 kernel_ip;
	__u32 ip_from_stack;	/* the place is a frame of the kernel's stack: found when it is wanted */
};

/*
 * Appends a part of the record, of at most SNAP_PIECE bytes. How far the record has come stands in the slot: the verifier
 * would follow each value of a variable on a path of its own.
 */
static __attribute__((noinline)) int snap_put(struct snap_slot *slot, const void *from, __u32 bytes)
{
	__u32 at;

	if (!slot)
		return 0;
	at = slot->at;
	if (at > SNAP_TAIL || bytes > SNAP_PIECE)
		return 0;
	if (bpf_probe_read_kernel(&slot->tail[at], bytes, from))
		return 0;
	slot->at = at + bytes;
	return 0;
}

brink_always_inline void snap_history_add(__u16 type, __u32 tid, __u64 a, __u64 b)
{
	struct brink_snap_event event = {.time_ns = bpf_ktime_get_ns(), .tid = tid, .type = type, .a = a, .b = b};
	struct snap_cpu_history *cpu;
	struct snap_task_history *task;
	__u32 zero = 0;

	cpu = bpf_map_lookup_elem(&snap_cpu_events, &zero);
	if (cpu)
		cpu->event[cpu->next++ & (BRINK_SNAP_HISTORY - 1)] = event;
	task = bpf_map_lookup_elem(&snap_task_events, &tid);
	if (!task) {
		bpf_map_update_elem(&snap_task_events, &tid, &snap_no_history, BPF_NOEXIST);
		task = bpf_map_lookup_elem(&snap_task_events, &tid);
	}
	if (task)
		task->event[task->next++ & (BRINK_SNAP_TASK_HISTORY - 1)] = event;
}

brink_always_inline void snap_put_history(struct snap_slot *slot, __u32 tid)
{
	__u32 zero = 0, i;
	struct snap_cpu_history *cpu = bpf_map_lookup_elem(&snap_cpu_events, &zero);
	struct snap_task_history *task = bpf_map_lookup_elem(&snap_task_events, &tid);

	if (cpu) {
		slot->next = cpu->next;
		for (i = 0; i < BRINK_SNAP_HISTORY; i++) {
			struct brink_snap_event *event = &cpu->event[(slot->next + i) & (BRINK_SNAP_HISTORY - 1)];

			if (!event->type)
				continue;
			snap_put(slot, event, sizeof(*event));
			slot->snap.history++;
		}
	}
	if (task) {
		slot->next = task->next;
		for (i = 0; i < BRINK_SNAP_TASK_HISTORY; i++) {
			struct brink_snap_event *event = &task->event[(slot->next + i) & (BRINK_SNAP_TASK_HISTORY - 1)];

			if (!event->type)
				continue;
			snap_put(slot, event, sizeof(*event));
			slot->snap.task_history++;
		}
	}
}

/* The inputs of --if. */
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

/* The conditions, in the order of their cost; what fails is counted. */
brink_always_inline int snap_passes(struct snap_slot *slot)
{
	if (snap_cfg.count && snap_taken >= snap_cfg.count) {
		snap_count(BRINK_SNAP_CNT_DONE);
		return 0;
	}
	if (snap_cfg.flags & BRINK_SNAP_CFG_FILTER) {
		__u32 result = brink_filter_sample(brink_filter_rodata(&snap_cfg.filter), &slot->in);

		if (result != BRINK_FILTER_TRUE) {
			snap_count(result == BRINK_FILTER_FALSE ? BRINK_SNAP_CNT_FALSE : BRINK_SNAP_CNT_UNKNOWN);
			return 0;
		}
	}
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

brink_always_inline void snap_fill(const struct task_struct *task, struct snap_slot *slot, const struct snap_hit *hit)
{
	struct brink_sample *s = &slot->sample;
	struct brink_snap *snap = &slot->snap;

	s->header.type = BRINK_REC_SAMPLE;
	s->header.version = BRINK_ABI_VERSION;
	s->time_ns = bpf_ktime_get_ns();
	s->ip = hit->ip;
	s->end_ip = 0;
	s->cgroup_id = bpf_get_current_cgroup_id();
	s->period = 1;
	s->tgid = task->tgid;
	s->tid = task->pid;
	s->cpu = bpf_get_smp_processor_id();
	s->event = snap_cfg.trigger;
	s->direction = BRINK_DIR_PAST;
	s->stop = BRINK_STOP_NONE;
	s->source = brink_cfg.source;
	s->reserved8 = 0;
	s->flags = hit->kernel_ip ? BRINK_SAMPLE_KERNEL_IP : 0;
	s->nr = s->chain_nr = 0;
	s->steps = s->walk_ns = 0;
	s->task_start_ns = brink_leader_start(task);
	snap->magic = BRINK_SNAP_MAGIC;
	snap->history = snap->task_history = 0;
	snap->flags = hit->snap_flags;
	snap->duration_ns = hit->entry ? s->time_ns - hit->entry->time_ns : 0;
	if (hit->entry)
		snap->flags |= BRINK_SNAP_HAS_DURATION;
	snap->container_id = snap_container_id(task);
	snap->hit = 0;
	snap->uid = (__u32)bpf_get_current_uid_gid();
	snap->snapshot_error = 0;
	snap->signal = hit->signal;
	snap->signal_code = hit->signal_code;
	snap->signal_addr = hit->signal_addr;
	snap->syscall = hit->syscall;
	snap->ret = hit->ret;
	snap->stack_word = 0;
}

/* User registers of the task, and the word on top of its stack (where a call to nowhere left its return address). */
brink_always_inline void snap_fill_registers(void *ctx, const struct task_struct *task, struct brink_snap *snap,
					     const struct snap_hit *hit)
{
	const char *regs = hit->user_ctx ? ctx : (void *)bpf_task_pt_regs((struct task_struct *)task);

	if (bpf_probe_read_kernel(snap->regs, BRINK_REGS_SIZE, regs))
		return;
	snap->flags |= BRINK_SNAP_HAS_REGS;
	if (!bpf_probe_read_user(&snap->stack_word, sizeof(snap->stack_word), (void *)snap->regs[BRINK_REG_SP / 8]))
		snap->flags |= BRINK_SNAP_HAS_STACK_WORD;
}

/*
 * The top of the user stack, where code without frame pointers left its return addresses. After an overflow the stack
 * pointer lies in the guard page: then from the next page up.
 */
brink_always_inline void snap_fill_stack(struct brink_snap *snap)
{
	__u64 sp = snap->regs[BRINK_REG_SP / 8] & ~7ULL, i;

	snap->stack_words = 0;
	if (!(snap->flags & BRINK_SNAP_HAS_SIGNAL) || !(snap->flags & BRINK_SNAP_HAS_REGS))
		return;
	for (i = 0; i < 2; i++) {
		snap->stack_start = sp;
		if (!bpf_probe_read_user(snap->stack, sizeof(snap->stack), (void *)sp)) {
			snap->stack_words = BRINK_SNAP_STACK;
			break;
		}
		/* Less may be left below the stack's own beginning. */
		if (!bpf_probe_read_user(snap->stack, sizeof(snap->stack) / 8, (void *)sp)) {
			snap->stack_words = BRINK_SNAP_STACK / 8;
			break;
		}
		sp = (sp & ~4095ULL) + 4096;
		snap->flags |= BRINK_SNAP_STACK_GAP;
	}
}

brink_always_inline void snap_put_chain(void *ctx, struct snap_slot *slot, __u64 marker, __u64 flags)
{
	long bytes;
	__u32 have = slot->sample.chain_nr, n;

	slot->chain[0] = marker;
	bytes = bpf_get_stack(ctx, &slot->chain[1], sizeof(slot->chain) - sizeof(__u64), flags);
	if (bytes <= 0 || have >= BRINK_MAX_CHAIN)
		return;
	n = (__u32)bytes / sizeof(__u64) + 1;
	if (n > BRINK_MAX_CHAIN - have)
		n = BRINK_MAX_CHAIN - have;
	slot->sample.chain_nr = have + n;
	snap_put(slot, slot->chain, n * sizeof(__u64));
}

brink_always_inline void snap_take_branches(struct snap_slot *slot, const struct snap_hit *hit)
{
	long nr;

	if (!(snap_cfg.flags & BRINK_SNAP_CFG_SNAPSHOT) || !hit->shot)
		return;
	nr = brink_snapshot_copy(hit->shot, hit->shot_seq, slot->entries, BRINK_MAX_HW_BRANCHES);
	if (nr < 0)
		slot->snap.snapshot_error = nr;
	else
		slot->sample.nr = nr;
}

/* Branches, chain, context and history behind the head, and off. */
brink_always_inline void snap_send(void *ctx, struct snap_slot *slot, const struct snap_hit *hit)
{
	struct brink_sample *s = &slot->sample;
	__u32 at;
	__u64 bytes;

	slot->at = 0;
	if (s->nr)
		snap_put(slot, slot->entries, s->nr * sizeof(struct brink_branch));
	if (snap_cfg.flags & BRINK_SNAP_CFG_CHAIN_KERNEL)
		snap_put_chain(ctx, slot, PERF_CONTEXT_KERNEL, 0);
	if (snap_cfg.flags & BRINK_SNAP_CFG_CHAIN_USER)
		snap_put_chain(ctx, slot, PERF_CONTEXT_USER, BPF_F_USER_STACK);
	/* The context stands before the history, and says how long that is. */
	at = slot->at;
	slot->at = at + sizeof(struct brink_snap);
	if (snap_cfg.flags & BRINK_SNAP_CFG_HISTORY)
		snap_put_history(slot, s->tid);
	bytes = sizeof(*s) + slot->at;
	slot->at = at;
	snap_put(slot, &slot->snap, sizeof(struct brink_snap));
	s->header.size = bytes;
	brink_barrier_var(bytes);
	if (bytes > sizeof(*s) + SNAP_TAIL)
		return;
	if (brink_ring_send(s, bytes))
		return;
	brink_count(BRINK_CNT_EMITTED);
	brink_count_add(BRINK_CNT_EMITTED_BYTES, bytes);
}

/* The second stage of a hit of the current task. */
static __attribute__((noinline)) int snap_capture(void *ctx, const struct snap_hit *hit)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct snap_slot *slot;
	struct snap_ids ids;
	__u32 index = 0;

	brink_count(BRINK_CNT_EVENTS);
	snap_count(BRINK_SNAP_CNT_HITS);
	slot = snap_acquire(&index);
	if (!slot)
		return 0;
	snap_fill(task, slot, hit);
	if ((snap_cfg.flags & BRINK_SNAP_CFG_NEED_ENTRY) && !hit->entry) {
		snap_count(BRINK_SNAP_CNT_NO_ENTRY);
		goto out;
	}
	if (snap_cfg.slower_ns && slot->snap.duration_ns < snap_cfg.slower_ns) {
		snap_count(BRINK_SNAP_CNT_FAST);
		goto out;
	}
	/* Unwinding costs more than all the rest of a hit that a condition drops. */
	if (hit->ip_from_stack && (snap_cfg.filter.fields & 1u << BRINK_FF_IP || snap_cfg.key == BRINK_SNAP_KEY_IP))
		bpf_get_stack(ctx, &slot->sample.ip, sizeof(slot->sample.ip), 1);
	snap_inputs(slot);
	snap_load_all(ctx, hit->entry, slot->snap.duration_ns, &slot->in);
	if (!snap_passes(slot))
		goto out;
	snap_take_branches(slot, hit);
	if (hit->ip_from_stack && !slot->sample.ip)
		bpf_get_stack(ctx, &slot->sample.ip, sizeof(slot->sample.ip), 1);
	bpf_probe_read_kernel(slot->snap.comm, sizeof(slot->snap.comm), slot->in.comm);
	bpf_probe_read_kernel(slot->snap.value, sizeof(slot->snap.value), slot->in.ext);
	slot->snap.known = slot->in.ext_known;
	snap_inner_ids(task, &ids);
	slot->snap.inner_tgid = ids.tgid;
	slot->snap.inner_tid = ids.tid;
	slot->snap.pidns = ids.ns;
	snap_fill_registers(ctx, task, &slot->snap, hit);
	snap_fill_stack(&slot->snap);
	snap_load_strings(ctx, hit->entry, &slot->snap);
	snap_count(BRINK_SNAP_CNT_TAKEN);
	snap_send(ctx, slot, hit);
out:
	snap_release(index);
	return 0;
}

#endif /* BRINK_BPF_SNAP_HIT_H_ */
