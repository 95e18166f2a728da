/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The memory of a check, one a CPU, and the maps that checks share. */
#ifndef BRINK_BPF_CFI_SLOT_H_
#define BRINK_BPF_CFI_SLOT_H_

#define BRINK_SCRATCH_BRANCHES BRINK_CFI_DEPTH
#include "brink/abi/cfi.h"
#include "brink/abi/walk.h"
#include "walk/interrupt.h"

const volatile struct brink_cfi_config cfi_config = {};

struct cfi_slot {
	__u32 busy;	/* taken by compare and swap: a sample may interrupt a check */
	__u32 top;	/* calls that are open */
	__u64 name;
	__u64 begins;	/* where the program was entered that the thread has just executed; 0: not just */
	__u32 marked;	/* the kernel has led it somewhere at `mark` open calls, and those are open still */
	__u32 mark;
	__u32 unsure;	/* the call may write over what the walk has read: nothing is done, its end tells */
	struct brink_cfi cfi;
	__u64 call[BRINK_CFI_DEPTH];
	/* The record: head, entries, then a copy of `cfi`. */
	struct brink_sample sample;
	__u8 room[BRINK_CFI_DEPTH * sizeof(struct brink_branch) + sizeof(struct brink_cfi)];
	struct brink_miss miss;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cfi_slot);
} cfi_slots SEC(".maps");

/* Windows that were sent, by name. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} cfi_seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BRINK_CFI_CNT_MAX);
	__type(key, __u32);
	__type(value, __u64);
} cfi_counts SEC(".maps");

/* Actions of the current minute. */
__u64 cfi_minute = 0, cfi_minute_acts = 0;

brink_always_inline void cfi_count_add(__u32 which, __u64 n)
{
	__u64 *cell = bpf_map_lookup_elem(&cfi_counts, &which);

	if (cell)
		__sync_fetch_and_add(cell, n);
}

brink_always_inline struct cfi_slot *cfi_slot_claim(void)
{
	__u32 zero = 0;
	struct cfi_slot *slot = bpf_map_lookup_elem(&cfi_slots, &zero);

	if (slot && !__sync_val_compare_and_swap(&slot->busy, 0, 1))
		return slot;
	cfi_count_add(BRINK_CFI_CNT_NESTED, 1);
	return 0;
}

brink_always_inline void cfi_slot_release(struct cfi_slot *slot)
{
	__sync_val_compare_and_swap(&slot->busy, 1, 0);
}

#endif /* BRINK_BPF_CFI_SLOT_H_ */
