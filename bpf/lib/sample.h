/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One sample from begin to emit, for every perf_event program:
 *
 *	struct brink_sample *s = brink_sample_begin(ctx);
 *	if (!s)
 *		return 0;
 *	... fill the entries behind it and s->nr, s->stop, s->steps, s->walk_ns ...
 *	brink_sample_chain(ctx, s);
 *	brink_sample_emit(s);
 *	return 0;
 *
 * begin counts, filters and fills the head. The record lives in a per-CPU scratch: perf_event programs do not nest on
 * a CPU (the kernel's bpf_prog_active guard), and the entries are far larger than the BPF stack.
 */
#ifndef BRINK_BPF_LIB_SAMPLE_H_
#define BRINK_BPF_LIB_SAMPLE_H_

#include <linux/perf_event.h>

#include "lib/base.h"
#include "lib/filter.h"
#include "lib/regs.h"
#include "lib/target.h"

/* Entries that the scratch of this object holds; a source with deeper stacks brings its own (and its own emit size). */
#ifndef BRINK_SCRATCH_BRANCHES
#define BRINK_SCRATCH_BRANCHES BRINK_MAX_HW_BRANCHES
#endif

struct brink_sample_scratch {
	struct brink_sample sample;
	struct brink_branch entries[BRINK_SCRATCH_BRANCHES];
	/* The chain follows the entries that are used, so it may begin anywhere up to here. */
	__u64 chain[BRINK_MAX_CHAIN];
};

/* An object that keeps its samples elsewhere (deferred walks) uses brink_sample_wanted and brink_sample_start itself. */
#ifndef BRINK_OWN_SCRATCH
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_sample_scratch);
} brink_scratch SEC(".maps") __weak;
#endif

/* The filter of the session (abi/filter.h); read only where brink_cfg says so. */
__weak const volatile struct brink_filter_prog brink_filter_prog = {};

/* What the filter reads of the sample, and how far it has come in the entries. */
struct brink_filter_scratch {
	struct brink_filter_in in;
	struct brink_filter_counts counts;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_filter_scratch);
} brink_filter_scratch SEC(".maps") __weak;

/* Chains are taken here first: bpf_get_stack wants a constant place. */
struct brink_chain_scratch {
	__u64 ips[BRINK_MAX_CHAIN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_chain_scratch);
} brink_chain SEC(".maps") __weak;

/* Head of a sample of the current task at `ip`. Everything that is not known is zero. */
brink_always_inline void brink_sample_fill(struct brink_sample *s, const struct task_struct *task, __u64 ip)
{
	s->header.type = BRINK_REC_SAMPLE;
	s->header.version = BRINK_ABI_VERSION;
	s->header.size = sizeof(*s);
	s->time_ns = bpf_ktime_get_ns();
	s->ip = ip;
	s->end_ip = 0;
	s->cgroup_id = bpf_get_current_cgroup_id();
	s->period = 0;
	s->tgid = task->tgid;
	s->tid = task->pid;
	s->cpu = bpf_get_smp_processor_id();
	s->event = 0;
	s->direction = BRINK_DIR_PAST;
	s->stop = BRINK_STOP_NONE;
	s->source = brink_cfg.source;
	s->reserved8 = 0;
	s->flags = 0;
	s->nr = 0;
	s->chain_nr = 0;
	s->steps = 0;
	s->walk_ns = 0;
	s->task_start_ns = brink_leader_start(task);
}

/* The inputs that the filter's programs read, of the current task and a filled head. */
brink_always_inline void brink_filter_inputs(struct brink_filter_in *in, const struct brink_sample *s)
{
	const struct brink_filter_prog *prog = brink_filter_rodata(&brink_filter_prog);
	__u32 known = 1u << BRINK_FF_PID | 1u << BRINK_FF_TID | 1u << BRINK_FF_CPU | 1u << BRINK_FF_TIME |
		      1u << BRINK_FF_IP | 1u << BRINK_FF_UID;

	in->value[BRINK_FF_PID] = s->tgid;
	in->value[BRINK_FF_TID] = s->tid;
	in->value[BRINK_FF_CPU] = s->cpu;
	in->value[BRINK_FF_TIME] = s->time_ns;
	in->value[BRINK_FF_IP] = s->ip;
	in->value[BRINK_FF_CGROUP] = s->cgroup_id;
	if (s->cgroup_id)
		known |= 1u << BRINK_FF_CGROUP;
	if (prog->fields & 1u << BRINK_FF_UID)
		in->value[BRINK_FF_UID] = (__u32)bpf_get_current_uid_gid();
	if (prog->fields & 1u << BRINK_FF_COMM) {
		bpf_get_current_comm(in->comm, sizeof(in->comm));
		known |= 1u << BRINK_FF_COMM;
	}
	in->known = known;
	in->ext_known = 0;
}

/* Whether the sample passes the session's filter; what does not is counted. The head of `s` is filled. */
brink_always_inline int brink_filter_keeps(const struct brink_sample *s)
{
	struct brink_filter_scratch *scratch;
	__u32 zero = 0, result;

	if (!(brink_cfg.flags & (BRINK_CFG_FILTER_SAMPLES | BRINK_CFG_FILTER_RECORDS)))
		return 1;
	scratch = bpf_map_lookup_elem(&brink_filter_scratch, &zero);
	if (!scratch)
		return 1;
	brink_filter_inputs(&scratch->in, s);
	if (!(brink_cfg.flags & BRINK_CFG_FILTER_SAMPLES))
		return 1;
	result = brink_filter_sample(brink_filter_rodata(&brink_filter_prog), &scratch->in);
	if (result == BRINK_FILTER_TRUE)
		return 1;
	brink_count(result == BRINK_FILTER_FALSE ? BRINK_CNT_FILTERED : BRINK_CNT_FILTER_UNKNOWN);
	return 0;
}

struct brink_filter_walk {
	struct brink_sample_scratch *sample;
	struct brink_filter_scratch *filter;
	__u32 nr;
	__u32 kept;
};

static long brink_filter_entry(__u32 index, void *data)
{
	struct brink_filter_walk *walk = data;
	struct brink_branch entry;
	__u32 result;

	if (index >= walk->nr || index >= BRINK_SCRATCH_BRANCHES)
		return 1;
	entry = walk->sample->entries[index];
	result = brink_filter_record(brink_filter_rodata(&brink_filter_prog), &walk->filter->in, &entry);
	brink_filter_count(&walk->filter->counts, result);
	if (result == BRINK_FILTER_TRUE && walk->kept < BRINK_SCRATCH_BRANCHES) {
		walk->sample->entries[walk->kept] = entry;
		walk->kept++;
	}
	return 0;
}

/* Removes the entries that the session's record filter does not want; brink_filter_inputs has filled `filter`. */
brink_always_inline void brink_sample_filter_with(struct brink_sample *s, struct brink_filter_scratch *filter)
{
	struct brink_filter_walk walk = {};

	walk.filter = filter;
	walk.sample = (struct brink_sample_scratch *)s;
	walk.nr = s->nr;
	walk.filter->counts.dropped = 0;
	walk.filter->counts.unknown = 0;
	bpf_loop(BRINK_SCRATCH_BRANCHES, brink_filter_entry, &walk, 0);
	s->nr = walk.kept;
	s->flags |= BRINK_SAMPLE_FILTERED;
	brink_count_add(BRINK_CNT_RECORDS_FILTERED, walk.filter->counts.dropped);
	brink_count_add(BRINK_CNT_RECORDS_UNKNOWN, walk.filter->counts.unknown);
}

/*
 * Removes the entries that the session's filter does not want. brink_sample_chain does it; a source that brings its
 * own record memory uses brink_sample_filter_with on its entries likewise. brink_filter_keeps comes before.
 */
brink_always_inline void brink_sample_filter(struct brink_sample *s)
{
	struct brink_filter_scratch *filter;
	__u32 zero = 0;

	if (!(brink_cfg.flags & BRINK_CFG_FILTER_RECORDS) || !s->nr)
		return;
	filter = bpf_map_lookup_elem(&brink_filter_scratch, &zero);
	if (filter)
		brink_sample_filter_with(s, filter);
}

/* Counts the event. Whether it is the session's, by target and privilege; what is not is counted. */
brink_always_inline int brink_sample_wanted(const void *ctx, const struct task_struct *task, int user)
{
	brink_count(BRINK_CNT_EVENTS);
	if (brink_target_has_current(task) && !((brink_cfg.flags & BRINK_CFG_SKIP_KERNEL) && !user) &&
	    !((brink_cfg.flags & BRINK_CFG_SKIP_USER) && user))
		return 1;
	brink_count(BRINK_CNT_FILTERED);
	return 0;
}

/* Fills the head of a sample without entries. 0: the session's filter does not want it (counted). */
brink_always_inline int brink_sample_start(void *ctx, struct brink_sample *s, const struct task_struct *task, int user)
{
	brink_sample_fill(s, task, brink_ctx_ip(ctx));
	s->period = brink_ctx_period(ctx);
	if (!user)
		s->flags |= BRINK_SAMPLE_KERNEL_IP;
	else if (brink_ctx_compat(ctx))
		s->flags |= BRINK_SAMPLE_COMPAT;
	if (brink_cfg.flags & BRINK_CFG_COOKIE)
		s->event = bpf_get_attach_cookie(ctx);
	return brink_filter_keeps(s);
}

#ifndef BRINK_OWN_SCRATCH
/* NULL: not a sample of this session (counted). Else the scratch with its head filled and no entries. */
brink_always_inline struct brink_sample *brink_sample_begin(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	int user = brink_ctx_user_mode(ctx);
	struct brink_sample *s;
	__u32 zero = 0;

	if (!brink_sample_wanted(ctx, task, user))
		return 0;
	s = bpf_map_lookup_elem(&brink_scratch, &zero);
	if (!s || !brink_sample_start(ctx, s, task, user))
		return 0;
	return s;
}
#endif

/* Appends one context (marker and frames) of the call chain behind the entries. */
brink_always_inline void brink_chain_part(void *ctx, struct brink_sample *s, __u64 marker, __u64 flags)
{
	__u32 zero = 0, nr = s->nr, have = s->chain_nr;
	struct brink_chain_scratch *chain = bpf_map_lookup_elem(&brink_chain, &zero);
	struct brink_sample_scratch *scratch = (struct brink_sample_scratch *)s;
	long bytes;
	__u32 at, room, i;

	if (!chain || nr > BRINK_SCRATCH_BRANCHES || have >= BRINK_MAX_CHAIN)
		return;
	chain->ips[0] = marker;
	bytes = bpf_get_stack(ctx, &chain->ips[1], sizeof(chain->ips) - sizeof(chain->ips[0]), flags);
	if (bytes <= 0 || bytes > (long)(sizeof(chain->ips) - sizeof(chain->ips[0])))
		return;
	bytes += sizeof(chain->ips[0]);
	room = BRINK_MAX_CHAIN - have;
	if (room > BRINK_MAX_CHAIN)
		return;
	if (bytes > room * sizeof(__u64))
		bytes = room * sizeof(__u64);
	at = sizeof(struct brink_sample) + nr * sizeof(struct brink_branch) + have * sizeof(__u64);
	for (i = 0; i < BRINK_MAX_CHAIN; i++) {
		if (i * sizeof(__u64) >= bytes)
			break;
		if (at > sizeof(*scratch) - sizeof(__u64))
			break;
		*(__u64 *)((char *)scratch + at) = chain->ips[i];
		at += sizeof(__u64);
	}
	s->chain_nr = have + i;
}

/*
 * Filters the entries, then puts the call chain in perf's form (kernel part first, by frame pointers) behind them: call
 * it when the source has filled its entries. Nothing is done unless the session asked for it.
 */
brink_always_inline void brink_sample_chain(void *ctx, struct brink_sample *s)
{
	brink_sample_filter(s);
	if ((brink_cfg.flags & BRINK_CFG_CHAIN_KERNEL) && (s->flags & BRINK_SAMPLE_KERNEL_IP))
		brink_chain_part(ctx, s, PERF_CONTEXT_KERNEL, 0);
	if (brink_cfg.flags & BRINK_CFG_CHAIN_USER)
		brink_chain_part(ctx, s, PERF_CONTEXT_USER, BPF_F_USER_STACK);
}

/* Sends the sample with its entries and chain, and counts it. */
brink_always_inline void brink_sample_emit(struct brink_sample *s)
{
	__u64 nr = s->nr, chain_nr = s->chain_nr, bytes;

	bytes = sizeof(*s) + nr * sizeof(struct brink_branch) + chain_nr * sizeof(__u64);
	s->header.size = bytes;
	brink_barrier_var(bytes);
	if (bytes > sizeof(struct brink_sample_scratch))
		return;
	if (brink_ring_send(s, bytes))
		return;
	brink_count(BRINK_CNT_EMITTED);
	brink_count_add(BRINK_CNT_EMITTED_BYTES, bytes);
}

#endif /* BRINK_BPF_LIB_SAMPLE_H_ */
