/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Control-flow integrity live (brink cfi run): the configuration of its BPF objects and what a record carries.
 *
 * A record is a struct brink_sample with its entries and no chain, followed by one struct brink_cfi. Readers that know
 * samples only read it as a sample.
 */
#ifndef BRINK_ABI_CFI_H_
#define BRINK_ABI_CFI_H_

#include "brink/abi/event.h"

#define BRINK_CFI_MAGIC 0x4b434346u
#define BRINK_CFI_DEPTH 128	/* most branches of a check */
#define BRINK_CFI_CALLS 512	/* system calls that can be chosen, by number */
#define BRINK_CFI_STACK 16	/* words of the user stack, from the stack pointer on */
#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define BRINK_CFI_REGS 34	/* of struct user_pt_regs */
#else
#define BRINK_CFI_REGS 21	/* of struct pt_regs */
#endif
#define BRINK_CFI_SPARED 8	/* names of programs that no action is taken against */

/* Where a check happens. */
enum brink_cfi_point {
	BRINK_CFI_ENTER = 1,	/* entry of a system call */
	BRINK_CFI_EXIT = 2,	/* its end, before user code goes on */
	BRINK_CFI_SIGNAL = 3,	/* a fatal signal is delivered */
	BRINK_CFI_SWITCH = 4,	/* the thread leaves the CPU */
	BRINK_CFI_SAMPLE = 5,	/* a periodic sample */
	BRINK_CFI_LSM = 6,	/* a security hook */
};

/* config.call[NUMBER] */
#define BRINK_CFI_AT_ENTER 0x01
#define BRINK_CFI_AT_EXIT 0x02
#define BRINK_CFI_IF_EXEC 0x04	/* only where the third argument has PROT_EXEC */
#define BRINK_CFI_FAILS 0x08	/* it returns on failure only (execve): walked on as if it failed */
#define BRINK_CFI_POINTER 0x10	/* its result is an address, not a small number */
#define BRINK_CFI_FIRST 0x20	/* of the sensitive set: never throttled */
#define BRINK_CFI_WRITES 0x40	/* it writes user memory: a walk from its entry reads what may be written over */
#define BRINK_CFI_SIGRETURN 0x80	/* rt_sigreturn: was there a signal? */

/* config.flags */
#define BRINK_CFI_CFG_REPEATS 0x1	/* send windows that were sent before too */
#define BRINK_CFI_CFG_SNAPSHOT 0x2	/* at all points but exits: hardware branches that led here, instead of a walk */
#define BRINK_CFI_CFG_DRY 0x4	/* count what would be done, do nothing */
#define BRINK_CFI_CFG_UID 0x8	/* only this user's threads */
#define BRINK_CFI_CFG_PATIENT 0x10	/* no walk in a process that has only just begun: see bpf/cfi/check.h */

/* What BPF found on the spot; brink_cfi.verdict. */
#define BRINK_CFI_P1 0x01	/* a return behind no call */
#define BRINK_CFI_P2 0x02	/* a return elsewhere than behind the call that is open in the window */
#define BRINK_CFI_P8 0x04	/* control goes to memory that is not executable */
#define BRINK_CFI_P10 0x08	/* the stack pointer lies in the heap or a file's mapping */

struct brink_cfi_config {
	__u32 flags;		/* BRINK_CFI_CFG_* */
	__u32 uid;
	__u32 kill;		/* BRINK_CFI_P*: verdicts that end the process */
	__u32 stop;		/* that stop it */
	__u32 deny;		/* that refuse the operation (security hooks) */
	__u32 per_minute;	/* most actions in a minute */
	__u8 call[BRINK_CFI_CALLS];
	char spared[BRINK_CFI_SPARED][16];
};
BRINK_ABI_ASSERT(sizeof(struct brink_cfi_config) == 24 + BRINK_CFI_CALLS + 16 * BRINK_CFI_SPARED);
BRINK_ABI_FIELD(struct brink_cfi_config, call, 24, BRINK_CFI_CALLS);
BRINK_ABI_FIELD(struct brink_cfi_config, spared, 24 + BRINK_CFI_CALLS, 16 * BRINK_CFI_SPARED);

/* brink_cfi.action */
#define BRINK_CFI_DID_KILL 0x1
#define BRINK_CFI_DID_STOP 0x2
#define BRINK_CFI_DID_DENY 0x4
#define BRINK_CFI_DID_DRY 0x8	/* the others say what would have been done */
#define BRINK_CFI_DID_LIMIT 0x10	/* not done: too many this minute */
#define BRINK_CFI_DID_SPARE 0x20	/* not done: init, brink itself or a program of the list */
#define BRINK_CFI_DID_PROBED 0x40	/* not done: a debugger or uprobes move this process's returns */

/* brink_cfi.sp_kind: bits of the mapping of the stack pointer */
#define BRINK_CFI_SP_KNOWN 0x1	/* the mapping was found */
#define BRINK_CFI_SP_GROWS 0x2	/* it grows down: the main thread's stack */
#define BRINK_CFI_SP_FILE 0x4
#define BRINK_CFI_SP_HEAP 0x8	/* within the program's break */
#define BRINK_CFI_SP_ALT 0x10	/* within the thread's alternate signal stack */
#define BRINK_CFI_TO_MADE 0x20	/* (of the newest record's target) it lies in what the call at hand makes code */

struct brink_cfi {
	__u32 magic;
	__u8 point;		/* enum brink_cfi_point */
	__u8 verdict;		/* BRINK_CFI_P* */
	__u8 action;		/* BRINK_CFI_DID_* */
	__u8 sp_kind;		/* BRINK_CFI_SP_* */
	__u32 syscall;		/* number; ~0: none */
	__u32 index;		/* entry that the first of `verdict` is about */
	__s64 ret;		/* at EXIT */
	__u64 args[6];
	__u64 sp_start;		/* of the mapping of the stack pointer */
	__u64 sp_end;
	__u64 fault_address;	/* P8, or where the walk could not read; SIGNAL: of the siginfo */
	__u32 uid;
	__s32 signal;		/* number */
	__s32 signal_code;
	__u32 reserved;
	__u64 regs[BRINK_CFI_REGS];
	__u64 stack[BRINK_CFI_STACK];
	__u32 stack_words;
	__u32 judge_ns;		/* of the time of the check: what the policies took */
	char comm[16];
	__u8 code[16];		/* at the sample's end_ip, where the walk ended at code that is new or was changed */
	__u32 code_len;
	__u32 begun;		/* records of the past since the thread's program was executed; 0: all are */
};
BRINK_ABI_ASSERT(sizeof(struct brink_cfi) == 288 + 8 * BRINK_CFI_REGS);
BRINK_ABI_FIELD(struct brink_cfi, ret, 16, 8);
BRINK_ABI_FIELD(struct brink_cfi, args, 24, 48);
BRINK_ABI_FIELD(struct brink_cfi, sp_start, 72, 8);
BRINK_ABI_FIELD(struct brink_cfi, fault_address, 88, 8);
BRINK_ABI_FIELD(struct brink_cfi, uid, 96, 4);
BRINK_ABI_FIELD(struct brink_cfi, regs, 112, 8 * BRINK_CFI_REGS);
BRINK_ABI_FIELD(struct brink_cfi, stack, 112 + 8 * BRINK_CFI_REGS, 128);
BRINK_ABI_FIELD(struct brink_cfi, comm, 248 + 8 * BRINK_CFI_REGS, 16);
BRINK_ABI_FIELD(struct brink_cfi, code, 264 + 8 * BRINK_CFI_REGS, 16);

/* The per-CPU map cfi_turns: threads by the low bits of their id, and calls passed over because they had used up theirs. */
#define BRINK_CFI_TURNS 256

/* Cells of the per-CPU map cfi_counts. */
enum brink_cfi_count {
	BRINK_CFI_CNT_CHECKS = 0,	/* of the target and of a chosen call */
	BRINK_CFI_CNT_EMPTY = 1,	/* no branch was seen: nothing sent */
	BRINK_CFI_CNT_SENT = 2,
	BRINK_CFI_CNT_REPEATED = 3,	/* equal to a window that was sent */
	BRINK_CFI_CNT_REPEATED_EDGES = 4,
	BRINK_CFI_CNT_THROTTLED = 5,	/* no time left for this CPU; cfi_turns counts those of single threads */
	BRINK_CFI_CNT_NESTED = 6,	/* interrupted another check on the CPU */
	BRINK_CFI_CNT_NS = 7,		/* spent in checks */
	BRINK_CFI_CNT_EDGES = 8,	/* sent */
	BRINK_CFI_CNT_COMPAT = 9,	/* 32-bit threads: not walked */
	BRINK_CFI_CNT_SUSPECT = 10,	/* windows with a verdict */
	BRINK_CFI_CNT_KILLED = 11,
	BRINK_CFI_CNT_STOPPED = 12,
	BRINK_CFI_CNT_DENIED = 13,
	BRINK_CFI_CNT_WOULD = 14,	/* dry run */
	BRINK_CFI_CNT_HELD_BACK = 15,	/* limited or spared */
	/* 16 to 39 */
	BRINK_CFI_CNT_STOPS = 16,	/* walks by why they ended: + enum brink_stop */
	BRINK_CFI_CNT_MISSES = 40,	/* + enum brink_miss_reason, up to 44 */
	BRINK_CFI_CNT_FORGED = 45,	/* rt_sigreturn without a signal */
	BRINK_CFI_CNT_NO_PAST = 46,	/* the hardware had nothing to say */
	BRINK_CFI_CNT_SHORT_PAST = 47,	/* sensitive calls at which it had BRINK_CFI_SHORT branches or fewer, as after a switch */
	BRINK_CFI_CNT_TIMES = 48,	/* checks by bit length of their time in ns, of those with a full walk */
	BRINK_CFI_CNT_JUDGE = 80,	/* windows of BRINK_CFI_JUDGED branches or more by what the policies took, BRINK_CFI_JUDGE_NS each */
	BRINK_CFI_CNT_MAX = 144,
};

#define BRINK_CFI_SHORT 12
#define BRINK_CFI_JUDGED 32
#define BRINK_CFI_JUDGE_NS 128
#define BRINK_CFI_JUDGE_TIMES (BRINK_CFI_CNT_MAX - BRINK_CFI_CNT_JUDGE)

#endif /* BRINK_ABI_CFI_H_ */
