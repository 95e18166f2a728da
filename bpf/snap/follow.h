/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the thread of a capture does next, where no hardware says what it did before: a walk in task mode (walk/task.h) that
 * a capture asks for and not a sampling event.
 *
 * The object defines WALK_SCHEDULE, as for walk/task.h, before it includes this.
 */
#ifndef BRINK_SNAP_FOLLOW_H_
#define BRINK_SNAP_FOLLOW_H_

#include "brink/abi/snap.h"

struct brink_walk;
struct walk_slot;
struct task_struct;
static int snap_follow_take(struct brink_walk *w, struct task_struct *task, struct walk_slot *slot);
#define WALK_TAKE_REGS(w, task, slot) snap_follow_take(w, task, slot)

#include "walk/task.h"

/* A process that nobody has looked at yet is looked at while its first walk waits, for so long. */
#define SNAP_FOLLOW_JUDGE_NS 10000000ull

/* User space sets it in every task-mode object (walk/first.h); nothing is tried in the event here. */
const volatile __u32 walk_first_ns = 0;

/* Shared with the triggers (maps.h). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_snap_next);
} snap_next SEC(".maps");

/* By slot; max_entries is set by user space. */
WALK_ARRAY(snap_follow_from, 0, 1, struct brink_snap_next);

/* pt_regs of `from` where it has them, else those with which the thread goes on. 0, or 1: there are none. */
static __attribute__((noinline)) int snap_follow_take(struct brink_walk *w, struct task_struct *task, struct walk_slot *slot)
{
	__u32 index = slot->index;
	const struct brink_snap_next *from = bpf_map_lookup_elem(&snap_follow_from, &index);
	const struct pt_regs *now;

	if (!w || !from)
		return 1;
	if (!from->has_regs) {
		now = (const struct pt_regs *)bpf_task_pt_regs(task);
		slot->record.sample.ip = brink_regs_ip(now);
		return walk_take_user_regs(w, task, brink_regs_ip(now), now->sp);
	}
#if defined(__TARGET_ARCH_arm64)
#define SNAP_TAKE(n) w->reg[BRINK_A64_REG(n)].val = from->regs[n]
	SNAP_TAKE(0); SNAP_TAKE(1); SNAP_TAKE(2); SNAP_TAKE(3); SNAP_TAKE(4); SNAP_TAKE(5); SNAP_TAKE(6); SNAP_TAKE(7);
	SNAP_TAKE(8); SNAP_TAKE(9); SNAP_TAKE(10); SNAP_TAKE(11); SNAP_TAKE(12); SNAP_TAKE(13); SNAP_TAKE(14); SNAP_TAKE(15);
	SNAP_TAKE(16); SNAP_TAKE(17); SNAP_TAKE(18); SNAP_TAKE(19); SNAP_TAKE(20); SNAP_TAKE(21); SNAP_TAKE(22); SNAP_TAKE(23);
	SNAP_TAKE(24); SNAP_TAKE(25); SNAP_TAKE(26); SNAP_TAKE(27); SNAP_TAKE(28); SNAP_TAKE(29); SNAP_TAKE(30);
#undef SNAP_TAKE
	w->reg[BRINK_A64_SP].val = from->regs[BRINK_REG_SP / 8];
	w->flags = (__u32)from->regs[BRINK_REG_PSTATE / 8] & A64_NZCV;
#else
	w->reg[0].val = from->regs[10];
	w->reg[1].val = from->regs[11];
	w->reg[2].val = from->regs[12];
	w->reg[3].val = from->regs[5];
	w->reg[4].val = from->regs[19];
	w->reg[5].val = from->regs[4];
	w->reg[6].val = from->regs[13];
	w->reg[7].val = from->regs[14];
	w->reg[8].val = from->regs[9];
	w->reg[9].val = from->regs[8];
	w->reg[10].val = from->regs[7];
	w->reg[11].val = from->regs[6];
	w->reg[12].val = from->regs[3];
	w->reg[13].val = from->regs[2];
	w->reg[14].val = from->regs[1];
	w->reg[15].val = from->regs[0];
	w->flags = from->regs[18];
#endif
	w->reg[BRINK_WREG_IP].val = from->regs[BRINK_REG_IP / 8];
	slot->record.sample.ip = from->regs[BRINK_REG_IP / 8];
	return 0;
}

WALK_INLINE int snap_follow_judged(struct task_struct *task, __u64 asid)
{
	const struct brink_walk_proc *proc = bpf_map_lookup_elem(&walk_procs, &asid);

	return proc && proc->vm_stamp == walk_vm_stamp(task);
}

struct snap_follow_wait {
	__u64 asid;
	__u64 until_ns;
	__u64 address;
};

/* As walk_yield_once: gives way until the process is known. */
static long snap_follow_wait_once(__u32 i, void *p)
{
	struct snap_follow_wait *wait = p;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 byte;

	if (snap_follow_judged(task, wait->asid))
		return 1;
	bpf_copy_from_user_task(&byte, 1, (const void *)wait->address, task, 0);
	return bpf_ktime_get_ns() > wait->until_ns;
}

/*
 * Events may come once in a process's life: unlike a sampling's, the first walk has to be one. Asks for the process to be
 * judged, and the code to be lifted, before it.
 */
static __attribute__((noinline)) int snap_follow_judge(struct walk_slot *slot, __u32 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &index);
	struct brink_assist_state *a = walk_assist_of_cpu();
	struct snap_follow_wait wait = {};
	__u64 byte, start = bpf_ktime_get_ns(), ns;

	if (!w || !a || !walk_assist.lift)
		return 1;
	wait.asid = walk_asid(task);
	if (!wait.asid || snap_follow_judged(task, wait.asid) || snap_follow_take(w, task, slot) || !walk_assist_open(a, task, BRINK_ASSIST_LIFT, start))
		return 1;
	w->asid = wait.asid;
	w->miss_reason = BRINK_MISS_PROCESS;
	w->miss_address = slot->record.sample.ip;
	w->miss_slot = 0;
	wait.address = slot->record.sample.ip;
	wait.until_ns = start + SNAP_FOLLOW_JUDGE_NS;
	bpf_copy_from_user(&byte, 1, (const void *)w->miss_address);
	walk_fill_miss(w, &slot->record.sample, &slot->miss, walk_vm_stamp(task));
	walk_assist_call(&slot->miss, BRINK_ASSIST_LIFT, w->miss_address);
	bpf_loop(65536, snap_follow_wait_once, &wait, 0);
	ns = bpf_ktime_get_ns() - start;
	walk_assist_done(BRINK_ASSIST_LIFT, ns, snap_follow_judged(task, wait.asid));
	return 0;
}

/* 64-bit user code, by pt_regs; other modes are other instructions. */
#if defined(__TARGET_ARCH_arm64)
#define SNAP_MODE_OFFSET BRINK_REG_PSTATE
#define SNAP_MODE_MASK 0x1f
#define SNAP_MODE_USER64 0
#else
#define SNAP_MODE_OFFSET BRINK_REG_CS
#define SNAP_MODE_MASK 0xffff
#define SNAP_MODE_USER64 0x33
#endif

static __attribute__((noinline)) int snap_follow_other_mode(__u32 index)
{
	const struct brink_snap_next *from = bpf_map_lookup_elem(&snap_follow_from, &index);
	__u64 mode = 0;

	if (!from)
		return 1;
	if (from->has_regs)
		mode = from->regs[SNAP_MODE_OFFSET / 8];
	else
		bpf_probe_read_kernel(&mode, sizeof(mode), (const char *)bpf_task_pt_regs(bpf_get_current_task_btf()) + SNAP_MODE_OFFSET);
	return (mode & SNAP_MODE_MASK) != SNAP_MODE_USER64;
}

/* In the thread, on its way back to user code. */
static int snap_follow_work(struct bpf_map *map, void *key, void *value)
{
	struct walk_slot *slot = value;
	__u32 index = *(__u32 *)key;

	if (snap_follow_other_mode(index)) {
		slot->record.sample.stop = BRINK_STOP_UNSUPPORTED;
		brink_sample_emit(&slot->record.sample);
		walk_release(slot);
		return 0;
	}
	if (bpf_ktime_get_ns() - slot->record.sample.time_ns <= WALK_LATE_START_NS)
		snap_follow_judge(slot, index);
	if (walk_task_walk(slot, index))
		brink_count(BRINK_CNT_LATE);
	walk_release(slot);
	return 0;
}

/* Where a capture was handed over: asks for the walk. */
WALK_INLINE int snap_follow(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct walk_bucket *bucket = walk_bucket();
	struct brink_snap_next *next, *from = 0;
	struct walk_slot *slot = 0;
	struct brink_sample *s;
	__u32 zero = 0, index;

	next = bpf_map_lookup_elem(&snap_next, &zero);
	if (!next)
		return 0;
	/* A kernel thread has no user code. */
	if (task->mm)
		slot = walk_claim();
	if (slot) {
		index = slot->index;
		from = bpf_map_lookup_elem(&snap_follow_from, &index);
		if (from)
			bpf_probe_read_kernel(from, sizeof(*from), next);
	}
	/* Taken: the next capture of the CPU may come. */
	__sync_lock_test_and_set(&next->busy, 0);
	if (!slot || !from || !bucket) {
		if (task->mm)
			brink_count(BRINK_CNT_RECURSION);
		if (slot)
			walk_release(slot);
		return 0;
	}
	s = &slot->record.sample;
	brink_sample_fill(s, task, 0);
	s->time_ns = from->time_ns;
	s->event = from->trigger;
	s->direction = BRINK_DIR_FUTURE;
	s->source = BRINK_SOURCE_WALK;
	slot->chain_nr = 0;
	slot->tried_ns = 0;
	slot->switches = walk_switches(task);
	if (!walk_bucket_open(bucket, bpf_ktime_get_ns())) {
		s->stop = BRINK_STOP_THROTTLED;
		brink_sample_emit(s);
		goto release;
	}
	walk_under_way(slot, s->time_ns);
	if (!WALK_SCHEDULE(task, &slot->work, &walk_slots, snap_follow_work))
		return 0;
	brink_count(BRINK_CNT_RECURSION);
release:
	walk_release(slot);
	return 0;
}

/* One a type of program: a tail call leads to its like. */
SEC("?kprobe")
int snap_follow_kprobe(void *ctx)
{
	return snap_follow();
}

SEC("?kprobe.multi")
int snap_follow_kmulti(void *ctx)
{
	return snap_follow();
}

/* The attach type of uprobe_multi is set before load. */
SEC("?kprobe")
int snap_follow_umulti(void *ctx)
{
	return snap_follow();
}

SEC("?raw_tp")
int snap_follow_raw(void *ctx)
{
	return snap_follow();
}

SEC("?tp")
int snap_follow_tracepoint(void *ctx)
{
	return snap_follow();
}

SEC("?perf_event")
int snap_follow_perf(void *ctx)
{
	return snap_follow();
}

#endif /* BRINK_SNAP_FOLLOW_H_ */
