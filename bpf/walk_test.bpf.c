// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests: goes on with the state that user space has put into walk_state[0], in the address space of the process that
 * calls BPF_PROG_TEST_RUN. A raw tracepoint program, because perf_event programs cannot be test-run.
 */
#include "walk/run.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int walk_test_run(void *ctx)
{
	__u32 slot = 0;
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &slot);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &slot);

	(void)ctx;
	if (!w || !out)
		return 1;
	walk_run(w, out);
	return 0;
}
