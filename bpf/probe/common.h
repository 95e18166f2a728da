/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Counting for the feature probe: every program here does one thing and says that it ran. */
#ifndef BRINK_BPF_PROBE_COMMON_H_
#define BRINK_BPF_PROBE_COMMON_H_

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "brink/abi/probe.h"

const volatile __u32 probe_tgid = 0;
struct brink_probe_out probe_out;

static __always_inline int probe_ours(void)
{
	return bpf_get_current_pid_tgid() >> 32 == probe_tgid;
}

static __always_inline int probe_hit(void)
{
	if (probe_ours())
		__sync_fetch_and_add(&probe_out.fired, 1);
	return 0;
}

#endif
