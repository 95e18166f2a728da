/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * On-demand capture (brink snap): the configuration of one trigger's BPF object, and what its record carries.
 *
 * A record is a struct brink_sample with its entries and chain, followed by one struct brink_snap that ends with the
 * `stack_words` words of its stack, its `history` events, and to the record's end the branches from when the thread left the CPU last.
 * Readers that know samples only read it as a sample: the sizes of a sample's parts stand in its head.
 */
#ifndef BRINK_ABI_SNAP_H_
#define BRINK_ABI_SNAP_H_

#include "brink/abi/event.h"
#include "brink/abi/filter.h"

/* Registers of a context, as the architecture's pt_regs lays them out for user space. */
#define BRINK_SNAP_REGS 34
#define BRINK_SNAP_HISTORY 32	/* events of a CPU that a record carries */
#define BRINK_SNAP_TASK_HISTORY 16
#define BRINK_SNAP_STRINGS 2
#define BRINK_SNAP_STRING_LEN 128
#define BRINK_SNAP_LOAD_STEPS 5
#define BRINK_SNAP_STACK 96	/* words of the user stack that a signal's record carries */
#define BRINK_SNAP_ARGS 8	/* saved at a function's entry for its return */
#define BRINK_SNAP_TESTS 4	/* of a condition that is judged without the interpreter */

/* Where a value begins. */
enum brink_snap_base {
	BRINK_SNAP_NONE = 0,
	BRINK_SNAP_CTX = 1,	/* in the program's context: raw tracepoint arguments, pt_regs, a tracepoint's record */
	BRINK_SNAP_SAVED = 2,	/* register number offset[0] saved at the function's entry */
	BRINK_SNAP_DURATION = 3, /* ns since the entry */
};

/*
 * A value: start at base + offset[0]; each further step reads the pointer there and adds the next offset; at the end
 * `size` bytes are read, shifted right by `shift`, cut to `bits` (0: all) and sign-extended if `is_signed`.
 */
struct brink_snap_load {
	__u8 base;		/* enum brink_snap_base */
	__u8 steps;		/* offsets used, at least 1 */
	__u8 size;		/* 1, 2, 4, 8 */
	__u8 is_signed;
	__u8 user;		/* bit k: the read that ends step k reads user memory */
	__u8 shift;
	__u8 bits;
	__u8 reserved;
	__s32 offset[BRINK_SNAP_LOAD_STEPS];
	__u32 reserved32;
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_load) == 32);
BRINK_ABI_FIELD(struct brink_snap_load, base, 0, 1);
BRINK_ABI_FIELD(struct brink_snap_load, offset, 8, 20);

/* What distinguishes two hits for --once-per. */
enum brink_snap_key {
	BRINK_SNAP_KEY_NONE = 0,
	BRINK_SNAP_KEY_PID = 1,
	BRINK_SNAP_KEY_TID = 2,
	BRINK_SNAP_KEY_CPU = 3,
	BRINK_SNAP_KEY_UID = 4,
	BRINK_SNAP_KEY_COMM = 5,
	BRINK_SNAP_KEY_CGROUP = 6,
	BRINK_SNAP_KEY_IP = 7,
	BRINK_SNAP_KEY_SLOT = 8,	/* the external value `key_slot` */
};

/* config.flags */
#define BRINK_SNAP_CFG_SNAPSHOT 0x0001	/* take the branch stack first thing */
#define BRINK_SNAP_CFG_CHAIN_KERNEL 0x0002
#define BRINK_SNAP_CFG_CHAIN_USER 0x0004
#define BRINK_SNAP_CFG_USER_CTX 0x0008	/* the context's registers are user registers (uprobes) */
#define BRINK_SNAP_CFG_NEED_ENTRY 0x0010	/* a return without a seen entry is no hit */
#define BRINK_SNAP_CFG_FATAL 0x0020	/* signals: only without a handler */
#define BRINK_SNAP_CFG_FILTER 0x0040	/* run `filter` */
#define BRINK_SNAP_CFG_CGROUPS 0x0080	/* only tasks below a group of snap_groups */
#define BRINK_SNAP_CFG_NOT_CGROUPS 0x0100	/* not the tasks below those marked as excluded */
#define BRINK_SNAP_CFG_V1 0x0200	/* the container key is that of a v1 controller, `subsys` */
#define BRINK_SNAP_CFG_HISTORY 0x0400	/* append what went before */
#define BRINK_SNAP_CFG_ENTRY_KERNEL 0x0800	/* the sample's place is a kernel address */
#define BRINK_SNAP_CFG_PIDNS 0x1000	/* only tasks of the pid namespace `pidns` */
#define BRINK_SNAP_CFG_ENTRY 0x2000	/* a program at the entry saves what the return wants */
#define BRINK_SNAP_CFG_FOLLOW 0x4000	/* what the thread does next is walked: bpf/snap/follow.h */

struct brink_snap_config {
	__u32 trigger;		/* index of the trigger: brink_sample.event */
	__u32 flags;		/* BRINK_SNAP_CFG_* */
	__u32 syscall;		/* number, for syscall triggers; ~0: any */
	__u32 key;		/* enum brink_snap_key */
	__u32 key_slot;
	__u32 subsys;		/* index in css_set.subsys */
	__u64 signals;		/* bit SIG-1 */
	__u64 slower_ns;	/* least duration; 0: any */
	__u64 nth;		/* each how manieth match is taken; 1: all */
	__u64 count;		/* captures after which the trigger is silent; 0: no end */
	__u64 limit;		/* captures a second; 0: no limit */
	__u32 pidns;		/* inode of a pid namespace */
	__u32 own_tgid;		/* brink itself, never a hit */
	__u32 loads;		/* used values */
	__u32 strings;		/* used strings */
	__u32 tests;		/* the filter is its first so many operations, all of which must hold; 0: any program */
	__u32 reserved32;
	struct brink_snap_load load[BRINK_FILTER_MAX_EXT];	/* values for the filter and for display, by slot */
	struct brink_snap_load string[BRINK_SNAP_STRINGS];	/* address of a string; size unused */
	struct brink_filter_prog filter;
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_config) == 88 + 18 * 32 + sizeof(struct brink_filter_prog));
BRINK_ABI_FIELD(struct brink_snap_config, signals, 24, 8);
BRINK_ABI_FIELD(struct brink_snap_config, loads, 72, 4);
BRINK_ABI_FIELD(struct brink_snap_config, tests, 80, 4);
BRINK_ABI_FIELD(struct brink_snap_config, load, 88, 16 * 32);
BRINK_ABI_FIELD(struct brink_snap_config, filter, 664, sizeof(struct brink_filter_prog));

/* What became of hits: cells of the per-CPU map snap_counts. */
enum brink_snap_count {
	BRINK_SNAP_CNT_HITS = 0,	/* of the target: passed the task, cgroup, syscall and signal tests. Not a cell: the sum of what became of them */
	BRINK_SNAP_CNT_FALSE = 1,	/* --if false */
	BRINK_SNAP_CNT_UNKNOWN = 2,	/* --if unknown */
	BRINK_SNAP_CNT_FAST = 3,	/* --slower-than not reached */
	BRINK_SNAP_CNT_NO_ENTRY = 4,	/* return whose entry was not seen */
	BRINK_SNAP_CNT_SKIPPED = 5,	/* --nth */
	BRINK_SNAP_CNT_REPEATED = 6,	/* --once-per */
	BRINK_SNAP_CNT_LIMITED = 7,	/* --limit */
	BRINK_SNAP_CNT_DONE = 8,	/* after --count */
	BRINK_SNAP_CNT_BUSY = 9,	/* every slot of the CPU in use */
	BRINK_SNAP_CNT_TAKEN = 10,	/* captured (the ring's own losses are counted there) */
	BRINK_SNAP_CNT_NOT_HANDED = 12,	/* captured, and not followed: another capture of the CPU was being handed over */
	BRINK_SNAP_CNT_KEYS = 11,	/* keys of --once-per that were new; above BRINK_SNAP_MAX_SEEN old ones have gone */
	BRINK_SNAP_CNT_MAX = 16
};

/* A group was made: its name survives it. Numbered apart from the record types of event.h. */
#define BRINK_REC_SNAP_GROUP 16
#define BRINK_SNAP_GROUP_PATH 512
struct brink_snap_group {
	struct brink_rec_header header;	/* its size ends with the path */
	__u64 id;			/* kernfs id in the chosen hierarchy */
	char path[BRINK_SNAP_GROUP_PATH];	/* below the hierarchy's root; longer ones are cut */
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_group) == 16 + BRINK_SNAP_GROUP_PATH);
BRINK_ABI_FIELD(struct brink_snap_group, id, 8, 8);
BRINK_ABI_FIELD(struct brink_snap_group, path, 16, BRINK_SNAP_GROUP_PATH);

/* A process of a wanted group, through a ring of its own: nothing else is to be waited for, and nothing else is in it, so it has no head. */
#define BRINK_SNAP_MEMBER_RING 65536	/* bytes */
enum brink_snap_member_what {
	BRINK_SNAP_MEMBER_BORN = 1,	/* forked into one of them */
	BRINK_SNAP_MEMBER_MOVED = 2,	/* between groups, whichever they are */
	BRINK_SNAP_MEMBER_SPREAD = 4,	/* one thread of it was moved: its threads are in several groups */
	BRINK_SNAP_MEMBER_RENEWED = 3,	/* a thread that was not its leader executed a program */
};
struct brink_snap_member {
	__u32 pid;	/* of the initial namespace */
	__u32 what;	/* enum brink_snap_member_what */
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_member) == 8);
BRINK_ABI_FIELD(struct brink_snap_member, pid, 0, 4);
BRINK_ABI_FIELD(struct brink_snap_member, what, 4, 4);

enum brink_snap_event_type {
	BRINK_SNAP_EV_NONE = 0,
	BRINK_SNAP_EV_SWITCH = 1,	/* a: tid that goes, b: tid that comes */
	BRINK_SNAP_EV_SYS_ENTER = 2,	/* a: number, b: first argument */
	BRINK_SNAP_EV_SYS_EXIT = 3,	/* a: number, b: result */
	BRINK_SNAP_EV_IRQ = 4,		/* a: number */
};
#define BRINK_SNAP_CFG_LEFT 0x8000	/* signals: with the branches from when the thread left the CPU last */

struct brink_snap_event {
	__u64 time_ns;
	__u32 tid;
	__u16 type;	/* enum brink_snap_event_type */
	__u16 reserved;
	__u64 a;
	__u64 b;
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_event) == 32);
BRINK_ABI_FIELD(struct brink_snap_event, time_ns, 0, 8);
BRINK_ABI_FIELD(struct brink_snap_event, tid, 8, 4);
BRINK_ABI_FIELD(struct brink_snap_event, type, 12, 2);
BRINK_ABI_FIELD(struct brink_snap_event, a, 16, 8);
BRINK_ABI_FIELD(struct brink_snap_event, b, 24, 8);

/* snap.flags */
#define BRINK_SNAP_HAS_REGS 0x0001	/* `regs` is filled: user registers */
#define BRINK_SNAP_HAS_DURATION 0x0002
#define BRINK_SNAP_HAS_SIGNAL 0x0004
#define BRINK_SNAP_HAS_SIGINFO 0x0008	/* code and address are the kernel's; else it had none to show */
#define BRINK_SNAP_HAS_STACK_WORD 0x0010	/* `stack_word` was readable */
#define BRINK_SNAP_HAS_RET 0x0020
#define BRINK_SNAP_HAS_SYSCALL 0x0040
#define BRINK_SNAP_STACK_GAP 0x0080	/* the stack pointer's page was unreadable: `stack` begins a page above */

#define BRINK_SNAP_MAGIC 0x50414e53	/* "SNAP" */

struct brink_snap {
	__u32 magic;
	__u16 history;		/* events of the CPU that follow, oldest first */
	__u16 task_history;	/* then those of the task */
	__u32 flags;		/* BRINK_SNAP_HAS_* */
	__u32 known;		/* bit per value */
	__u64 duration_ns;	/* since the entry */
	__u64 container_id;	/* kernfs id in the chosen hierarchy; 0 unknown */
	__u64 hit;		/* number of the hit among the trigger's matches, from 1 */
	__u32 uid;
	__u32 inner_tgid;	/* in the task's own pid namespace; 0 unknown */
	__u32 inner_tid;
	__u32 pidns;		/* its inode */
	__s32 snapshot_error;	/* of the branch snapshot; 0: taken or not asked for */
	__s32 signal;
	__s32 signal_code;
	__u32 syscall;		/* number */
	__u64 signal_addr;	/* address of a fault; sender's pid and uid for kill */
	__s64 ret;
	__u64 stack_word;	/* at the user stack pointer */
	char comm[BRINK_FILTER_COMM_LEN];
	__u64 value[BRINK_FILTER_MAX_EXT];
	__u64 regs[BRINK_SNAP_REGS];
	char string[BRINK_SNAP_STRINGS][BRINK_SNAP_STRING_LEN];	/* cut; "" unknown */
	__u64 stack_start;	/* address of `stack` */
	__u64 stack_words;	/* of `stack` that are filled; 0 unless asked for */
	__u64 stack[BRINK_SNAP_STACK];
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap) == 112 + 128 + 8 * BRINK_SNAP_REGS + 256 + 16 + 8 * BRINK_SNAP_STACK);
BRINK_ABI_FIELD(struct brink_snap, duration_ns, 16, 8);
BRINK_ABI_FIELD(struct brink_snap, uid, 40, 4);
BRINK_ABI_FIELD(struct brink_snap, signal_addr, 72, 8);
BRINK_ABI_FIELD(struct brink_snap, comm, 96, 16);
BRINK_ABI_FIELD(struct brink_snap, value, 112, 128);
BRINK_ABI_FIELD(struct brink_snap, regs, 240, 8 * BRINK_SNAP_REGS);
BRINK_ABI_FIELD(struct brink_snap, string, 512, 256);
BRINK_ABI_FIELD(struct brink_snap, stack_words, 776, 8);
BRINK_ABI_FIELD(struct brink_snap, stack, 784, 8 * BRINK_SNAP_STACK);

/* Value of snap_groups, keyed by kernfs id: what tasks in this group (or below) are. */
#define BRINK_SNAP_GROUP_WANTED 1
#define BRINK_SNAP_GROUP_EXCLUDED 2
#define BRINK_SNAP_MAX_GROUPS 16384
#define BRINK_SNAP_GROUP_LEVELS 16

/* Value of snap_entries, keyed by (tid << 32 | trigger): a function that has not returned yet. */
struct brink_snap_entry {
	__u64 time_ns;
	__u64 args[BRINK_SNAP_ARGS];
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_entry) == 72);
BRINK_ABI_FIELD(struct brink_snap_entry, args, 8, 64);
#define BRINK_SNAP_MAX_ENTRIES 65536
#define BRINK_SNAP_MAX_SEEN 65536

/*
 * What a trigger hands to the program that has its thread walked. That one sends a bare sample with the capture's time, thread
 * and trigger, direction future, whose entries are what followed.
 */
struct brink_snap_next {
	__u32 busy;		/* from the hand-over until it has been taken: who comes in between is not followed */
	__u32 trigger;
	__u64 time_ns;
	__u64 has_regs;		/* walk from `regs`; else from where the thread returns to user code */
	__u64 regs[BRINK_SNAP_REGS];
};
BRINK_ABI_ASSERT(sizeof(struct brink_snap_next) == 24 + 8 * BRINK_SNAP_REGS);
BRINK_ABI_FIELD(struct brink_snap_next, time_ns, 8, 8);
BRINK_ABI_FIELD(struct brink_snap_next, regs, 24, 8 * BRINK_SNAP_REGS);

#endif /* BRINK_ABI_SNAP_H_ */
