// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A socket filter that takes its time: the receiving softirq of one packet lasts as long as the packet says. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct burn {
	__u64 until;
};

static long burn_step(__u32 index, struct burn *burn)
{
	return bpf_ktime_get_ns() >= burn->until;
}

__u64 burn_ns;

SEC("socket")
int burn_filter(void *ctx)
{
	struct burn burn = {.until = bpf_ktime_get_ns() + burn_ns};

	bpf_loop(1 << 22, burn_step, &burn, 0);
	return -1;
}
