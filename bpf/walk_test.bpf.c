// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests and benchmarks: runs a walk on a state that user space has put into walk_state[0], in the address space of the
 * process that calls BPF_PROG_TEST_RUN. A raw tracepoint program, because perf_event programs cannot be test-run.
 */
#include "walk/run.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";


struct walk_test_registers {
	struct brink_walk_reg reg[BRINK_WREG_COUNT];
	__u32 flags;
	__u32 repeat;
	__u64 total_ns;
	__u64 total_steps;
	struct brink_walk_config config;
};

struct walk_test_registers walk_test_start;

static long walk_test_once(__u32 i, void *p)
{
	struct walk_ctx *c = p;
	struct brink_walk *w = c->w;
	struct brink_walk_config config = walk_test_start.config;
	__u64 start = bpf_ktime_get_ns();
	__u32 r;

	(void)i;
	walk_begin(w, &config);
	for (r = 0; r < BRINK_WREG_COUNT; r++)
		w->reg[r] = walk_test_start.reg[r];
	w->flags = walk_test_start.flags;
	walk_run(w, c->out);
	walk_test_start.total_ns += bpf_ktime_get_ns() - start;
	walk_test_start.total_steps += w->steps;
	return 0;
}

/* walk_test_start.repeat == 0: continues the state as it is. */
SEC("raw_tp")
int walk_test_run(void *ctx)
{
	__u32 slot = 0;
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &slot);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &slot);
	struct walk_ctx c = { .w = w, .out = out };

	(void)ctx;
	if (!w || !out)
		return 1;
	if (walk_test_start.repeat)
		bpf_loop(walk_test_start.repeat, walk_test_once, &c, 0);
	else
		walk_run(w, out);
	return 0;
}
