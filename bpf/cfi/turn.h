/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What keeps checks within their share, before any work is done for one.
 *
 * A thread pays for its checks out of what it earns: three quarters of the share of its own CPU time, one quarter of the
 * share of the clock's. So a busy thread takes no checks away from a quiet one, and one that sleeps between its calls is
 * checked at nearly all of them. It has an account on each CPU. One that has nothing left is not asked again for a number of calls that goes by how fast
 * it makes them: passing over a call costs a few nanoseconds. All that are passed over are counted. Calls of the sensitive
 * set are always checked. The CPU's bucket (walk/program.h) bounds the whole.
 */
#ifndef BRINK_BPF_CFI_TURN_H_
#define BRINK_BPF_CFI_TURN_H_

#include "cfi/slot.h"

#define CFI_TURN_BURST_NS 250000	/* most that a thread saves up */
#define CFI_TURN_FIRST_NS 120000	/* what a new one has */
#define CFI_TURN_CLOSED_NS 5000	/* what one pays that could, while its CPU's bucket is empty: it will not ask soon again */

struct cfi_turn {
	__u32 tid;
	__u32 skip;	/* calls to be passed over */
	__u32 skipped;	/* as it was set */
	__u32 pad;
	__u64 ran_ns;	/* CPU time of the thread, and the clock, when it was last asked */
	__u64 time_ns;
	__s64 left_ns;
};

struct cfi_turns {
	__u64 skipped;
	/* Threads share a place by their low bits; who finds another's makes it his own. */
	struct cfi_turn of[BRINK_CFI_TURNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cfi_turns);
} cfi_turns SEC(".maps");

struct sched_entity___cfi {
	__u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct___ran {
	struct sched_entity___cfi se;
} __attribute__((preserve_access_index));

brink_always_inline __u32 cfi_tid(void)
{
	return (__u32)bpf_get_current_pid_tgid();
}

brink_always_inline struct cfi_turns *cfi_turns_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cfi_turns, &zero);
}

/* The first thing at a call. 1: this thread's is passed over. */
brink_always_inline int cfi_turn_skips(struct cfi_turns *turns, __u32 tid)
{
	struct cfi_turn *turn = &turns->of[tid & (BRINK_CFI_TURNS - 1)];

	if (turn->tid != tid || !turn->skip)
		return 0;
	turn->skip--;
	turns->skipped++;
	return 1;
}

/* How many calls to pass over, by the time that the last ones took. */
brink_always_inline __u32 cfi_turn_next(__u64 gap, __u32 calls)
{
	__u64 each = gap / (calls + 1);

	return each < 2000 ? 31 : each < 10000 ? 7 : each < 50000 ? 1 : 0;
}

/* Whether the thread can pay for a check. */
static __attribute__((noinline, unused)) int cfi_turn_open(struct cfi_turns *turns, __u32 tid, __u32 permille)
{
	const struct task_struct___ran *task = (const void *)bpf_get_current_task_btf();
	struct cfi_turn *turn = &turns->of[tid & (BRINK_CFI_TURNS - 1)];
	__u64 now = bpf_ktime_get_ns(), ran = task->se.sum_exec_runtime, gap;
	__s64 left;

	if (!permille || permille >= 1000)
		return 1;	/* no bound, and no waiting for the tick that counts the CPU time */
	if (turn->tid != tid) {
		/* Two that take the place from each other get little. */
		turn->left_ns = turn->tid ? CFI_TURN_FIRST_NS / 8 : CFI_TURN_FIRST_NS;
		turn->tid = tid;
		turn->skip = turn->skipped = 0;
		turn->ran_ns = ran;
		turn->time_ns = now;
		return 1;
	}
	gap = now - turn->time_ns;
	if (gap > 1000000000ull)
		gap = 1000000000ull;
	left = turn->left_ns + (__s64)(((ran > turn->ran_ns ? ran - turn->ran_ns : 0) * 3 + gap) * permille / 4000);
	if (left > CFI_TURN_BURST_NS)
		left = CFI_TURN_BURST_NS;
	turn->left_ns = left;
	turn->ran_ns = ran;
	turn->time_ns = now;
	if (left > 0)
		return 1;
	turn->skip = turn->skipped = cfi_turn_next(gap, turn->skipped);
	turns->skipped++;
	return 0;
}

/* A check has been made, or the CPU had no time for it. What sensitive calls cost is owed, but not for ever. */
brink_always_inline void cfi_turn_pay(__u64 ns)
{
	struct cfi_turns *turns = cfi_turns_here();
	__u32 tid = cfi_tid();
	struct cfi_turn *turn;

	if (!turns)
		return;
	turn = &turns->of[tid & (BRINK_CFI_TURNS - 1)];
	if (turn->tid != tid)
		return;
	turn->left_ns -= (__s64)ns;
	if (turn->left_ns < -CFI_TURN_BURST_NS)
		turn->left_ns = -CFI_TURN_BURST_NS;
	turn->skipped = 0;
}

#endif /* BRINK_BPF_CFI_TURN_H_ */
