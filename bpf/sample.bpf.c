// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The sampling program of hardware branch stacks, of recordings without stacks, and of replayed stacks. */
#include "lib/sample.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Tests only (BRINK_CFG_REPLAY): recorded stacks that stand for the hardware's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BRINK_REPLAY_STACKS);
	__type(key, __u32);
	__type(value, struct brink_replay_stack);
} brink_replay SEC(".maps");

/* How many stacks of brink_replay are filled. */
const volatile __u32 brink_replay_count = 1;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} brink_replay_next SEC(".maps");

/* perf's info word has 33 defined bits; what lies above them is another kernel's private business. */
#define BRINK_INFO_MASK ((1ULL << 33) - 1)

/* Fills the entries from the branch stack that the event carries. */
static __always_inline void take_hardware(void *ctx, struct brink_sample_scratch *scratch)
{
	struct brink_sample *s = &scratch->sample;
	long bytes = bpf_read_branch_records((struct bpf_perf_event_data *)ctx, scratch->entries,
					     sizeof(scratch->entries), 0);
	__u32 nr;

	if (bytes <= 0) {
		brink_count(BRINK_CNT_NO_STACK);
		return;
	}
	nr = (__u32)bytes / sizeof(struct brink_branch);
	if (nr > BRINK_SCRATCH_BRANCHES)
		nr = BRINK_SCRATCH_BRANCHES;
	if (brink_cfg.depth && nr > brink_cfg.depth) {
		nr = brink_cfg.depth;
		s->flags |= BRINK_SAMPLE_TRUNCATED;
	}
	for (__u32 i = 0; i < BRINK_SCRATCH_BRANCHES; i++) {
		if (i >= nr)
			break;
		scratch->entries[i].info &= BRINK_INFO_MASK;
	}
	s->nr = nr;
}

static __always_inline void take_replay(struct brink_sample_scratch *scratch)
{
	struct brink_sample *s = &scratch->sample;
	struct brink_replay_stack *stack;
	__u32 zero = 0, index, nr;
	__u64 *next = bpf_map_lookup_elem(&brink_replay_next, &zero);

	if (!next || !brink_replay_count)
		return;
	index = (*next)++ % brink_replay_count;
	stack = bpf_map_lookup_elem(&brink_replay, &index);
	if (!stack)
		return;
	nr = stack->nr;
	if (nr > BRINK_SCRATCH_BRANCHES)
		nr = BRINK_SCRATCH_BRANCHES;
	bpf_probe_read_kernel(scratch->entries, nr * sizeof(struct brink_branch), stack->entries);
	s->nr = nr;
	if (stack->ip)
		s->ip = stack->ip;
}

/* The event carries a hardware branch stack (or replayed ones stand for it). */
SEC("perf_event")
int brink_on_event(void *ctx)
{
	struct brink_sample *s = brink_sample_begin(ctx);

	if (!s)
		return 0;
	if (brink_cfg.flags & BRINK_CFG_REPLAY)
		take_replay((struct brink_sample_scratch *)s);
	else if (brink_cfg.source == BRINK_SOURCE_LBR)
		take_hardware(ctx, (struct brink_sample_scratch *)s);
	brink_sample_chain(ctx, s);
	brink_sample_emit(s);
	return 0;
}

/* Each how manieth hit of the target is a sample. */
const volatile __u64 brink_tracepoint_period = 1;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} brink_tracepoint_hits SEC(".maps");

/*
 * A hit of a tracepoint. Runs on every CPU for every task, whatever the perf event says, so target and period are
 * looked after here. The place is the kernel's: where the tracepoint stands.
 */
SEC("tp")
int brink_on_tracepoint(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct brink_sample *s;
	__u32 zero = 0;
	__u64 *hits, ip = 0;

	brink_count(BRINK_CNT_EVENTS);
	hits = bpf_map_lookup_elem(&brink_tracepoint_hits, &zero);
	s = bpf_map_lookup_elem(&brink_scratch, &zero);
	if (!s || !hits)
		return 0;
	if (!brink_target_has_current(task) || (brink_cfg.flags & BRINK_CFG_SKIP_KERNEL) ||
	    (brink_tracepoint_period > 1 && ++*hits % brink_tracepoint_period)) {
		brink_count(BRINK_CNT_FILTERED);
		return 0;
	}
	/* The innermost frame is the tracepoint's own iterator. */
	bpf_get_stack(ctx, &ip, sizeof(ip), 1);
	brink_sample_fill(s, task, ip);
	s->period = brink_tracepoint_period;
	s->flags |= BRINK_SAMPLE_KERNEL_IP;
	if (brink_cfg.flags & BRINK_CFG_COOKIE)
		s->event = bpf_get_attach_cookie(ctx);
	if (brink_cfg.flags & BRINK_CFG_REPLAY)
		take_replay((struct brink_sample_scratch *)s);
	brink_sample_chain(ctx, s);
	brink_sample_emit(s);
	return 0;
}

/*
 * Replay at full rate: one run feeds `batch` stacks through the same path as brink_on_event. Driven by
 * BPF_PROG_TEST_RUN from the collector's feeder thread. Returns how many stacks were taken.
 */
struct replay_loop {
	__u32 sent;
	__u32 room;
};

static long replay_one(__u64 index, void *data)
{
	struct replay_loop *loop = data;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct brink_sample *s;
	__u32 zero = 0;

	(void)index;
	s = bpf_map_lookup_elem(&brink_scratch, &zero);
	if (!s)
		return 1;
	brink_count(BRINK_CNT_EVENTS);
	brink_sample_fill(s, task, 0);
	loop->sent++;
	if (!brink_filter_keeps(s))
		return 0;
	take_replay((struct brink_sample_scratch *)s);
	brink_sample_filter(s);
	brink_sample_emit(s);
	return 0;
}

const volatile __u32 brink_replay_batch = 64;

/* A raw tracepoint program, because perf_event programs cannot be test-run; its argument is not used. */
SEC("raw_tp")
int brink_replay_run(void *ctx)
{
	struct replay_loop loop = {};

	(void)ctx;
	bpf_loop(brink_replay_batch, replay_one, &loop, 0);
	return loop.sent;
}
