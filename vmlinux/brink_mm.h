/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The fields of address spaces and threads that the walker reads (CO-RE). */
#ifndef BRINK_VMLINUX_MM_H_
#define BRINK_VMLINUX_MM_H_

#include "brink_task.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct file;

struct maple_tree {
	void *ma_root;
};

/* Not on PREEMPT_RT, which has no count there. */
struct rw_semaphore {
	struct {
		long counter;
	} count;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long start_code;
	unsigned long start_stack;
	unsigned long start_brk;
	unsigned long brk;
	unsigned long total_vm;
	unsigned long data_vm;
	unsigned long exec_vm;
	unsigned long stack_vm;
	struct maple_tree mm_mt;
	struct rw_semaphore mmap_lock;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	struct mm_struct *vm_mm;
	struct file *vm_file;
};

/* The count of changes to the mappings: an int up to 6.13, a seqcount after (odd while a change is under way). */
struct mm_struct___int {
	int mm_lock_seq;
};

struct seqcount {
	unsigned int sequence;
};

struct mm_struct___seqcount {
	struct seqcount mm_lock_seq;
};

/* x86-64 */
struct thread_struct {
	unsigned long fsbase;
	unsigned long gsbase;
};

/* A second view of the same structure, so that brink_task.h need not know it. */
struct task_struct___thread {
	struct thread_struct thread;
};

/* A64: the thread's TPIDR_EL0, as of its last switch; its rights by permission keys (6.12). */
struct thread_struct___a64 {
	struct {
		unsigned long tp_value;
	} uw;
	__u64 por_el0;
};
struct task_struct___a64 {
	struct thread_struct___a64 thread;
};

/* The restartable-sequence area: in the task itself, or in a structure of its own (6.19). */
struct task_struct___rseq {
	void *rseq;
	__u32 rseq_len;
};
struct rseq_data___user {
	void *usrptr;
	__u32 len;
};
struct task_struct___rseq_data {
	struct rseq_data___user rseq;
};

/* How often the thread was switched out, and its priority (below 100: real time). */
struct task_struct___switches {
	unsigned long nvcsw;
	unsigned long nivcsw;
	int prio;
};

/* The saved vector registers of a thread (x86-64): struct fpu lies right behind task_struct from 6.16 on. */
union fpregs_state {
	__u8 __padding[4096];
};

struct fpstate {
	union fpregs_state regs;
};

struct fpu {
	struct fpstate *fpstate;
};

#pragma clang attribute pop

#endif /* BRINK_VMLINUX_MM_H_ */
