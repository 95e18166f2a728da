/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a page's mapping permits. Reading live memory tells that a page is there, not that the CPU may store to it or
 * execute it: a program that faults on purpose (a garbage collector's barrier, a jump into data) would be walked on.
 *
 * bpf_find_vma cannot be had twice in an interrupt (docs/walk.md), so the program looks into the maple tree of the
 * address space itself. Ranges that were found stay known, across walks too, as long as the kernel's count of changes
 * to the mappings (mm_lock_seq) is the same. Whatever does not fit ends the walk as a fault.
 *
 * The kernel frees the tree's nodes after a grace period: interrupt mode runs inside RCU, task mode takes the read lock
 * (WALK_RCU_LOCK). What is read of a mapping is believed if it names this address space, because 6.1 frees mappings at
 * once, and later kernels reuse their memory as other mappings.
 */
#ifndef BRINK_WALK_ACCESS_H_
#define BRINK_WALK_ACCESS_H_

#include "walk/env.h"

WALK_INLINE int walk_may_by(const struct brink_walk *w, __u32 i, __u64 address, __u32 access)
{
	const struct brink_walk_vma *v = &w->vma[i & (BRINK_WALK_VMAS - 1)];

	return address - v->start < v->size && (v->access & access);
}

WALK_INLINE int walk_not_permitted(struct brink_walk *w, __u64 address)
{
	w->fault_address = address;
	w->denied = 1;
	return walk_stop(w, BRINK_STOP_FAULT);
}

#ifdef __bpf__

#include "brink_mm.h"
#include <bpf/bpf_core_read.h>

#define WALK_VM_WRITE 0x2ull
#define WALK_VM_EXEC 0x4ull
#define WALK_VM_GROWSDOWN 0x100ull
#ifdef __TARGET_ARCH_arm64
/*
 * Permission keys, memory whose tags are checked, the guarded control stack: a store may be refused although VM_WRITE is
 * set. Bit 37 only says that tags could be switched on, which is so of all anonymous memory. Kernels before permission keys
 * have the two bits about tags where these are now.
 */
#define WALK_VM_SPECIAL (bpf_core_field_exists(struct thread_struct___a64, por_el0) ? 0x57ull << 32 : 1ull << 32)
#else
/* Protection keys and the shadow stack's mark (x86-64): a store may be refused although VM_WRITE is set. */
#define WALK_VM_SPECIAL (0x3full << 32)
#endif
/* enum maple_type; a node's type is in bits 3 to 6 of a pointer to it, and the node is aligned to 256 bytes. */
#define WALK_MAPLE_NODE 0x4	/* set in every pointer to a node */
#define WALK_MAPLE_LEAF 1
#define WALK_MAPLE_RANGE 2
#define WALK_MAPLE_ARANGE 3
#define WALK_MAPLE_LEVELS 6

/* The slot of `address` in the maple node that is in w->node. 0: none. */
WALK_INLINE __u64 walk_maple_slot(const struct brink_walk *w, __u64 address, __u32 arange)
{
	__u32 i, pivots = arange ? 9 : 15, at = pivots;

	for (i = 0; i < 15; i++) {
		__u64 pivot = w->node[1 + i];

		if (i >= pivots)
			break;
		/* A pivot of 0 after the first: this slot is the last one. */
		if (address <= pivot || (i && !pivot)) {
			at = i;
			break;
		}
	}
	at += 1 + pivots;
	WALK_OPAQUE(at);
	return w->node[at & 31];
}

#ifndef WALK_RCU_LOCK
#define WALK_RCU_LOCK() do { } while (0)
#define WALK_RCU_UNLOCK() do { } while (0)
#endif

/* A writer holds the lock of the mappings (RWSEM_WRITER_LOCKED); also where that cannot be seen. */
WALK_INLINE int walk_mapping_writer(__u64 mm)
{
	const struct mm_struct *m = (const void *)mm;

	return !bpf_core_field_exists(m->mmap_lock.count.counter) || (BPF_CORE_READ(m, mmap_lock.count.counter) & 1);
}

/*
 * The kernel's count of changes to the mappings + 1. 0: it does not count them, or a change is under way, so that what is
 * seen now may not be true later under the same count.
 */
WALK_INLINE __u64 walk_mapping_seq(__u64 mm)
{
	const struct mm_struct___seqcount *counted = (const void *)mm;
	const struct mm_struct___int *plain = (const void *)mm;
	__u64 seq;

	if (bpf_core_field_exists(counted->mm_lock_seq.sequence)) {
		seq = BPF_CORE_READ(counted, mm_lock_seq.sequence);
		return seq & 1 ? 0 : 1 + seq;
	}
	if (bpf_core_field_exists(plain->mm_lock_seq)) {
		seq = (__u32)BPF_CORE_READ(plain, mm_lock_seq);
		return walk_mapping_writer(mm) ? 0 : 1 + seq;
	}
	return 0;
}

WALK_INLINE int walk_read_mapping(struct brink_walk *w, __u64 address)
{
	__u64 entry = 0, flags = 0, start = 0, end = 0, mm = 0, file = 0;
	struct brink_walk_vma *v;
	__u32 level;

	if (bpf_probe_read_kernel(&entry, sizeof(entry), (const void *)(w->mm + bpf_core_field_offset(struct mm_struct, mm_mt.ma_root))))
		return 1;
	for (level = 0; level < WALK_MAPLE_LEVELS; level++) {
		__u32 type = entry >> 3 & 15;

		if (!(entry & WALK_MAPLE_NODE) || type < WALK_MAPLE_LEAF || type > WALK_MAPLE_ARANGE)
			return 1;
		if (bpf_probe_read_kernel(w->node, sizeof(w->node), (const void *)(entry & ~255ull)))
			return 1;
		entry = walk_maple_slot(w, address, type == WALK_MAPLE_ARANGE);
		if (type == WALK_MAPLE_LEAF)
			break;
	}
	if (!entry || (entry & 7))
		return 1;
	if (bpf_probe_read_kernel(&start, sizeof(start), (const void *)(entry + bpf_core_field_offset(struct vm_area_struct, vm_start))) ||
	    bpf_probe_read_kernel(&end, sizeof(end), (const void *)(entry + bpf_core_field_offset(struct vm_area_struct, vm_end))) ||
	    bpf_probe_read_kernel(&flags, sizeof(flags), (const void *)(entry + bpf_core_field_offset(struct vm_area_struct, vm_flags))) ||
	    bpf_probe_read_kernel(&mm, sizeof(mm), (const void *)(entry + bpf_core_field_offset(struct vm_area_struct, vm_mm))) ||
	    bpf_probe_read_kernel(&file, sizeof(file), (const void *)(entry + bpf_core_field_offset(struct vm_area_struct, vm_file))))
		return 1;
	if (address < start || address >= end || mm != w->mm)
		return 1;
	/* A change came in between. */
	if (w->vma_seq && walk_mapping_seq(w->mm) != w->vma_seq)
		return 1;
	v = &w->vma[w->vma_next++ & (BRINK_WALK_VMAS - 1)];
	v->start = start;
	v->size = end - start;
	v->access = (flags & WALK_VM_EXEC ? BRINK_ACCESS_EXEC : 0) |
		    ((flags & (WALK_VM_WRITE | WALK_VM_SPECIAL)) == WALK_VM_WRITE ? BRINK_ACCESS_WRITE : 0) |
		    (flags & WALK_VM_GROWSDOWN ? BRINK_ACCESS_GROWS : 0) | (file ? BRINK_ACCESS_FILE : 0);
	return 0;
}

/* Looks the mapping of `address` up; it is the newest of w->vma then. 0, or 1: there is none. */
WALK_GLOBAL int walk_find_mapping(struct brink_walk *w, __u64 address)
{
	int missing;

	if (!w)
		return 1;
	WALK_RCU_LOCK();
	missing = walk_read_mapping(w, address);
	WALK_RCU_UNLOCK();
	return missing;
}

/* Takes the address space of the current thread; forgets ranges that may not be true any more. */
WALK_INLINE void walk_take_mappings(struct brink_walk *w, const struct mm_struct *mm, __u64 born_ns)
{
	__u64 seq = walk_mapping_seq((__u64)mm);
	__u32 i;

	w->mm = (__u64)mm;
	if (seq && w->vma_seq == seq && w->vma_asid == w->asid && w->vma_born_ns == born_ns)
		return;
	for (i = 0; i < BRINK_WALK_VMAS; i++)
		w->vma[i].size = 0;
	w->vma_seq = seq;
	w->vma_asid = w->asid;
	w->vma_born_ns = born_ns;
}

#else

static inline int walk_find_mapping(struct brink_walk *w, __u64 address)
{
	struct brink_walk_vma *v = &w->vma[w->vma_next++ & (BRINK_WALK_VMAS - 1)];

	v->start = address & ~(__u64)(BRINK_WALK_LINE_SIZE - 1);
	v->size = BRINK_WALK_LINE_SIZE;
	v->access = walk_host->access(walk_host->opaque, address);
	return 0;
}

#endif

/* Slow half of walk_may. */
WALK_GLOBAL int walk_may_other(struct brink_walk *w, __u64 address, __u32 access)
{
	__u32 i;

	if (!w)
		return 1;
	/* A test run, or a caller who answers for it himself. */
	if (!w->mm)
		return 0;
	for (i = 0; i < BRINK_WALK_VMAS; i++) {
		if (walk_may_by(w, i, address, access))
			break;
	}
	if (i == BRINK_WALK_VMAS) {
		if (walk_find_mapping(w, address))
			return walk_not_permitted(w, address);
		i = (w->vma_next - 1) & (BRINK_WALK_VMAS - 1);
		if (!walk_may_by(w, i, address, access))
			return walk_not_permitted(w, address);
	}
	w->vma_last[access & 1] = i;
	return 0;
}

/* 0: the mapping of `address` has `access` (BRINK_ACCESS_*). 1: it has not, or nobody knows; w->stop is set. */
WALK_INLINE int walk_may(struct brink_walk *w, __u64 address, __u32 access)
{
	if (walk_likely(walk_may_by(w, w->vma_last[access & 1], address, access)))
		return 0;
	return walk_may_other(w, address, access);
}

#endif /* BRINK_WALK_ACCESS_H_ */
