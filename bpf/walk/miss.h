/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Miss records: what user space needs to lift code, sent with the code's bytes. */
#ifndef BRINK_WALK_MISS_H_
#define BRINK_WALK_MISS_H_

#include "lib/sample.h"
#include "walk/machine.h"

/* The same miss is sent once in so long: user space needs a moment to answer. */
#define WALK_MISS_QUIET_NS 5000000ull
#define WALK_MISS_RECENT 64

struct walk_recent_miss {
	__u64 key;
	__u64 time_ns;
};

struct walk_recent_misses {
	struct walk_recent_miss entry[WALK_MISS_RECENT];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_recent_misses);
} walk_recent SEC(".maps");

/* Writes down the miss that w describes, on behalf of sample s, with the code as it is now. */
WALK_INLINE void walk_fill_miss(const struct brink_walk *w, const struct brink_sample *s, struct brink_miss *m, __u64 vm_stamp)
{
	__u64 page = w->miss_address & ~(__u64)(BRINK_WALK_PAGE_SIZE - 1);
	const struct brink_walk_reg *sp = &w->reg[WALK_STACK_POINTER];

	m->header.type = BRINK_REC_MISS;
	m->header.version = BRINK_ABI_VERSION;
	m->header.size = sizeof(*m);
	m->time_ns = s->time_ns;
	m->asid = w->asid;
	m->address = w->miss_address;
	m->task_start_ns = s->task_start_ns;
	m->vm_stamp = vm_stamp;
	m->tgid = s->tgid;
	m->tid = s->tid;
	m->slot = w->miss_slot;
	m->reason = w->miss_reason;
	m->sp = sp->unk ? 0 : sp->val;
	m->code_len = 0;
	if (!bpf_probe_read_user(m->code, BRINK_WALK_PAGE_SIZE, (const void *)page)) {
		m->code_len = BRINK_WALK_PAGE_SIZE;
		if (!bpf_probe_read_user(m->code + BRINK_WALK_PAGE_SIZE, BRINK_WALK_TAIL, (const void *)(page + BRINK_WALK_PAGE_SIZE)))
			m->code_len = BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL;
	}
}

/* Sends the miss, by way of m. A race for walk_recent sends a miss twice or late, and no more. */
WALK_INLINE void walk_send_miss(const struct brink_walk *w, const struct brink_sample *s, struct brink_miss *m, __u64 vm_stamp)
{
	/* A process is asked for once, wherever its threads are. */
	__u64 key = w->miss_reason == BRINK_MISS_PROCESS ? w->asid : (w->miss_address ^ w->asid) + w->miss_reason, now = s->time_ns;
	struct walk_recent_misses *table;
	struct walk_recent_miss *recent;
	__u32 zero = 0;

	/* A walk that ended at code which it had written itself has nothing to ask for. */
	if (!w->miss_reason)
		return;
	table = bpf_map_lookup_elem(&walk_recent, &zero);
	if (!table)
		return;
	recent = &table->entry[(key ^ key >> 6 ^ key >> 12) & (WALK_MISS_RECENT - 1)];
	if (recent->key == key && now - recent->time_ns < WALK_MISS_QUIET_NS)
		return;
	recent->key = key;
	recent->time_ns = now;
	walk_fill_miss(w, s, m, vm_stamp);
	/* The sooner it is answered, the fewer walks end here. */
	if (bpf_ringbuf_output(&brink_ring, m, sizeof(*m), BPF_RB_FORCE_WAKEUP)) {
		recent->key = 0;
		brink_count(BRINK_CNT_MISS_LOST);
	}
}

#endif /* BRINK_WALK_MISS_H_ */
