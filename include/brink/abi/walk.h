/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the walker (bpf/walk, compiled for BPF and for the host) and user space (src/walk) share: micro-ops, the code
 * cache, the translation tables, the walker's state and the miss record. docs/walk.md explains the whole.
 *
 * Contract of the walker: exact or shortened, never wrong.
 *
 * Threads: user space is the only writer of the code cache. It writes micro-ops first and publishes them by one 32-bit
 * release store of a link or an index (brink_uop.link, brink_uop_more.next, brink_walk_block_ways, brink_walk_page.line) or by
 * a hash update. A slot is reused only after every edge and entry to it is gone and a grace period has passed. The walker writes nothing but its
 * own state and the mark that a page is in use.
 */
#ifndef BRINK_ABI_WALK_H_
#define BRINK_ABI_WALK_H_

#include "brink/abi/event.h"

/* --- limits ------------------------------------------------------------------------------------------------------ */

#define BRINK_WALK_PAGE_SIZE 4096
#define BRINK_WALK_CODE_LINE 64		/* unit of code validation */
#define BRINK_WALK_TAIL 64		/* bytes of the following page kept with a page: an instruction may cross */
#define BRINK_WALK_PAGE_LINES 64
#define BRINK_WALK_BLOCKS 16		/* most blocks of one line */
#define BRINK_WALK_RANGES 8
#define BRINK_WALK_IRQ_DEPTH 128	/* most branches of a walk in interrupt mode */
#define BRINK_WALK_MAX_STEPS 65536	/* hard limit of instructions a walk */
#define BRINK_WALK_CLOCK_STEPS 64	/* the clock is read once in so many steps */
#define BRINK_WALK_REP_MAX 4096		/* most bytes that one string instruction is followed for */

/* --- registers --------------------------------------------------------------------------------------------------- */

/* Numbers in the register file. The general registers are the machine's own numbers (x86-64: rax 0 .. r15 15; A64: x0 .. x15). */
enum brink_walk_regnum {
	BRINK_WREG_ZERO = 16,	/* always 0 */
	BRINK_WREG_IP = 17,	/* address of the instruction being executed */
	BRINK_WREG_MEM = 18,	/* memory operand of the instruction being executed */
	BRINK_WREG_IMM = 19,	/* immediate of the instruction being executed */
	BRINK_WREG_FS = 20,	/* segment bases; unknown unless the process is trusted (BRINK_PROC_FSBASE) */
	BRINK_WREG_GS = 21,
	BRINK_WREG_T0 = 22,
	BRINK_WREG_T1 = 23,
	BRINK_WREG_K0 = 24,	/* mask registers k0..k7 */
	BRINK_WREG_COUNT = 64	/* from 24 on A64 has its upper general registers (bpf/walk/a64/ops.h) */
};

/* --- micro-ops --------------------------------------------------------------------------------------------------- */

/* brink_uop.flags */
#define BRINK_UOP_MEM 0x01	/* base + (index << scale) + disp is computed */
#define BRINK_UOP_LOAD 0x02	/* msh bits of it are loaded into BRINK_WREG_MEM first */
#define BRINK_UOP_STORE 0x04	/* BRINK_WREG_MEM is stored there last */
#define BRINK_UOP_FS 0x08
#define BRINK_UOP_GS 0x10
#define BRINK_UOP_A32 0x20	/* the address is cut to 32 bits */
#define BRINK_UOP_HI_DST 0x40	/* dst is ah, ch, dh or bh (numbers 0..3) */
#define BRINK_UOP_HI_SRC 0x80

/* brink_uop.len: bytes of the instruction, and these: */
#define BRINK_UOP_LEN 0x0f
#define BRINK_UOP_MORE 0x10	/* the unit behind it is a brink_uop_more */
#define BRINK_UOP_LAST 0x20	/* the way to the instruction behind it is brink_walk_block_ways.end */
#define BRINK_UOP_CROSSES 0x40	/* the instruction runs into the next code line */

/*
 * One machine instruction, in one unit of the array. `op` is private to lifter and core (bpf/walk/ops.h).
 *
 * A link is what leads to a micro-op: the unit that its block begins at << BRINK_LINK_SHIFT | its distance from there. Unit
 * 0 is never used: a link of 0 says that the way goes through the translation tables. Without MORE and LAST the
 * instruction behind this one lies in the next unit.
 */
struct brink_uop {
	__u8 op;
	__u8 flags;
	__u8 aux;	/* condition, count, ... as `op` says */
	__u8 len;
	union {
		struct {
			__u8 dst;
			__u8 src2;	/* third operand where there is one */
			__u8 base;
			__u8 scale;	/* shift of the index, 0..3 */
		};
		__s32 to;	/* direct branches: target, counted from the start of the instruction */
	};
	__u8 src;
	__u8 index;
	__u8 sh;	/* 64 - operand size in bits */
	__u8 msh;	/* 64 - size in bits of the memory operand, or of a narrower source */
	union {
		__s32 value;	/* with MEM the displacement, with BRINK_WREG_IP as base counted from the start of the
				   instruction; without MEM the immediate */
		__u32 link;	/* direct branches: of the target */
	};
};
BRINK_ABI_ASSERT(sizeof(struct brink_uop) == 16);
BRINK_ABI_FIELD(struct brink_uop, op, 0, 1);
BRINK_ABI_FIELD(struct brink_uop, flags, 1, 1);
BRINK_ABI_FIELD(struct brink_uop, aux, 2, 1);
BRINK_ABI_FIELD(struct brink_uop, len, 3, 1);
BRINK_ABI_FIELD(struct brink_uop, dst, 4, 1);
BRINK_ABI_FIELD(struct brink_uop, to, 4, 4);
BRINK_ABI_FIELD(struct brink_uop, src2, 5, 1);
BRINK_ABI_FIELD(struct brink_uop, base, 6, 1);
BRINK_ABI_FIELD(struct brink_uop, scale, 7, 1);
BRINK_ABI_FIELD(struct brink_uop, src, 8, 1);
BRINK_ABI_FIELD(struct brink_uop, index, 9, 1);
BRINK_ABI_FIELD(struct brink_uop, sh, 10, 1);
BRINK_ABI_FIELD(struct brink_uop, msh, 11, 1);
BRINK_ABI_FIELD(struct brink_uop, value, 12, 4);
BRINK_ABI_FIELD(struct brink_uop, link, 12, 4);
#define BRINK_LINK_SHIFT 7
#define BRINK_LINK_PLACE ((1u << BRINK_LINK_SHIFT) - 1)

/* What found no room in a micro-op. */
struct brink_uop_more {
	__u64 reserved;
	__s32 other;	/* with MEM the immediate, without the displacement */
	__u32 next;	/* link of the instruction behind it */
};
BRINK_ABI_ASSERT(sizeof(struct brink_uop_more) == sizeof(struct brink_uop));
BRINK_ABI_FIELD(struct brink_uop_more, other, 8, 4);
BRINK_ABI_FIELD(struct brink_uop_more, next, 12, 4);

/*
 * The micro-ops of one line of code lie in blocks: a head of two units, in the first block of a line the line's bytes in
 * four more, then micro-ops in the order of their offsets. So what a walk needs of a line lies together. Instructions
 * that become known later get a further block. A block does not change once it is published, but for links.
 */
struct brink_walk_block {
	__u64 lifted;	/* bit: the block has the instruction at that offset of the line */
	__u64 more;	/* bit: and that takes two units */
};
struct brink_walk_block_ways {
	__u32 more;	/* next block of the line, 0 = none */
	__u32 line;	/* page slot * 64 + line within the page */
	__u32 first;	/* first block of the line */
	__u32 end;	/* link, for BRINK_UOP_LAST */
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_block) == sizeof(struct brink_uop));
BRINK_ABI_FIELD(struct brink_walk_block, lifted, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_block, more, 8, 8);
BRINK_ABI_ASSERT(sizeof(struct brink_walk_block_ways) == sizeof(struct brink_uop));
BRINK_ABI_FIELD(struct brink_walk_block_ways, more, 0, 4);
BRINK_ABI_FIELD(struct brink_walk_block_ways, line, 4, 4);
BRINK_ABI_FIELD(struct brink_walk_block_ways, first, 8, 4);
BRINK_ABI_FIELD(struct brink_walk_block_ways, end, 12, 4);
#define BRINK_WALK_MORE_HEAD 2	/* units before the first micro-op, */
#define BRINK_WALK_FIRST_HEAD 6	/* in a line's first block */
#define BRINK_WALK_BLOCK_UNITS (1u << BRINK_LINK_SHIFT)	/* most units of a block */

/* One lifted page of code. Slot 0 is never used. */
struct brink_walk_page {
	__u32 line[BRINK_WALK_PAGE_LINES];	/* first block of each line, 0 = nothing lifted */
	__u8 tail[BRINK_WALK_TAIL];	/* head of the following page, as it was when this one was lifted */
	__u32 used;		/* set by walks that validate a line of it, cleared by user space: eviction spares it */
	__u32 reserved;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_page) == 328);
BRINK_ABI_FIELD(struct brink_walk_page, line, 0, 256);
BRINK_ABI_FIELD(struct brink_walk_page, tail, 256, 64);
BRINK_ABI_FIELD(struct brink_walk_page, used, 320, 4);

/* --- walks under way ---------------------------------------------------------------------------------------------- */

/*
 * Task mode, one a slot. `epoch` is odd while the walk may hold indices of the code cache: what user space waits for
 * before it reuses memory. `since_ns` is the time of the sample that the slot works for, from the sample until its record
 * is in the ring, else 0: the file's order waits for it.
 */
struct brink_walk_flight {
	__u64 epoch;
	__u64 since_ns;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_flight) == 16);
BRINK_ABI_FIELD(struct brink_walk_flight, epoch, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_flight, since_ns, 8, 8);

/* --- translation ------------------------------------------------------------------------------------------------- */

/*
 * Code is found by its content: walk_xlat maps the hash of a 64-byte line as it is in memory, together with the line's
 * place in its page (bpf/walk/hash.h), to the slot of a lifted page that has such a line there. So whatever a process,
 * a layout or a container maps is found when the same bytes were lifted for anybody, and nothing goes stale. The bytes
 * are compared after every look-up.
 *
 * A bucket is one cache line of the machine; the low bits of the hash (walk_xlat_mask) tell which. An entry is the hash's
 * upper half << 32 | the page's slot; 0 = none. User space stores whole entries.
 */
#define BRINK_XLAT_WAYS 8
struct brink_walk_xlat {
	__u64 entry[BRINK_XLAT_WAYS];
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_xlat) == 64);

/*
 * `asid` names an address space; it is opaque to user space, which learns it from miss records.
 */
#define BRINK_PROC_FSBASE 0x1	/* no WRFSBASE/WRGSBASE outside the C library: the kernel's segment bases are true */
#define BRINK_PROC_REFUSED 0x2	/* do not walk (device mappings not allowed, 32-bit, told so) */

enum brink_walk_range_kind {
	BRINK_RANGE_NONE = 0,
	BRINK_RANGE_DEVICE = 1,		/* never read: the walk ends */
	BRINK_RANGE_UNKNOWN = 2,	/* written by the kernel (vvar): reads as unknown */
};

struct brink_walk_range {
	__u64 start;
	__u64 end;	/* exclusive */
	__u32 kind;	/* enum brink_walk_range_kind */
	__u32 reserved;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_range) == 24);
BRINK_ABI_FIELD(struct brink_walk_range, start, 0, 8);
BRINK_ABI_FIELD(struct brink_walk_range, end, 8, 8);
BRINK_ABI_FIELD(struct brink_walk_range, kind, 16, 4);
BRINK_ABI_FIELD(struct brink_walk_range, reserved, 20, 4);

/* What user space found out about an address space (hash by asid). Nothing is walked, or read, before it is there. */
struct brink_walk_proc {
	__u32 flags;	/* BRINK_PROC_* */
	__u32 nr_ranges;
	/*
	 * brink_miss.vm_stamp when it was judged: pages mapped that are neither private and writable, nor stack, nor code
	 * (total_vm - data_vm - stack_vm - exec_vm). A device mapping changes it, and then the process is judged again.
	 */
	__u64 vm_stamp;
	struct brink_walk_range range[BRINK_WALK_RANGES];
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_proc) == 208);
BRINK_ABI_FIELD(struct brink_walk_proc, flags, 0, 4);
BRINK_ABI_FIELD(struct brink_walk_proc, nr_ranges, 4, 4);
BRINK_ABI_FIELD(struct brink_walk_proc, vm_stamp, 8, 8);
BRINK_ABI_FIELD(struct brink_walk_proc, range, 16, 192);

/* --- misses ------------------------------------------------------------------------------------------------------ */

enum brink_miss_reason {
	BRINK_MISS_PROCESS = 1,	/* no brink_walk_proc for the asid, or one with another vm_stamp */
	BRINK_MISS_PAGE = 2,	/* no lifted page has this line */
	BRINK_MISS_ENTRY = 3,	/* the page is lifted (slot), this address in it is not */
	BRINK_MISS_CHANGED = 4,	/* live bytes differ from those of the slot */
};

/* Ring record BRINK_REC_MISS. `code` is the page of `address` as it is now, then the head of the following page. */
struct brink_miss {
	struct brink_rec_header header;
	__u64 time_ns;
	__u64 asid;
	__u64 address;
	__u64 task_start_ns;
	__u64 vm_stamp;
	__u32 tgid;
	__u32 tid;
	__u32 slot;		/* page that was found, 0 = none */
	__u16 reason;		/* enum brink_miss_reason */
	__u16 code_len;		/* valid bytes of `code`: 0 (page not in memory), 4096 or 4096 + BRINK_WALK_TAIL */
	__u64 sp;		/* stack pointer where the walk stands; 0: not known */
	__u8 code[BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL];
};
BRINK_ABI_ASSERT(sizeof(struct brink_miss) == 4232);
BRINK_ABI_FIELD(struct brink_miss, header, 0, 8);
BRINK_ABI_FIELD(struct brink_miss, time_ns, 8, 8);
BRINK_ABI_FIELD(struct brink_miss, asid, 16, 8);
BRINK_ABI_FIELD(struct brink_miss, address, 24, 8);
BRINK_ABI_FIELD(struct brink_miss, task_start_ns, 32, 8);
BRINK_ABI_FIELD(struct brink_miss, vm_stamp, 40, 8);
BRINK_ABI_FIELD(struct brink_miss, tgid, 48, 4);
BRINK_ABI_FIELD(struct brink_miss, tid, 52, 4);
BRINK_ABI_FIELD(struct brink_miss, slot, 56, 4);
BRINK_ABI_FIELD(struct brink_miss, reason, 60, 2);
BRINK_ABI_FIELD(struct brink_miss, code_len, 62, 2);
BRINK_ABI_FIELD(struct brink_miss, sp, 64, 8);
BRINK_ABI_FIELD(struct brink_miss, code, 72, 4160);

/* --- configuration (read-only data of the BPF objects) ------------------------------------------------------------ */

struct brink_walk_config {
	__u32 depth;		/* branches asked for: 1 .. the buffer's size */
	__u32 max_steps;	/* 1 .. BRINK_WALK_MAX_STEPS */
	__u32 budget_ns;	/* of one walk, from the registers to the record; 0 = none */
	__u32 reserve_ns;	/* of it kept for what follows the last step */
	__u32 kind_mask;	/* records kept: bit = perf branch type (1 cond, 2 jump, 3 ind_jump, 4 call, ...) */
	__u32 bucket_permille;	/* walk time a CPU, in thousandths; 0 = no bucket */
	__u32 bucket_burst_ns;
	__u32 reserved;
};
BRINK_ABI_ASSERT(sizeof(struct brink_walk_config) == 32);
BRINK_ABI_FIELD(struct brink_walk_config, depth, 0, 4);
BRINK_ABI_FIELD(struct brink_walk_config, max_steps, 4, 4);
BRINK_ABI_FIELD(struct brink_walk_config, budget_ns, 8, 4);
BRINK_ABI_FIELD(struct brink_walk_config, reserve_ns, 12, 4);
BRINK_ABI_FIELD(struct brink_walk_config, kind_mask, 16, 4);
BRINK_ABI_FIELD(struct brink_walk_config, bucket_permille, 20, 4);
BRINK_ABI_FIELD(struct brink_walk_config, bucket_burst_ns, 24, 4);
#define BRINK_WALK_ALL_KINDS 0xffffffffu

/*
 * Maps (bpf/walk/maps.h):
 *   walk_uops   ARRAY, BPF_F_MMAPABLE: units of struct brink_uop's size
 *   walk_pages  ARRAY, BPF_F_MMAPABLE: struct brink_walk_page
 *   walk_xlat   ARRAY, BPF_F_MMAPABLE: struct brink_walk_xlat, a power of two of them
 *   walk_procs  HASH: __u64 asid -> struct brink_walk_proc
 *   walk_state  ARRAY: struct brink_walk (abi/walk_state.h), one a slot
 *   walk_out    ARRAY: struct brink_walk_out, one a slot
 * User space sets max_entries of walk_uops, walk_pages, walk_xlat, walk_state and walk_out before loading.
 */

#endif /* BRINK_ABI_WALK_H_ */
