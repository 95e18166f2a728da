/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * State of one walk, as BPF, the host build of the core and the tests see it. Written by the walker only; a test run
 * hands a whole state in and takes it back.
 */
#ifndef BRINK_ABI_WALK_STATE_H_
#define BRINK_ABI_WALK_STATE_H_

#include "brink/abi/walk.h"

#define BRINK_WALK_LINES 1024		/* memory lines of one walk */
#define BRINK_WALK_LINE_SIZE 64
#define BRINK_WALK_RET_STACK 16		/* remembered returns; a deeper one is translated again */
#define BRINK_WALK_VALID 64		/* remembered validated code lines */
#define BRINK_WALK_XLAT_CACHE 16	/* remembered page translations */

/* Bits set in `unk` are unknown; the same bits of `val` are 0. */
struct brink_walk_reg {
	__u64 val;
	__u64 unk;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_reg) == 16);
BRINK_ABI_FIELD(struct brink_walk_reg, val, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_reg, unk, 8, 8);

/* One line of memory: cache and store buffer. A bit of `known` and `dirty` stands for one byte. */
struct brink_walk_line {
	__u64 tag;	/* address | generation (BRINK_WALK_TAG_GEN) */
	__u64 known;
	__u64 dirty;
	__u8 data[BRINK_WALK_LINE_SIZE];
	__u8 pad[8];	/* eight bytes are read at any offset */
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_line) == 96);
BRINK_ABI_FIELD(struct brink_walk_line, tag, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_line, known, 8, 8);
BRINK_ABI_FIELD(struct brink_walk_line, dirty, 16, 8);
BRINK_ABI_FIELD(struct brink_walk_line, data, 24, 64);

/* The generation of a walk lies in the low 6 bits of a tag, which a line address leaves free. */
#define BRINK_WALK_TAG_GEN 63
/* In brink_walk.where the number of the line lies above the tag. */
#define BRINK_WALK_TAG_BITS 48

/* Vector register: a bit of `known` stands for one byte of data. */
struct brink_walk_vreg {
	__u8 data[64];
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_vreg) == 64);

struct brink_walk_ret {
	__u64 address;
	__u32 link;
	__u32 reserved;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_ret) == 16);
BRINK_ABI_FIELD(struct brink_walk_ret, address, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_ret, link, 8, 4);

struct brink_walk_valid {
	__u64 address;	/* line address | generation */
	__u32 block;	/* entered last */
	__u32 first;	/* first block of the line */
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_valid) == 16);
BRINK_ABI_FIELD(struct brink_walk_valid, address, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_valid, block, 8, 4);
BRINK_ABI_FIELD(struct brink_walk_valid, first, 12, 4);

struct brink_walk_tlb {
	__u64 vpage;
	__u32 slot;
	__u32 gen;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_tlb) == 16);
BRINK_ABI_FIELD(struct brink_walk_tlb, vpage, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_tlb, slot, 8, 4);
BRINK_ABI_FIELD(struct brink_walk_tlb, gen, 12, 4);

/* A mapping that was looked up (bpf/walk/access.h). */
#define BRINK_WALK_VMAS 8
#define BRINK_ACCESS_WRITE 1
#define BRINK_ACCESS_EXEC 2
#define BRINK_ACCESS_FILE 4	/* of a file; the walker does not ask */
#define BRINK_ACCESS_GROWS 8	/* the main thread's stack; the walker does not ask */
struct brink_walk_vma {
	__u64 start;
	__u64 size;	/* 0 = none */
	__u32 access;	/* BRINK_ACCESS_* */
	__u32 reserved;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_vma) == 24);
BRINK_ABI_FIELD(struct brink_walk_vma, start, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_vma, size, 8, 8);
BRINK_ABI_FIELD(struct brink_walk_vma, access, 16, 4);

/* State of one walk; a slot of an array, by CPU in interrupt mode and by free list in task mode. */
struct brink_walk {
	struct brink_walk_reg reg[BRINK_WREG_COUNT];
	/*
	 * Flags. Lazy form (flags_known == BRINK_WALK_FLAGS_LAZY): result and carries of the last operation, shifted up
	 * so that the operand's top bit is bit 63; flag_sh is that shift. Explicit form: `flags` in the machine's layout,
	 * `flags_known` the bits that are known. The direction flag is always in `flags`.
	 */
	__u64 flag_res;
	__u64 flag_carry;
	__u32 flags;
	__u32 flags_known;
	__u32 flag_sh;
	__u32 stop;		/* enum brink_stop; 0 while walking */
	__u32 pc;		/* link of the micro-op to execute; 0 = translate reg[IP] */
	__u32 block;		/* whose code was validated last */
	__u32 steps;
	__u32 max_steps;
	__u32 nr;		/* branches recorded: out[depth - nr .. depth - 1], newest first */
	__u32 depth;
	__u32 kind_mask;
	__u32 gen;		/* of tags, 1..63 */
	__u32 ret_top;
	__u32 next_clock;	/* step at which the clock is read */
	__u32 miss_reason;	/* enum brink_miss_reason when stop is MISS or CODE_CHANGED */
	__u32 miss_slot;
	__u64 miss_address;
	__u64 fault_address;	/* FAULT, DEVICE_MEMORY, STORE_FULL: the data or code address */
	__u64 asid;
	__u64 start_ns;
	__u64 deadline_ns;	/* 0 = none */
	__u32 faults;		/* task mode: times that memory was brought in for this walk */
	__u32 vectors;		/* 1: the walk began with known vector registers */
	__u32 assists;		/* task mode: times that it waited for code */
	__u32 reserved32;
	__u32 fills;		/* lines read from memory */
	__u32 validated;	/* code lines compared */
	__u64 ea;		/* address of the memory operand of the instruction being executed */
	__u32 ml;		/* its line, BRINK_WALK_LINES = crosses or not resolved */
	__u32 strays;		/* some memory lines lie in the other set than their own */
	__u64 code_pages;	/* filter of the pages whose code was validated: bit = page number & 63 */
	__u32 nr_lines;		/* of `mem`, taken by this walk */
	__u32 reserved;
	struct brink_walk_proc proc;
	__u64 vknown[32];
	struct brink_walk_vreg vreg[32];
	struct brink_walk_vreg vtmp;
	__u64 vtmp_known;
	struct brink_walk_ret ret[BRINK_WALK_RET_STACK];
	struct brink_walk_valid valid[BRINK_WALK_VALID];
	struct brink_walk_tlb tlb[BRINK_WALK_XLAT_CACHE];
	__u8 scratch[128];
	/* Where lines are: sets of two ways. `mem` is filled from the front, so that short walks stay in few cache lines. */
	__u64 where[BRINK_WALK_LINES];
	struct brink_walk_line mem[BRINK_WALK_LINES];
	__u64 mm;		/* address of the kernel's mm_struct; 0: every access that can be read is permitted */
	__u64 vma_seq;		/* what `vma` is true for: changes of mappings counted by the kernel, address space, its age */
	__u64 vma_asid;
	__u64 vma_born_ns;
	__u32 vma_next;
	__u32 vma_last[2];	/* used last for a store [1], for code [0] */
	__u32 denied;		/* with FAULT: the mapping does not permit it, so bringing the page in does not help */
	struct brink_walk_vma vma[BRINK_WALK_VMAS];
	__u64 node[32];		/* scratch: a node of the kernel's maple tree */
};
#define BRINK_WALK_FLAGS_LAZY 0xffffffffu

BRINK_ABI_FIELD(struct brink_walk, reg, 0, 1024);
BRINK_ABI_FIELD(struct brink_walk, flag_res, 1024, 8);
BRINK_ABI_FIELD(struct brink_walk, flag_carry, 1032, 8);
BRINK_ABI_FIELD(struct brink_walk, flags, 1040, 4);
BRINK_ABI_FIELD(struct brink_walk, flags_known, 1044, 4);
BRINK_ABI_FIELD(struct brink_walk, flag_sh, 1048, 4);
BRINK_ABI_FIELD(struct brink_walk, stop, 1052, 4);
BRINK_ABI_FIELD(struct brink_walk, pc, 1056, 4);
BRINK_ABI_FIELD(struct brink_walk, block, 1060, 4);
BRINK_ABI_FIELD(struct brink_walk, steps, 1064, 4);
BRINK_ABI_FIELD(struct brink_walk, max_steps, 1068, 4);
BRINK_ABI_FIELD(struct brink_walk, nr, 1072, 4);
BRINK_ABI_FIELD(struct brink_walk, depth, 1076, 4);
BRINK_ABI_FIELD(struct brink_walk, kind_mask, 1080, 4);
BRINK_ABI_FIELD(struct brink_walk, gen, 1084, 4);
BRINK_ABI_FIELD(struct brink_walk, ret_top, 1088, 4);
BRINK_ABI_FIELD(struct brink_walk, next_clock, 1092, 4);
BRINK_ABI_FIELD(struct brink_walk, miss_reason, 1096, 4);
BRINK_ABI_FIELD(struct brink_walk, miss_slot, 1100, 4);
BRINK_ABI_FIELD(struct brink_walk, miss_address, 1104, 8);
BRINK_ABI_FIELD(struct brink_walk, fault_address, 1112, 8);
BRINK_ABI_FIELD(struct brink_walk, asid, 1120, 8);
BRINK_ABI_FIELD(struct brink_walk, start_ns, 1128, 8);
BRINK_ABI_FIELD(struct brink_walk, deadline_ns, 1136, 8);
BRINK_ABI_FIELD(struct brink_walk, faults, 1144, 4);
BRINK_ABI_FIELD(struct brink_walk, vectors, 1148, 4);
BRINK_ABI_FIELD(struct brink_walk, assists, 1152, 4);
BRINK_ABI_FIELD(struct brink_walk, fills, 1160, 4);
BRINK_ABI_FIELD(struct brink_walk, validated, 1164, 4);
BRINK_ABI_FIELD(struct brink_walk, ea, 1168, 8);
BRINK_ABI_FIELD(struct brink_walk, ml, 1176, 4);
BRINK_ABI_FIELD(struct brink_walk, strays, 1180, 4);
BRINK_ABI_FIELD(struct brink_walk, code_pages, 1184, 8);
BRINK_ABI_FIELD(struct brink_walk, nr_lines, 1192, 4);
BRINK_ABI_FIELD(struct brink_walk, proc, 1200, 208);
BRINK_ABI_FIELD(struct brink_walk, vknown, 1408, 256);
BRINK_ABI_FIELD(struct brink_walk, vreg, 1664, 2048);
BRINK_ABI_FIELD(struct brink_walk, vtmp, 3712, 64);
BRINK_ABI_FIELD(struct brink_walk, vtmp_known, 3776, 8);
BRINK_ABI_FIELD(struct brink_walk, ret, 3784, 256);
BRINK_ABI_FIELD(struct brink_walk, valid, 4040, 1024);
BRINK_ABI_FIELD(struct brink_walk, tlb, 5064, 256);
BRINK_ABI_FIELD(struct brink_walk, scratch, 5320, 128);
BRINK_ABI_FIELD(struct brink_walk, where, 5448, 8192);
BRINK_ABI_FIELD(struct brink_walk, mem, 13640, 98304);
BRINK_ABI_FIELD(struct brink_walk, mm, 111944, 8);
BRINK_ABI_FIELD(struct brink_walk, vma_seq, 111952, 8);
BRINK_ABI_FIELD(struct brink_walk, vma_next, 111976, 4);
BRINK_ABI_FIELD(struct brink_walk, vma_last, 111980, 8);
BRINK_ABI_FIELD(struct brink_walk, denied, 111988, 4);
BRINK_ABI_FIELD(struct brink_walk, vma, 111992, 192);
BRINK_ABI_FIELD(struct brink_walk, node, 112184, 256);
BRINK_ABI_ASSERT(sizeof(struct brink_walk) == 112440);

/* Branches of one walk, filled from the end: out[depth - nr] is the newest. */
struct brink_walk_out {
	struct brink_branch branch[BRINK_MAX_WALK_BRANCHES];
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_out) == 49152);

#endif /* BRINK_ABI_WALK_STATE_H_ */
