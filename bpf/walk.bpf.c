// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The walk source in interrupt mode: software branch stacks, taken in the sampling event itself (docs/walk.md). */
#define BRINK_SCRATCH_BRANCHES BRINK_WALK_IRQ_DEPTH
#include "brink/abi/walk.h"
#include "walk/interrupt.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("perf_event")
int brink_walk_on_event(void *ctx)
{
	struct brink_sample *s = brink_sample_begin(ctx);

	if (!s)
		return walk_goes_on;
	if (walk_sample(ctx, s, ((struct brink_sample_scratch *)s)->entries, BRINK_WALK_IRQ_DEPTH))
		return walk_goes_on;
	brink_sample_chain(ctx, s);
	brink_sample_emit(s);
	return walk_goes_on;
}
