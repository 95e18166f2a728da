/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The slots of deferred walks: what one request owns, and how it is claimed and released. */
#ifndef BRINK_WALK_SLOT_H_
#define BRINK_WALK_SLOT_H_

#include "walk/assist.h"
#include "walk/task_work.h"

#define WALK_SLOTS_PER_CPU 2
/* Slots looked at for a free one. */
#define WALK_SLOT_TRIES 8

struct walk_slot {
	struct bpf_task_work work;
	__u32 busy;	/* claimed by compare and swap */
	__u32 index;
	__u64 sp;	/* where the sample hit */
	__u64 switches;	/* of the thread, at the sample: then its vector registers were live */
	__u64 start_ns;
	__u64 assist_ns; /* waited for user space */
	__u64 waited_ns; /* of it for vector registers */
	__u64 tried_ns;	/* taken by the first try; 0: there was none */
	struct brink_rec_header kick;
	__u32 chain_nr;
	__u32 before;	/* branches of the walk without them */
	__u64 chain[BRINK_MAX_CHAIN];
	struct brink_filter_scratch filter;
	struct brink_miss miss;
	struct brink_sample_scratch record;
};

WALK_ARRAY(walk_slots, 0, 1, struct walk_slot);
WALK_ARRAY(walk_flights, BPF_F_MMAPABLE, 1, struct brink_walk_flight);

const volatile __u32 walk_slot_count = 1;

/* The CPU's first slots come first: their memory is warm. */
static struct walk_slot *walk_claim(void)
{
	__u32 start = bpf_get_smp_processor_id() * WALK_SLOTS_PER_CPU, i, index;
	struct walk_slot *slot;

	for (i = 0; i < WALK_SLOT_TRIES; i++) {
		index = (start + i) % walk_slot_count;
		slot = bpf_map_lookup_elem(&walk_slots, &index);
		if (slot && !__sync_val_compare_and_swap(&slot->busy, 0, 1)) {
			slot->index = index;
			return slot;
		}
	}
	return 0;
}

/* Says since when the slot is under way; 0: its record is in the ring. A full barrier: user space looks here first. */
WALK_INLINE void walk_under_way(const struct walk_slot *slot, __u64 since_ns)
{
	__u32 index = slot->index;
	struct brink_walk_flight *flight = bpf_map_lookup_elem(&walk_flights, &index);

	if (flight)
		__sync_lock_test_and_set(&flight->since_ns, since_ns);
}

WALK_INLINE void walk_release(struct walk_slot *slot)
{
	walk_under_way(slot, 0);
	__sync_val_compare_and_swap(&slot->busy, 1, 0);
}

#endif /* BRINK_WALK_SLOT_H_ */
