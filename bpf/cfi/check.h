/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One check: the walk ahead from where the thread will go on, judged on the spot, acted on where that was asked for, and
 * sent to user space unless the same window was sent before.
 *
 * At the entry of a system call the result is not known yet: the walk goes on as if it succeeded (a number of 0 to
 * 0x7fff; an address of user space where the call gives one), or, for calls that return on failure only, as if it
 * failed. What then depends on more ends the walk. At the exit everything is known.
 *
 * With branch hardware (BRINK_CFI_CFG_SNAPSHOT) the window at an entry is what the hardware has recorded of the thread's
 * way there; at an exit it is still the walk, which sees what the call has brought before it is used.
 */
#ifndef BRINK_BPF_CFI_CHECK_H_
#define BRINK_BPF_CFI_CHECK_H_

#include "cfi/act.h"
#include "cfi/judge.h"
#include "cfi/turn.h"
#include "lib/snapshot.h"

#define CFI_NO_FILE 0xfffffffffffffffeull	/* -ENOENT */

struct task_struct___cfi {
	unsigned long sas_ss_sp;
	unsigned long sas_ss_size;
} __attribute__((preserve_access_index));

/* P10: what the stack pointer points into. */
brink_always_inline void cfi_stack_place(struct cfi_slot *slot, struct brink_walk *w, struct task_struct *task)
{
	const struct task_struct___cfi *alt = (const void *)task;
	__u64 sp = slot->cfi.regs[CFI_REG_SP], start, size;
	const struct brink_walk_vma *v = 0;
	__u32 i, access;

	if (!w->mm)
		return;
	for (i = 0; i < BRINK_WALK_VMAS; i++) {
		if (sp - w->vma[i].start < w->vma[i].size)
			break;
	}
	if (i == BRINK_WALK_VMAS) {
		if (walk_find_mapping(w, sp))
			return;
		i = w->vma_next - 1;
	}
	v = &w->vma[i & (BRINK_WALK_VMAS - 1)];
	access = v->access;
	slot->cfi.sp_start = v->start;
	slot->cfi.sp_end = v->start + v->size;
	slot->cfi.sp_kind = BRINK_CFI_SP_KNOWN;
	if (access & BRINK_ACCESS_GROWS)
		slot->cfi.sp_kind |= BRINK_CFI_SP_GROWS;
	if (access & BRINK_ACCESS_FILE)
		slot->cfi.sp_kind |= BRINK_CFI_SP_FILE;
	start = BPF_CORE_READ(task, mm, start_brk);
	size = BPF_CORE_READ(task, mm, brk) - start;
	if (sp - start < size)
		slot->cfi.sp_kind |= BRINK_CFI_SP_HEAP;
	start = BPF_CORE_READ(alt, sas_ss_sp);
	size = BPF_CORE_READ(alt, sas_ss_size);
	if (sp - start < size)
		slot->cfi.sp_kind |= BRINK_CFI_SP_ALT;
	if ((slot->cfi.sp_kind & (BRINK_CFI_SP_FILE | BRINK_CFI_SP_HEAP)) && !(slot->cfi.sp_kind & BRINK_CFI_SP_ALT))
		slot->cfi.verdict |= BRINK_CFI_P10;
}

/* P8: the last branch went where code may not be executed, unless it is what this very call makes code. */
brink_always_inline void cfi_end_place(struct cfi_slot *slot, const struct brink_walk *w)
{
	const struct brink_cfi *cfi = &slot->cfi;

	if (w->stop != BRINK_STOP_FAULT)
		return;
	slot->cfi.fault_address = w->fault_address;
	if (!w->denied || !slot->sample.nr || (w->reg[BRINK_WREG_IP].val ^ w->fault_address) > BRINK_WALK_CODE_LINE - 1)
		return;
	if (cfi->point != BRINK_CFI_EXIT && (cfi->args[2] & 4) && w->reg[BRINK_WREG_IP].val - cfi->args[0] < cfi->args[1]) {
		slot->cfi.sp_kind |= BRINK_CFI_TO_MADE;
		return;
	}
	slot->cfi.verdict |= BRINK_CFI_P8;
}

/*
 * Head, context and registers. 0: not a thread that can be checked. A function of its own, so that what it keeps on the stack
 * is not there while the walk needs it: kernels before 6.13 have 512 bytes for all frames.
 */
static __attribute__((noinline)) int cfi_fill(struct cfi_slot *slot, struct task_struct *task, __u32 point, __u32 nr, __u64 ret)
{
	struct brink_cfi *cfi = &slot->cfi;

	if (bpf_probe_read_kernel(cfi->regs, sizeof(cfi->regs), (const void *)bpf_task_pt_regs(task)))
		return 0;
	brink_sample_fill(&slot->sample, task, cfi->regs[CFI_REG_IP]);
	slot->sample.direction = BRINK_DIR_FUTURE;
	cfi->magic = BRINK_CFI_MAGIC;
	cfi->point = point;
	cfi->verdict = 0;
	cfi->action = 0;
	cfi->sp_kind = 0;
	cfi->syscall = nr;
	cfi->index = 0;
	cfi->ret = ret;
	cfi_take_args(cfi);
	cfi->sp_start = cfi->sp_end = 0;
	cfi->fault_address = 0;
	cfi->uid = (__u32)bpf_get_current_uid_gid();
	cfi->signal = cfi->signal_code = 0;
	cfi->judge_ns = 0;
	bpf_get_current_comm(cfi->comm, sizeof(cfi->comm));
	slot->unsure = 0;
	cfi->code_len = 0;
	cfi->stack_words = 0;
	if (!bpf_probe_read_user(cfi->stack, sizeof(cfi->stack), (const void *)cfi->regs[CFI_REG_SP]))
		cfi->stack_words = BRINK_CFI_STACK;
	if (cfi_is_compat(cfi->regs)) {
		cfi_count_add(BRINK_CFI_CNT_COMPAT, 1);
		return 0;
	}
	return 1;
}

brink_always_inline void cfi_send(struct cfi_slot *slot)
{
	__u64 at = (__u64)slot->sample.nr * sizeof(struct brink_branch), bytes;

	brink_barrier_var(at);
	if (at > BRINK_CFI_DEPTH * sizeof(struct brink_branch))
		return;
	if (bpf_probe_read_kernel(&slot->room[at], sizeof(slot->cfi), &slot->cfi))
		return;
	bytes = sizeof(slot->sample) + at + sizeof(slot->cfi);
	slot->sample.header.size = bytes;
	brink_barrier_var(bytes);
	if (bytes > sizeof(slot->sample) + sizeof(slot->room))
		return;
	if (brink_ring_send(&slot->sample, bytes))
		return;
	brink_count(BRINK_CNT_EMITTED);
	brink_count_add(BRINK_CNT_EMITTED_BYTES, bytes);
	cfi_count_add(BRINK_CFI_CNT_SENT, 1);
	cfi_count_add(BRINK_CFI_CNT_EDGES, slot->sample.nr);
}

/* Judges and sends what is in the slot; `begin`: when judging began. Whether the operation is to be refused. */
brink_always_inline int cfi_conclude(struct cfi_slot *slot, __u64 seed, __u64 begin)
{
	int refuse = 0;
	__u32 *seen, one = 1;

	cfi_judge(slot, seed);
	slot->cfi.judge_ns = bpf_ktime_get_ns() - begin;
	if (slot->sample.nr >= BRINK_CFI_JUDGED) {
		__u32 bucket = slot->cfi.judge_ns / BRINK_CFI_JUDGE_NS;

		cfi_count_add(BRINK_CFI_CNT_JUDGE + (bucket < BRINK_CFI_JUDGE_TIMES ? bucket : BRINK_CFI_JUDGE_TIMES - 1), 1);
	}
	/* A strange stack alone is nothing to act on: coroutines live there. */
	if (slot->cfi.verdict & ~BRINK_CFI_P10) {
		cfi_count_add(BRINK_CFI_CNT_SUSPECT, 1);
		refuse = cfi_act(slot);
	} else if (!slot->sample.nr && slot->cfi.point != BRINK_CFI_SIGNAL) {
		cfi_count_add(BRINK_CFI_CNT_EMPTY, 1);
		return 0;
	}
	slot->name ^= slot->cfi.verdict;
	seen = bpf_map_lookup_elem(&cfi_seen, &slot->name);
	if (seen && !slot->cfi.action && !(cfi_config.flags & BRINK_CFI_CFG_REPEATS)) {
		cfi_count_add(BRINK_CFI_CNT_REPEATED, 1);
		cfi_count_add(BRINK_CFI_CNT_REPEATED_EDGES, slot->sample.nr);
		return refuse;
	}
	if (!seen)
		bpf_map_update_elem(&cfi_seen, &slot->name, &one, BPF_ANY);
	cfi_send(slot);
	return refuse;
}

/*
 * The last branches of user code, newest first. The filter of the held event is user space's: the way here burns none. As
 * cfi_fill, a function of its own.
 */
static __attribute__((noinline)) int cfi_take_past(struct cfi_slot *slot, __u32 how)
{
	__u32 seq = 0;
	struct brink_snapshot_slot *taken = brink_snapshot_take(&seq);
	long nr;

	if (slot->cfi.point == BRINK_CFI_SWITCH)
		brink_snapshot_leaving(seq);
	nr = brink_snapshot_settle(seq);
	if (nr >= 0)
		nr = brink_snapshot_copy(taken, seq, (struct brink_branch *)slot->room, BRINK_MAX_HW_BRANCHES);
	cfi_know_beginning(slot);
	slot->sample.direction = BRINK_DIR_PAST;
	slot->sample.end_ip = slot->cfi.regs[CFI_REG_IP];
	if (nr >= 0 && nr <= BRINK_CFI_SHORT && (how & BRINK_CFI_FIRST))
		cfi_count_add(BRINK_CFI_CNT_SHORT_PAST, 1);
	if (nr <= 0) {
		cfi_count_add(BRINK_CFI_CNT_NO_PAST, 1);
		return 0;
	}
	slot->sample.nr = nr > BRINK_MAX_HW_BRANCHES ? BRINK_MAX_HW_BRANCHES : nr;
	return 0;
}

/* The registers with which the thread will go on. */
brink_always_inline void cfi_take_regs(struct brink_walk *w, struct cfi_slot *slot, __u32 how)
{
	__u32 point = slot->cfi.point;

	walk_take_regs(w, slot->cfi.regs);
	walk_regs_known(w);
	if (point != BRINK_CFI_ENTER && point != BRINK_CFI_LSM)
		return;
	if (how & BRINK_CFI_FAILS) {
		w->reg[0].val = CFI_NO_FILE;
	} else {
		w->reg[0].val = 0;
		w->reg[0].unk = how & BRINK_CFI_POINTER ? 0x7ffffffff000ull : 0x7fff;
	}
}

brink_always_inline void cfi_count_walk(const struct cfi_slot *slot, const struct brink_walk *w, __u64 ns)
{
	__u32 bits = 0;

	cfi_count_add(BRINK_CFI_CNT_STOPS + (w->stop & 31), 1);
	cfi_count_add(BRINK_CFI_CNT_NS, ns);
	if (w->stop != BRINK_STOP_FULL && w->stop != BRINK_STOP_SYSCALL)
		return;
	bits = ns >> 16 ? 16 : 0;
	bits += ns >> (bits + 8) ? 8 : 0;
	bits += ns >> (bits + 4) ? 4 : 0;
	bits += ns >> (bits + 2) ? 2 : 0;
	bits += ns >> (bits + 1) ? 1 : 0;
	cfi_count_add(BRINK_CFI_CNT_TIMES + (bits & 31), 1);
}

/*
 * Where many processes are watched: one that has only just begun, and of which nothing is known. Most such are over before it
 * could be, and reading their mappings holds up the mapping of their libraries. Asked again when it is older.
 */
#define CFI_YOUNG_NS 5000000ull
static __attribute__((noinline)) int cfi_too_young(struct task_struct *task)
{
	__u64 asid;

	if (!(cfi_config.flags & BRINK_CFI_CFG_PATIENT) || bpf_ktime_get_boot_ns() - brink_leader_start(task) >= CFI_YOUNG_NS)
		return 0;
	asid = walk_asid(task);
	return !bpf_map_lookup_elem(&walk_procs, &asid);
}

/*
 * Walks ahead and judges. 1: refuse the operation (security hooks). A function of its own that the verifier sees once for
 * all programs.
 */
__attribute__((noinline)) int cfi_check(__u32 point, __u32 nr, __u32 how, __u64 ret)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct brink_walk *w = bpf_map_lookup_elem(&walk_state, &cpu);
	struct brink_walk_out *out = bpf_map_lookup_elem(&walk_out, &cpu);
	struct walk_bucket *bucket = walk_bucket();
	__u64 now = bpf_ktime_get_ns(), judging, ns;
	struct cfi_slot *slot;
	__u32 past = (cfi_config.flags & BRINK_CFI_CFG_SNAPSHOT) && point != BRINK_CFI_EXIT;
	int refuse = 0;

	if (!w || !out || !bucket)
		return 0;
	cfi_count_add(BRINK_CFI_CNT_CHECKS, 1);
	if (!past && cfi_too_young(task)) {
		cfi_count_add(BRINK_CFI_CNT_STOPS + BRINK_STOP_MISS, 1);
		cfi_count_add(BRINK_CFI_CNT_MISSES + BRINK_MISS_PROCESS, 1);
		cfi_count_add(BRINK_CFI_CNT_EMPTY, 1);
		return 0;
	}
	if (!walk_bucket_open(bucket, now) && !(how & BRINK_CFI_FIRST)) {
		cfi_count_add(BRINK_CFI_CNT_THROTTLED, 1);
		cfi_turn_pay(CFI_TURN_CLOSED_NS);
		return 0;
	}
	slot = cfi_slot_claim();
	if (!slot)
		return 0;
	if (!cfi_fill(slot, task, point, nr, ret))
		goto out;
	slot->unsure = (how & BRINK_CFI_WRITES) && point == BRINK_CFI_ENTER && !past;
	walk_prepare(w, now);
	cfi_take_regs(w, slot, how);
	w->asid = walk_asid(task);
	if (!w->asid)
		goto out;
	if (past) {
		walk_take_mappings(w, task->mm, slot->sample.task_start_ns);
		cfi_stack_place(slot, w, task);
		cfi_take_past(slot, how);
	} else {
		if (!walk_take_process(w, task)) {
			walk_take_mappings(w, task->mm, slot->sample.task_start_ns);
			walk_run(w, out);
			cfi_stack_place(slot, w, task);
		}
		walk_give(w, out, &slot->sample, (struct brink_branch *)slot->room, BRINK_CFI_DEPTH);
	}
	if (w->stop == BRINK_STOP_MISS || w->stop == BRINK_STOP_CODE_CHANGED) {
		cfi_count_add(BRINK_CFI_CNT_MISSES + (w->miss_reason & 7), 1);
		if (!bpf_probe_read_user(slot->cfi.code, sizeof(slot->cfi.code), (const void *)slot->sample.end_ip))
			slot->cfi.code_len = sizeof(slot->cfi.code);
		walk_send_miss(w, &slot->sample, &slot->miss, walk_vm_stamp(task));
	}
	judging = bpf_ktime_get_ns();
	slot->sample.walk_ns = judging - now;
	if (!past)
		cfi_end_place(slot, w);
	refuse = cfi_conclude(slot, w->asid ^ (__u64)point << 56 ^ (__u64)nr << 40, judging);
	ns = bpf_ktime_get_ns() - now;
	walk_bucket_pay(ns);
	cfi_turn_pay(ns);
	cfi_count_walk(slot, w, ns);
out:
	cfi_slot_release(slot);
	return refuse & 1;
}

brink_always_inline int cfi_wants(struct task_struct *task)
{
	if (!brink_target_has_current(task))
		return 0;
	return !(cfi_config.flags & BRINK_CFI_CFG_UID) || (__u32)bpf_get_current_uid_gid() == cfi_config.uid;
}

#endif /* BRINK_BPF_CFI_CHECK_H_ */
