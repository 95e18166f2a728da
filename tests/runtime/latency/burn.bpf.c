// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A socket filter that takes its time: the receiving softirq of one packet lasts as long as the program says. It tells when
 * and where that was, and how much of it the hypervisor had: steps of a clock that is read all the time. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define BURN_STEP_NS 200000

struct burn {
	__u64 until;
	__u64 last;
	__u64 stolen;
};

__u64 burn_ns;
__u64 burn_start;
__u64 burn_stolen;
__u32 burn_cpu;
__u64 burn_end; /* not 0: the others are of that packet */

static long burn_step(__u32 index, struct burn *burn)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - burn->last > BURN_STEP_NS)
		burn->stolen += now - burn->last;
	burn->last = now;
	return now >= burn->until;
}

SEC("socket")
int burn_filter(void *ctx)
{
	struct burn burn = {.last = bpf_ktime_get_ns()};

	burn_start = burn.last;
	burn.until = burn.last + burn_ns;
	bpf_loop(1 << 22, burn_step, &burn, 0);
	burn_stolen = burn.stolen;
	burn_cpu = bpf_get_smp_processor_id();
	burn_end = burn.last;
	return -1;
}
