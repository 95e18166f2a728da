// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What it costs a program to hand over one walk's branches: written whole into a ring, or summed in a hash map of branches
 * and one of straight code. The branches are those of a real recording.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#define MOST_BRANCHES (1 << 18)

struct branch {
	__u64 from, to, flags;
};

struct key {
	__u64 space, from, to;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct branch[MOST_BRANCHES]);
} branches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__type(key, struct key);
	__type(value, __u64);
} sums SEC(".maps"), ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

__u32 first, depth, mode;
__u64 ns, failed;

static void add(void *map, const struct key *key)
{
	__u64 *count = bpf_map_lookup_elem(map, key), one = 1;

	if (count)
		__sync_fetch_and_add(count, 1);
	else if (bpf_map_update_elem(map, key, &one, BPF_ANY))
		failed++;
}

static long sum_one(__u32 i, void *unused)
{
	__u32 at = (first + i) & (MOST_BRANCHES - 1), before = (at - 1) & (MOST_BRANCHES - 1), zero = 0;
	struct branch *all = bpf_map_lookup_elem(&branches, &zero); /* inlined: the map is an array */
	struct key key = { .space = 1 };

	(void)unused;
	if (!all)
		return 1;
	key.from = all[at].from;
	key.to = all[at].to;
	add(&sums, &key);
	key.from = all[before].to;
	key.to = all[at].from;
	add(&ranges, &key);
	return 0;
}

SEC("raw_tp")
int hand_over(void *ctx)
{
	__u32 zero = 0, at = first & (MOST_BRANCHES - 1), bytes = depth * sizeof(struct branch);
	struct branch *all = bpf_map_lookup_elem(&branches, &zero);
	__u64 start = bpf_ktime_get_ns();

	(void)ctx;
	if (!all)
		return 0;
	if (mode == 1) {
		if (bytes <= 2048 * sizeof(struct branch) && at <= MOST_BRANCHES - 2048 && bpf_ringbuf_output(&ring, &all[at], bytes, BPF_RB_NO_WAKEUP))
			failed++;
	} else if (mode == 2) {
		bpf_loop(depth, sum_one, 0, 0);
	}
	ns += bpf_ktime_get_ns() - start;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
