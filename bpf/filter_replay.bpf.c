// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The filter core over a stack from a map, for tests and measurements: what the collector's program does with a
 * sample, driven by BPF_PROG_TEST_RUN.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "lib/filter.h"
#include "lib/filter_replay.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct replay_stack);
} stacks SEC(".maps");

const volatile struct brink_filter_prog filter_prog;
const volatile __u32 filter_enabled;

struct replay_ctx {
	struct replay_stack *stack;
	__u32 kept;
};

static long copy_one(__u32 index, void *data)
{
	struct replay_ctx *ctx = data;

	if (index >= ctx->stack->nr || index >= REPLAY_ENTRIES)
		return 1;
	ctx->stack->entries[index] = ctx->stack->source[index];
	return 0;
}

static long keep_one(__u32 index, void *data)
{
	struct replay_ctx *ctx = data;
	struct replay_stack *stack = ctx->stack;
	struct brink_branch entry;
	__u32 result;

	if (index >= stack->nr || index >= REPLAY_ENTRIES)
		return 1;
	entry = stack->source[index];
	result = brink_filter_record(brink_filter_rodata(&filter_prog), &stack->in, &entry);
	brink_filter_count(&stack->counts, result);
	if (result == BRINK_FILTER_TRUE && ctx->kept < REPLAY_ENTRIES) {
		stack->entries[ctx->kept] = entry;
		ctx->kept++;
	}
	return 0;
}

SEC("raw_tp")
int filter_replay(void *unused)
{
	struct replay_ctx ctx = {};
	__u32 key = 0;

	ctx.stack = bpf_map_lookup_elem(&stacks, &key);
	if (!ctx.stack)
		return 0;
	if (!filter_enabled) {
		bpf_loop(REPLAY_ENTRIES, copy_one, &ctx, 0);
		ctx.stack->kept = ctx.stack->nr;
		return 0;
	}
	ctx.stack->sample_result = brink_filter_sample(brink_filter_rodata(&filter_prog), &ctx.stack->in);
	if (ctx.stack->sample_result == BRINK_FILTER_TRUE)
		bpf_loop(REPLAY_ENTRIES, keep_one, &ctx, 0);
	ctx.stack->kept = ctx.kept;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
