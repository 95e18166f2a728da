/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The registers of the emulated LBR: one file of the host, which the QEMU plugin maps and the guest sees as BAR 2 of an
 * ivshmem-plain device. Shared by the plugin, the guest's kernel module and test programs.
 *
 * Page 0 is struct lbr_bar, page 1 + N belongs to virtual CPU N (struct lbr_cpu). All fields are little-endian. The
 * guest changes a page only from its own virtual CPU; the plugin looks at it whenever that CPU enters a translated
 * block, so a store takes effect at the next block and there is nothing to lock.
 */
#ifndef BRINK_TESTS_VM_BAR_H_
#define BRINK_TESTS_VM_BAR_H_

#include <linux/types.h>

#define LBR_BAR_MAGIC 0x31524c6b6e697262ULL /* "brinkLR1" */
#define LBR_BAR_SIZE (1 << 20)
#define LBR_BAR_PAGE 4096
#define LBR_MAX_DEPTH 64
#define LBR_COUNTERS 4
#define LBR_MAX_CPUS 16

/* ivshmem's identity on the PCI bus. */
#define LBR_PCI_VENDOR 0x1af4
#define LBR_PCI_DEVICE 0x1110

/* What a record is; the values are those of perf's branch type, so nothing has to be translated. */
enum lbr_kind {
	LBR_KIND_NONE = 0,
	LBR_KIND_COND = 1,
	LBR_KIND_JUMP = 2,
	LBR_KIND_IND_JUMP = 3,
	LBR_KIND_CALL = 4,
	LBR_KIND_IND_CALL = 5,
	LBR_KIND_RET = 6,
	LBR_KIND_SYSCALL = 7,
	LBR_KIND_SYSRET = 8,
	LBR_KIND_ERET = 11,
	LBR_KIND_IRQ = 12,	/* interrupts, faults, traps, int n */
};

/* lbr_cpu.select: a set bit suppresses, as in LBR_SELECT. Privilege is that of the branch's target. */
#define LBR_NO_KERNEL (1 << 0)
#define LBR_NO_USER (1 << 1)
#define LBR_NO_COND (1 << 2)
#define LBR_NO_CALL (1 << 3)
#define LBR_NO_IND_CALL (1 << 4)
#define LBR_NO_RET (1 << 5)
#define LBR_NO_IND_JUMP (1 << 6)
#define LBR_NO_JUMP (1 << 7)
#define LBR_NO_FAR (1 << 8)
#define LBR_CALL_STACK (1 << 9)	/* returns pop the call that they answer */

struct lbr_record {
	__u64 from;
	__u64 to;
	__u16 cycles;	/* instructions since the record before, at most 65535: the clock of emulation */
	__u8 kind;	/* enum lbr_kind */
	__u8 mispredicted;	/* by a bimodal predictor that the plugin keeps */
	__u32 pad;
};

/* lbr_counter.control */
#define LBR_COUNT_ON (1 << 0)
#define LBR_COUNT_USER (1 << 1)
#define LBR_COUNT_KERNEL (1 << 2)
#define LBR_COUNT_BRANCHES (1 << 8)	/* taken branches; otherwise instructions */

struct lbr_counter {
	__u32 control;
	__u32 overflowed;	/* set by the plugin together with the NMI, cleared by the guest */
	__s64 left;		/* until the overflow */
	__u64 count;
};

/*
 * arm64: the last block of user code before an interrupt. Where its last instruction went is not known until the CPU
 * is back, or by the interrupted program counter, which the kernel has.
 */
struct lbr_pending {
	__u32 kind;		/* enum lbr_kind; NONE: there is none, or it ends in no branch */
	__u32 direct;		/* target is the branch's; else it goes wherever the CPU goes on */
	__u64 from;
	__u64 target;
};

struct lbr_cpu {
	__u32 enable;		/* 1: record */
	__u32 freeze;		/* 1: keep what is there */
	__u32 select;
	__u32 depth;		/* 1..LBR_MAX_DEPTH */
	__u32 freeze_on_nmi;	/* 1: entering the NMI handler freezes, before the entry itself is recorded */
	__u32 in_nmi;		/* set by the plugin at that entry; the guest clears it last and restores freeze */
	__u32 freeze_before_nmi;
	__u32 top;		/* index of the newest record */
	__u32 valid;		/* records since the last reset, at most depth */
	__u32 armed;		/* 0: nobody looks, and the plugin only keeps its place */
	__u32 off;		/* 1: neither record nor count, as between the kernel's pmu_disable and pmu_enable */
	__u32 pad;
	__u64 recorded;		/* while armed, after filtering */
	__u64 taken;		/* while armed: taken branches, before any filter */
	__u64 instructions;
	__u64 unexplained;	/* while armed: control transfers that follow from neither an instruction nor a known vector */
	__u64 unexplained_from;	/* the last of them */
	__u64 unexplained_to;
	struct lbr_pending pending;
	struct lbr_counter counters[LBR_COUNTERS];
	struct lbr_record records[LBR_MAX_DEPTH];
};

struct lbr_bar {
	__u64 magic;		/* written by the plugin when it is ready */
	__u32 version;		/* 1 */
	__u32 cpus;
	__u32 can_interrupt;	/* 1: overflows raise NMIs */
	__u32 vectors_generation;	/* raised by the guest after it filled vectors */
	__u64 vectors[256];	/* entry points of the interrupt descriptor table; arm64: of the vector table, 16; 0 none */
};

#endif
