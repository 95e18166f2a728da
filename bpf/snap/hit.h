/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One hit from hook to ring, in two stages (docs/snap.md): first whose hit it is, then the branch snapshot, and only
 * then everything that costs calls: values, conditions, rates, the record.
 */
#ifndef BRINK_BPF_SNAP_HIT_H_
#define BRINK_BPF_SNAP_HIT_H_

#include "snap/condition.h"

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

/* `now` is 0 where nobody has asked for the time yet. */
brink_always_inline void snap_fill(const struct task_struct *task, struct snap_slot *slot, const struct snap_hit *hit, __u64 now)
{
	struct brink_sample *s = &slot->sample;
	struct brink_snap *snap = &slot->snap;

	s->header.type = BRINK_REC_SAMPLE;
	s->header.version = BRINK_ABI_VERSION;
	s->time_ns = now ? now : bpf_ktime_get_ns();
	s->end_ip = 0;
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
	/* Of the hierarchy that tells containers apart, in the file too. */
	snap->container_id = s->cgroup_id = snap_container_id(task);
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
	nr = hit->shot_kept ? 0 : brink_snapshot_settle(hit->shot_seq);
	if (nr >= 0)
		nr = brink_snapshot_copy(hit->shot, hit->shot_seq, slot->entries, BRINK_MAX_HW_BRANCHES);
	if (nr < 0)
		slot->snap.snapshot_error = nr;
	else
		slot->sample.nr = nr;
}

/* How many branches are known of when the thread left the CPU last; `*left` has them. */
brink_always_inline __u32 snap_left_branches(const struct task_struct *task, struct brink_snapshot_slot **left)
{
	__u32 tid = task->pid, nr;

	*left = bpf_map_lookup_elem(&snap_left, &tid);
	if (!*left || (*left)->reserved != SNAP_LEFT_BORN(task) || (*left)->bytes <= 0)
		return 0;
	nr = (__u64)(*left)->bytes / sizeof(struct brink_branch);
	return nr < BRINK_MAX_HW_BRANCHES ? nr : BRINK_MAX_HW_BRANCHES;
}

/* Branches, chain, context and history behind the head, and off. */
brink_always_inline void snap_send(void *ctx, const struct task_struct *task, struct snap_slot *slot, const struct snap_hit *hit)
{
	struct brink_sample *s = &slot->sample;
	struct brink_snapshot_slot *left;
	__u32 at, nr;
	__u64 bytes;

	slot->at = 0;
	if (s->nr)
		snap_put(slot, slot->entries, s->nr * sizeof(struct brink_branch));
	if (snap_cfg.flags & BRINK_SNAP_CFG_CHAIN_KERNEL) {
		slot->chain[2] = 0;
		snap_put_chain(ctx, slot, PERF_CONTEXT_KERNEL, 0);
		/* The frame behind the tracepoint's own has just been found. */
		if (hit->place == SNAP_AT_FRAME && !s->ip)
			s->ip = slot->chain[2];
	}
	if (hit->place == SNAP_AT_FRAME && !s->ip)
		bpf_get_stack(ctx, &s->ip, sizeof(s->ip), 1);
	if (snap_cfg.flags & BRINK_SNAP_CFG_CHAIN_USER)
		snap_put_chain(ctx, slot, PERF_CONTEXT_USER, BPF_F_USER_STACK);
	/* The context stands before the history, and says how long that is. */
	at = slot->at;
	slot->at = at + __builtin_offsetof(struct brink_snap, stack) + slot->snap.stack_words * sizeof(__u64);
	if (snap_cfg.flags & BRINK_SNAP_CFG_HISTORY)
		snap_put_history(slot, s->tid);
	if (snap_cfg.flags & BRINK_SNAP_CFG_LEFT) {
		nr = snap_left_branches(task, &left);
		if (nr && left)
			snap_put(slot, left->entries, nr * sizeof(struct brink_branch));
	}
	bytes = sizeof(*s) + slot->at;
	slot->at = at;
	snap_put(slot, &slot->snap, __builtin_offsetof(struct brink_snap, stack));
	if (slot->snap.stack_words)
		snap_put(slot, slot->snap.stack, slot->snap.stack_words * sizeof(__u64));
	s->header.size = bytes;
	brink_barrier_var(bytes);
	if (bytes > sizeof(*s) + SNAP_TAIL)
		return;
	if (brink_ring_send(s, bytes))
		return;
	brink_count(BRINK_CNT_EMITTED);
	brink_count_add(BRINK_CNT_EMITTED_BYTES, bytes);
}

/* A condition or key that is judged in the slot reads the place; else it is found when the hit is taken. */
#define SNAP_EARLY_PLACE                                                                 \
	((!snap_cfg.tests && (snap_cfg.filter.fields & 1u << BRINK_FF_IP)) ||            \
	 snap_cfg.key == BRINK_SNAP_KEY_IP)

/* External values that a condition or key reads in the slot; the others are for show. */
#define SNAP_EARLY_VALUES                                         \
	((snap_cfg.tests ? 0 : snap_cfg.filter.ext) |             \
	 (snap_cfg.key == BRINK_SNAP_KEY_SLOT ? 1u << (snap_cfg.key_slot & (BRINK_FILTER_MAX_EXT - 1)) : 0))

/* What a capture carries and no condition reads. */
brink_always_inline void snap_fill_rest(void *ctx, const struct task_struct *task, struct snap_slot *slot, const struct snap_hit *hit,
					__u64 duration)
{
	struct brink_snap *snap = &slot->snap;
	struct snap_ids ids;

	snap_take_branches(slot, hit);
	/* A kernel chain brings its own. */
	if (!SNAP_EARLY_PLACE && hit->place != SNAP_AT_FRAME)
		slot->sample.ip = snap_place_of_hit(ctx, task, hit);
	snap_load_all(ctx, hit->entry, duration, &slot->in, ~SNAP_EARLY_VALUES);
	bpf_get_current_comm(snap->comm, sizeof(snap->comm));
	bpf_probe_read_kernel(snap->value, sizeof(snap->value), slot->in.ext);
	snap->known = slot->in.ext_known;
	snap_inner_ids(task, &ids);
	snap->inner_tgid = ids.tgid;
	snap->inner_tid = ids.tid;
	snap->pidns = ids.ns;
	snap_fill_registers(ctx, task, snap, hit);
	snap_fill_stack(snap);
	snap_load_strings(ctx, hit->entry, snap);
}

/*
 * Says from where the current thread is to be walked. 0: it is not, as another capture is on its way to the follower: of a
 * thread that was preempted here, or of what an NMI came upon.
 */
brink_always_inline int snap_hand_over(const struct snap_slot *slot, const struct snap_hit *hit)
{
	struct brink_snap_next *next;
	__u32 zero = 0;

	next = bpf_map_lookup_elem(&snap_next, &zero);
	if (!next || __sync_val_compare_and_swap(&next->busy, 0, 1)) {
		snap_count(BRINK_SNAP_CNT_NOT_HANDED);
		return 0;
	}
	next->trigger = snap_cfg.trigger;
	next->time_ns = slot->sample.time_ns;
	/* A uprobe's instruction is executed elsewhere, or not at all: the thread is nowhere that could be walked. */
	next->has_regs = hit->user_ctx && slot->snap.flags & BRINK_SNAP_HAS_REGS;
	if (next->has_regs)
		bpf_probe_read_kernel(next->regs, BRINK_REGS_SIZE, slot->snap.regs);
	return 1;
}

/* The second stage of a hit of the current task. 1: captured, and to be followed. */
static __attribute__((noinline)) int snap_capture(void *ctx, const struct snap_hit *hit)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 now = hit->entry ? bpf_ktime_get_ns() : 0;
	__u64 duration = hit->entry ? now - hit->entry->time_ns : 0;
	struct snap_slot *slot;
	__u32 index = 0;
	int follow = 0;

	if (!snap_begins(ctx, task, hit, duration))
		return 0;
	slot = snap_acquire(&index);
	if (!slot)
		return 0;
	snap_fill(task, slot, hit, now);
	/* Unwinding costs more than all the rest of a hit that a condition drops. */
	slot->sample.ip = SNAP_EARLY_PLACE ? snap_place_of_hit(ctx, task, hit) : 0;
	/* In memory, bit by bit: as a variable each combination would be a path of its own to the verifier. */
	slot->in.ext_known = 0;
	if (SNAP_EARLY_VALUES)
		snap_load_all(ctx, hit->entry, duration, &slot->in, SNAP_EARLY_VALUES);
	if ((snap_cfg.flags & BRINK_SNAP_CFG_FILTER && !snap_cfg.tests) || snap_cfg.key == BRINK_SNAP_KEY_COMM)
		snap_inputs(slot);
	if (snap_passes(slot)) {
		brink_count(BRINK_CNT_EVENTS);
		snap_count(BRINK_SNAP_CNT_TAKEN);
		snap_fill_rest(ctx, task, slot, hit, duration);
		snap_send(ctx, task, slot, hit);
		if (snap_cfg.flags & BRINK_SNAP_CFG_FOLLOW)
			follow = snap_hand_over(slot, hit);
	}
	snap_release(index);
	return follow;
}

#endif /* BRINK_BPF_SNAP_HIT_H_ */
