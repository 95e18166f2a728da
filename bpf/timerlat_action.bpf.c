// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * For rtla timerlat's --bpf-action: keeps the branch snapshot of the CPU at the moment its sampler found a latency above
 * the threshold. rtla calls action_handler by tail call from its own program and pins nothing; the map is pinned by name
 * (libbpf: /sys/fs/bpf/brink_timerlat), one snapshot a CPU, `seq` counts them. A branch event must be open on the CPU
 * (brink snap or perf hold one), or the helper answers with -ENOENT or old entries.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "brink/abi/snapshot.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct brink_snapshot_slot);
} brink_timerlat SEC(".maps");

SEC("tp/timerlat_action")
int action_handler(void *ctx)
{
	__u32 key = 0;
	struct brink_snapshot_slot *slot = bpf_map_lookup_elem(&brink_timerlat, &key);

	if (!slot)
		return 0;
	slot->bytes = bpf_get_branch_snapshot(slot->entries, sizeof(slot->entries), 0);
	slot->seq++;
	return 0;
}
