// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests: the walker of A64 code, on any machine: goes on with the state that user space has put into walk_state[0], in
 * the address space of the process that calls BPF_PROG_TEST_RUN.
 */
#include "walk/a64/run.h"

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
	a64_run(w, out);
	return 0;
}
