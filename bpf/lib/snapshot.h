/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The branch snapshot of a trigger, in two stages (design section 3):
 *
 *	struct brink_snapshot_slot *slot = brink_snapshot_take(&seq);	first thing in the program
 *	...is this hit wanted? rate limit, conditions...
 *	nr = brink_snapshot_settle(seq);
 *	nr = brink_snapshot_copy(slot, seq, entries, BRINK_MAX_HW_BRANCHES);	where that was not an error
 *
 * Every taken branch before the helper freezes the hardware pushes a wanted entry out: no call but that for the CPU's
 * number (inlined by current kernels), no comparison, no bounds check. A branch event must be open on the CPU
 * (src/snapshot/held_events.h), or the helper answers with old entries. Where the registers were emptied since, the
 * old entries behind the new ones are found and left out (lib/fresh.h).
 */
#ifndef BRINK_BPF_LIB_SNAPSHOT_H_
#define BRINK_BPF_LIB_SNAPSHOT_H_

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "brink/abi/snapshot.h"
#include "lib/fresh.h"

__weak struct brink_snapshot_cpu brink_snapshots[BRINK_SNAPSHOT_CPUS] = {};

struct task_struct___stint {
	int pid;
	unsigned long nvcsw;
	unsigned long nivcsw;
} __attribute__((preserve_access_index));

static inline __attribute__((always_inline)) struct brink_snapshot_cpu *brink_snapshots_here(void)
{
	return &brink_snapshots[bpf_get_smp_processor_id() & (BRINK_SNAPSHOT_CPUS - 1)];
}

static inline __attribute__((always_inline)) struct brink_snapshot_slot *brink_snapshot_take(__u32 *seq)
{
	struct brink_snapshot_cpu *cpu = brink_snapshots_here();
	__u32 turn = __sync_fetch_and_add(&cpu->seq, 1) + 1;
	struct brink_snapshot_slot *slot = &cpu->half[turn & 1];
	const struct task_struct___stint *task;

	slot->bytes = bpf_get_branch_snapshot(slot->entries, sizeof(slot->entries), 0);
	task = (const void *)bpf_get_current_task_btf();
	cpu->stint[turn & 1] = (__u64)task->pid << 32 | (__u32)(task->nvcsw + task->nivcsw);
	cpu->count[turn & 1] = 0;
	slot->seq = turn;
	/* Whoever came in between has read before us or after us: the next one cannot go by it. */
	if (*(volatile __u32 *)&cpu->seq != turn)
		cpu->half[~turn & 1].seq = 0;
	*seq = turn;
	return slot;
}

/* The thread is leaving the CPU, and is counted as gone already: its next snapshot is of another stint. */
static inline __attribute__((always_inline)) void brink_snapshot_leaving(__u32 seq)
{
	brink_snapshots_here()->stint[seq & 1] = ~(__u64)seq;
}

/* A program that user space runs once on each CPU before the others are attached: the driver's buffer is known from then on. */
#define BRINK_SNAPSHOT_PRIME(name)		\
	SEC("?raw_tp") int name(void *ctx)	\
	{					\
		__u32 seq;			\
						\
		(void)ctx;			\
		brink_snapshot_take(&seq);	\
		return 0;			\
	}

/* Another snapshot on this CPU has come since: what is found in the slot may be of both. */
static inline __attribute__((always_inline)) int brink_snapshot_gone(__u32 seq)
{
	return *(volatile __u32 *)&brink_snapshots_here()->seq != seq;
}

/*
 * The number of entries that the snapshot is worth, without empty and stale ones behind it; a negative errno of the helper;
 * -EAGAIN when another snapshot on this CPU has come in between. slot->bytes says the same afterwards. Global: the verifier
 * looks at it once, and the caller's way goes on from any answer alike.
 */
__weak __attribute__((noinline)) int brink_snapshot_settle(__u32 seq)
{
	struct brink_snapshot_cpu *cpu = brink_snapshots_here();
	struct brink_snapshot_slot *slot = &cpu->half[seq & 1];
	__s64 bytes = *(volatile __s64 *)&slot->bytes;
	__u32 nr, i;

	if (bytes < 0)
		return bytes;
	nr = (__u64)bytes / sizeof(struct brink_branch);
	if (nr > BRINK_MAX_HW_BRANCHES)
		nr = BRINK_MAX_HW_BRANCHES;
	if (nr)
		nr = brink_fresh_entries(cpu, seq, nr);
	/* By way of memory, where the verifier forgets which of the many ways led here. */
	*(volatile __s64 *)&slot->bytes = nr;
	nr = *(volatile __s64 *)&slot->bytes;
	for (i = 0; i < BRINK_MAX_HW_BRANCHES; i++) {
		if (i >= nr || (!slot->entries[i].from && !slot->entries[i].to))
			break;
	}
	cpu->count[seq & 1] = i;
	slot->bytes = i * sizeof(struct brink_branch);
	return brink_snapshot_gone(seq) ? -11 /* EAGAIN */ : (int)i;
}

/*
 * Copies at most `max` entries of a snapshot that is settled, here or where it has been kept, to `to`. The number copied; a
 * negative errno of the helper; -EAGAIN when another snapshot has overwritten the slot meanwhile.
 */
static inline __attribute__((always_inline)) long brink_snapshot_copy(struct brink_snapshot_slot *slot, __u32 seq,
								      struct brink_branch *to, __u32 max)
{
	__s64 bytes = *(volatile __s64 *)&slot->bytes;
	__u32 nr, i;

	if (bytes < 0)
		return bytes;
	nr = (__u64)bytes / sizeof(struct brink_branch);
	if (nr > max)
		nr = max;
	for (i = 0; i < BRINK_MAX_HW_BRANCHES; i++) {
		if (i >= nr)
			break;
		to[i].from = slot->entries[i].from;
		to[i].to = slot->entries[i].to;
		/* 33 bits are perf's; what lies above is the driver's. */
		to[i].info = slot->entries[i].info & ((1ULL << 33) - 1);
	}
	if (*(volatile __u32 *)&slot->seq != seq)
		return -11; /* EAGAIN */
	return i;
}

#endif /* BRINK_BPF_LIB_SNAPSHOT_H_ */
