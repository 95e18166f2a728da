/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What brink's BPF programs and its user space exchange through the ring buffer.
 *
 * Plain C, fixed widths, explicit padding, little surprises: the same file is compiled for BPF (clang), for the
 * collector (C++) and checked against the BPF object's BTF by tests/bpf. Every record starts with
 * struct brink_rec_header. Sizes are in bytes and include the header. Records are 8-byte aligned.
 *
 * Changing anything here raises BRINK_ABI_VERSION.
 */
#ifndef BRINK_ABI_EVENT_H_
#define BRINK_ABI_EVENT_H_

#include <linux/types.h>

#ifdef __cplusplus
#define BRINK_ABI_ASSERT(cond) static_assert(cond, #cond)
#else
#define BRINK_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif
#define BRINK_ABI_FIELD(type, field, offset, bytes)                                   \
	BRINK_ABI_ASSERT(__builtin_offsetof(type, field) == (offset));                \
	BRINK_ABI_ASSERT(sizeof(((type *)0)->field) == (bytes))

#define BRINK_ABI_VERSION 1

/* Most entries of one stack: hardware gives up to 64, a walk up to 2,048. */
#define BRINK_MAX_HW_BRANCHES 64
#define BRINK_MAX_WALK_BRANCHES 2048
/* Most frames of one call chain, context markers included. */
#define BRINK_MAX_CHAIN 128

enum brink_rec_type {
	BRINK_REC_NONE = 0,
	BRINK_REC_SAMPLE = 1,	/* struct brink_sample */
	BRINK_REC_MISS = 2,	/* struct brink_miss (abi/walk.h): code that has no micro-ops yet */
	BRINK_REC_TASK = 3,	/* struct brink_task_event */
	BRINK_REC_MAX
};

struct brink_rec_header {
	__u16 type;	/* enum brink_rec_type */
	__u16 version;	/* BRINK_ABI_VERSION */
	__u32 size;	/* whole record, this header included */
};
BRINK_ABI_ASSERT(sizeof(struct brink_rec_header) == 8);
BRINK_ABI_FIELD(struct brink_rec_header, type, 0, 2);
BRINK_ABI_FIELD(struct brink_rec_header, version, 2, 2);
BRINK_ABI_FIELD(struct brink_rec_header, size, 4, 4);

/* Bit for bit the kernel's struct perf_branch_entry; `info` is its flags word (design: unknown bits are masked). */
struct brink_branch {
	__u64 from;
	__u64 to;
	__u64 info;
};
BRINK_ABI_ASSERT(sizeof(struct brink_branch) == 24);
BRINK_ABI_FIELD(struct brink_branch, from, 0, 8);
BRINK_ABI_FIELD(struct brink_branch, to, 8, 8);
BRINK_ABI_FIELD(struct brink_branch, info, 16, 8);

enum brink_source {
	BRINK_SOURCE_NONE = 0,
	BRINK_SOURCE_LBR = 1,	/* hardware */
	BRINK_SOURCE_WALK = 2,	/* executed in BPF */
	BRINK_SOURCE_HOP = 3,	/* hardware breakpoint moved from branch to branch */
	BRINK_SOURCE_STEP = 4,	/* ptrace single step */
	BRINK_SOURCE_REPLAY = 5,	/* fed from a map, tests only */
};

enum brink_direction {
	BRINK_DIR_PAST = 0,	/* the records led to `ip` */
	BRINK_DIR_FUTURE = 1,	/* the records follow `ip` */
};

/* Why a stack has no more entries than it has. Past stacks use BRINK_STOP_NONE. */
enum brink_stop {
	BRINK_STOP_NONE = 0,
	BRINK_STOP_FULL = 1,		/* as many branches as were asked for */
	BRINK_STOP_BUDGET = 2,		/* time or step budget of this walk used up */
	BRINK_STOP_THROTTLED = 3,	/* token bucket of the CPU empty: not even started */
	BRINK_STOP_SYSCALL = 4,
	BRINK_STOP_MISS = 5,		/* code not lifted yet */
	BRINK_STOP_UNSUPPORTED = 6,	/* instruction outside the lifter's set */
	BRINK_STOP_UNKNOWN_CONDITION = 7,
	BRINK_STOP_UNKNOWN_TARGET = 8,
	BRINK_STOP_UNKNOWN_STORE = 9,	/* store to an address that is not known */
	BRINK_STOP_STORE_FULL = 10,
	BRINK_STOP_FAULT = 11,		/* memory that could not be read */
	BRINK_STOP_CODE_CHANGED = 12,	/* bytes differ from those lifted */
	BRINK_STOP_DEVICE_MEMORY = 13,
	BRINK_STOP_TRANSLATION_BUSY = 14,
	BRINK_STOP_SIGNAL = 15,		/* hop, step: a signal changed the flow */
	BRINK_STOP_EXIT = 16,		/* hop, step: the thread ended */
	BRINK_STOP_NOT_USER = 17,	/* sample hit the kernel and there is no way to the user state */
	BRINK_STOP_SVE = 18,		/* A64: an instruction on scalable vectors or matrices */
	BRINK_STOP_MAX
};

/* sample.flags */
#define BRINK_SAMPLE_KERNEL_IP 0x0001	/* `ip` is a kernel address */
#define BRINK_SAMPLE_FILTERED 0x0002	/* entries were removed: the stack is not contiguous */
#define BRINK_SAMPLE_TRUNCATED 0x0004	/* more entries existed than fitted */
#define BRINK_SAMPLE_COMPAT 0x0008	/* 32-bit task */

/*
 * One sample. Followed by `nr` struct brink_branch, newest first, then `chain_nr` __u64 of call chain in perf's
 * form (PERF_CONTEXT_* markers, leaf first).
 */
struct brink_sample {
	struct brink_rec_header header;
	__u64 time_ns;		/* CLOCK_MONOTONIC */
	__u64 ip;		/* where the sample hit */
	__u64 end_ip;		/* future stacks: the first instruction not followed; else 0 */
	__u64 cgroup_id;	/* 0 = unknown */
	__u64 period;		/* event count since the previous sample; 0 = unknown */
	__u32 tgid;
	__u32 tid;
	__u32 cpu;
	__u16 event;		/* index of the event, as in the session */
	__u8 direction;		/* enum brink_direction */
	__u8 stop;		/* enum brink_stop */
	__u8 source;		/* enum brink_source */
	__u8 reserved8;
	__u16 flags;		/* BRINK_SAMPLE_* */
	__u16 nr;
	__u16 chain_nr;
	__u32 steps;		/* walk: instructions executed; else 0 */
	__u32 walk_ns;		/* walk: time spent; else 0 */
	__u64 task_start_ns;	/* start_boottime of the thread group leader: tells reused pids apart; 0 = unknown */
};
BRINK_ABI_ASSERT(sizeof(struct brink_sample) == 88);
BRINK_ABI_FIELD(struct brink_sample, header, 0, 8);
BRINK_ABI_FIELD(struct brink_sample, time_ns, 8, 8);
BRINK_ABI_FIELD(struct brink_sample, ip, 16, 8);
BRINK_ABI_FIELD(struct brink_sample, end_ip, 24, 8);
BRINK_ABI_FIELD(struct brink_sample, cgroup_id, 32, 8);
BRINK_ABI_FIELD(struct brink_sample, period, 40, 8);
BRINK_ABI_FIELD(struct brink_sample, tgid, 48, 4);
BRINK_ABI_FIELD(struct brink_sample, tid, 52, 4);
BRINK_ABI_FIELD(struct brink_sample, cpu, 56, 4);
BRINK_ABI_FIELD(struct brink_sample, event, 60, 2);
BRINK_ABI_FIELD(struct brink_sample, direction, 62, 1);
BRINK_ABI_FIELD(struct brink_sample, stop, 63, 1);
BRINK_ABI_FIELD(struct brink_sample, source, 64, 1);
BRINK_ABI_FIELD(struct brink_sample, reserved8, 65, 1);
BRINK_ABI_FIELD(struct brink_sample, flags, 66, 2);
BRINK_ABI_FIELD(struct brink_sample, nr, 68, 2);
BRINK_ABI_FIELD(struct brink_sample, chain_nr, 70, 2);
BRINK_ABI_FIELD(struct brink_sample, steps, 72, 4);
BRINK_ABI_FIELD(struct brink_sample, walk_ns, 76, 4);
BRINK_ABI_FIELD(struct brink_sample, task_start_ns, 80, 8);

/* Task set changes as the BPF side saw them (sched_process_fork, exec, exit). */
enum brink_task_what {
	BRINK_TASK_FORK = 1,
	BRINK_TASK_EXEC = 2,
	BRINK_TASK_EXIT = 3,	/* the whole process: signal->live reached 0 */
};

struct brink_task_event {
	struct brink_rec_header header;
	__u64 time_ns;
	__u64 task_start_ns;
	__u32 tgid;
	__u32 tid;
	__u32 parent_tgid;
	__u32 what;		/* enum brink_task_what */
};
BRINK_ABI_ASSERT(sizeof(struct brink_task_event) == 40);
BRINK_ABI_FIELD(struct brink_task_event, header, 0, 8);
BRINK_ABI_FIELD(struct brink_task_event, time_ns, 8, 8);
BRINK_ABI_FIELD(struct brink_task_event, task_start_ns, 16, 8);
BRINK_ABI_FIELD(struct brink_task_event, tgid, 24, 4);
BRINK_ABI_FIELD(struct brink_task_event, tid, 28, 4);
BRINK_ABI_FIELD(struct brink_task_event, parent_tgid, 32, 4);
BRINK_ABI_FIELD(struct brink_task_event, what, 36, 4);

/*
 * Loss and activity counters, one cell a CPU and cause (per-CPU array map indexed by this enum, __u64 values).
 * The collector adds its own (no buffer, writer, side-band) under the same names.
 */
enum brink_counter {
	BRINK_CNT_EVENTS = 0,		/* times the program was entered */
	BRINK_CNT_EMITTED = 1,		/* samples written to the ring */
	BRINK_CNT_EMITTED_BYTES = 2,
	BRINK_CNT_RING_FULL = 3,	/* samples lost: no room */
	BRINK_CNT_RING_CONTENDED = 4,	/* samples lost: ring lock not had (NMI) */
	BRINK_CNT_LOST_BYTES = 5,
	BRINK_CNT_FILTERED = 6,		/* samples dropped by a filter: not the target, or predicate false */
	BRINK_CNT_FILTER_UNKNOWN = 7,	/* dropped because a predicate was unknown */
	BRINK_CNT_NO_STACK = 8,		/* event carried no branch stack */
	BRINK_CNT_THROTTLED = 9,	/* our own budget */
	BRINK_CNT_RECURSION = 10,	/* program skipped by the kernel or by our own nesting guard */
	BRINK_CNT_MISS_LOST = 11,	/* miss records that did not fit */
	BRINK_CNT_TASKS_LOST = 12,	/* processes that did not fit into the task set */
	BRINK_CNT_RECORDS_FILTERED = 13, /* branch records removed by a filter */
	BRINK_CNT_RECORDS_UNKNOWN = 14,	/* branch records removed because a predicate was unknown */
	BRINK_CNT_LATE = 15,		/* samples lost: the deferred walk began or ended too late, or elsewhere */
	BRINK_CNT_MAX = 16
};

#endif /* BRINK_ABI_EVENT_H_ */
