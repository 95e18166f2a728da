/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the latency programs and user space share: a slot for each measured thread and a log for each CPU, both in maps
 * that user space has mapped. Times are CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef BRINK_ABI_LATENCY_H_
#define BRINK_ABI_LATENCY_H_

#include <linux/types.h>

#include "brink/abi/event.h"

#define BRINK_LAT_SLOTS 1024
#define BRINK_LAT_EVENTS 512	/* of a CPU's log; a power of two */
#define BRINK_LAT_STACK 32
#define BRINK_LAT_COMM 16

/* Histogram buckets (src/latency/histogram.h): 128 steps an octave up to 2^40 ns. */
#define BRINK_LAT_SUB_BITS 7
#define BRINK_LAT_MAX_BITS 40
#define BRINK_LAT_BUCKETS ((BRINK_LAT_MAX_BITS - BRINK_LAT_SUB_BITS + 1) << BRINK_LAT_SUB_BITS)

enum brink_lat_kind {
	BRINK_LAT_NONE,
	BRINK_LAT_TASK,		/* a task had the CPU: id = tid (0 idle), aux = tgid */
	BRINK_LAT_HARDIRQ,	/* id = enum brink_lat_vector, or irq number + BRINK_LAT_VEC_DEVICE */
	BRINK_LAT_SOFTIRQ,	/* id = its number */
	BRINK_LAT_IDLE_STATE,	/* id = state that was left */
	BRINK_LAT_FREQ,		/* id = kHz from now on */
	BRINK_LAT_MIGRATE,	/* id = tid, aux = destination CPU */
	BRINK_LAT_IPI,		/* sent by this CPU: id = CPU that it went to, or BRINK_LAT_IPI_MANY; aux = sender's tid, work = its function or caller */
};

enum brink_lat_vector {
	BRINK_LAT_VEC_TIMER,
	BRINK_LAT_VEC_RESCHEDULE,
	BRINK_LAT_VEC_CALL,
	BRINK_LAT_VEC_CALL_SINGLE,
	BRINK_LAT_VEC_IRQ_WORK,
	BRINK_LAT_VEC_IPI,	/* where the kernel has one tracepoint for all of them */
	BRINK_LAT_VEC_DEVICE = 16,
};

#define BRINK_LAT_IPI_MANY 0xffffffffU

/* One stretch of time of a CPU. Short ones of the same kind and id that follow closely are one, with their number. */
struct brink_lat_event {
	__u64 start;
	__u64 end;
	__u64 busy;		/* of start..end */
	__u64 work;		/* address of the work function that a kworker ran, or 0 */
	__u32 kind;
	__u32 id;
	__u32 aux;
	__u32 count;
	__u32 faults;		/* page faults within */
	__u32 reclaim_us;	/* direct reclaim within */
	char comm[BRINK_LAT_COMM];
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_event) == 72);
BRINK_ABI_FIELD(struct brink_lat_event, start, 0, 8);
BRINK_ABI_FIELD(struct brink_lat_event, end, 8, 8);
BRINK_ABI_FIELD(struct brink_lat_event, busy, 16, 8);
BRINK_ABI_FIELD(struct brink_lat_event, work, 24, 8);
BRINK_ABI_FIELD(struct brink_lat_event, kind, 32, 4);
BRINK_ABI_FIELD(struct brink_lat_event, id, 36, 4);
BRINK_ABI_FIELD(struct brink_lat_event, aux, 40, 4);
BRINK_ABI_FIELD(struct brink_lat_event, count, 44, 4);
BRINK_ABI_FIELD(struct brink_lat_event, faults, 48, 4);
BRINK_ABI_FIELD(struct brink_lat_event, reclaim_us, 52, 4);
BRINK_ABI_FIELD(struct brink_lat_event, comm, 56, 16);

/* What had the CPU when a late thread was woken (interrupted) or switched to (gave way). */
struct brink_lat_capture {
	__u64 when;		/* 0: never */
	__u64 cgroup;		/* id on cgroup v2 */
	__u32 tid;
	__u32 tgid;
	char comm[BRINK_LAT_COMM];
	__s32 kernel_bytes;	/* of kernel_stack, or a negative errno */
	__s32 user_bytes;
	__s32 branches;		/* number of entries, or a negative errno of the snapshot helper */
	__s32 previous_branches;	/* likewise, of the timer interrupt before (AT_WAKING) */
	__u64 previous_when;	/* when that came; 0: not seen */
	__u64 kernel_stack[BRINK_LAT_STACK];
	__u64 user_stack[BRINK_LAT_STACK];
	struct brink_branch entries[BRINK_MAX_HW_BRANCHES];
	struct brink_branch previous[BRINK_MAX_HW_BRANCHES];
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_capture) == 64 + 16 * BRINK_LAT_STACK + 48 * BRINK_MAX_HW_BRANCHES);
BRINK_ABI_FIELD(struct brink_lat_capture, when, 0, 8);
BRINK_ABI_FIELD(struct brink_lat_capture, cgroup, 8, 8);
BRINK_ABI_FIELD(struct brink_lat_capture, tid, 16, 4);
BRINK_ABI_FIELD(struct brink_lat_capture, tgid, 20, 4);
BRINK_ABI_FIELD(struct brink_lat_capture, comm, 24, 16);
BRINK_ABI_FIELD(struct brink_lat_capture, kernel_bytes, 40, 4);
BRINK_ABI_FIELD(struct brink_lat_capture, user_bytes, 44, 4);
BRINK_ABI_FIELD(struct brink_lat_capture, branches, 48, 4);
BRINK_ABI_FIELD(struct brink_lat_capture, previous_branches, 52, 4);
BRINK_ABI_FIELD(struct brink_lat_capture, previous_when, 56, 8);
BRINK_ABI_FIELD(struct brink_lat_capture, kernel_stack, 64, 8 * BRINK_LAT_STACK);

/* User registers of the task that an interrupt found in user mode, and a piece of its stack. x86-64 only. */
#define BRINK_LAT_USER_STACK 1024
#define BRINK_LAT_BELOW_SP 256
struct brink_lat_regs {
	__u64 when;		/* sched_waking of the measured thread; 0: never */
	__u32 tid;
	__u32 tgid;
	__u64 reg[16];		/* rax rcx rdx rbx rsp rbp rsi rdi r8 .. r15 */
	__u64 ip;
	__u64 flags;
	__u64 stack_base;	/* address of stack[0], below the stack pointer */
	__u32 stack_bytes;	/* 0: could not be read */
	__u32 reserved;
	__u8 stack[BRINK_LAT_USER_STACK];
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_regs) == 176 + BRINK_LAT_USER_STACK);
BRINK_ABI_FIELD(struct brink_lat_regs, reg, 16, 128);
BRINK_ABI_FIELD(struct brink_lat_regs, ip, 144, 8);
BRINK_ABI_FIELD(struct brink_lat_regs, stack_base, 160, 8);
BRINK_ABI_FIELD(struct brink_lat_regs, stack_bytes, 168, 4);
BRINK_ABI_FIELD(struct brink_lat_regs, stack, 176, BRINK_LAT_USER_STACK);

enum brink_lat_capture_at { BRINK_LAT_AT_WAKING, BRINK_LAT_AT_SWITCH, BRINK_LAT_CAPTURES };

struct brink_lat_cpu {
	__u64 head;		/* events written so far; the last is events[(head - 1) % BRINK_LAT_EVENTS] */
	__u64 irq_start;	/* of the interrupt being handled, 0 none */
	__u64 softirq_start;
	__u64 task_start;	/* of the task that runs */
	__u64 idle_start;
	__u64 idle_state;
	__u64 faults;		/* of the task that runs, since task_start */
	__u64 reclaim_start;
	__u64 reclaim_ns;	/* likewise */
	__u64 work;
	__u64 timer_last;	/* entries of the last two timer interrupts */
	__u64 timer_before;
	__u64 normal_last;	/* watch: when an ordinary wake-up was kept for comparison */
	struct brink_lat_capture capture[BRINK_LAT_CAPTURES];
	struct brink_lat_regs interrupted;	/* by the wake-up of a measured thread */
	struct brink_lat_event events[BRINK_LAT_EVENTS];
};
BRINK_ABI_FIELD(struct brink_lat_cpu, head, 0, 8);
BRINK_ABI_FIELD(struct brink_lat_cpu, capture, 104, 2 * sizeof(struct brink_lat_capture));
BRINK_ABI_ASSERT(sizeof(struct brink_lat_cpu) % 8 == 0);

/* A measured thread. The first line is its own, the rest the kernel's. */
struct brink_lat_slot {
	__u64 deadline;		/* next one; 0: not asleep */
	__u64 limit;		/* lateness from which captures are taken */
	__u64 own_reserved[6];
	__u64 irq;		/* entry of the interrupt that woke it, 0 none */
	__u64 waking;		/* first wake-up since the deadline was published, 0 none */
	__u64 first_in;		/* first switch-in behind it, 0 none */
	__u64 last_in;
	__u64 wait;		/* sum of runnable times without a CPU */
	__u64 blocked;		/* sum of sleeps behind the first switch-in */
	__u64 out;		/* last switch-out */
	__u64 rewaking;
	__u32 out_state;	/* state at the last switch-out; 0 = runnable */
	__u32 waking_cpu;
	__u32 in_cpu;
	__u32 waker_tid;
	__u32 switches;
	__u32 migrations;
	__u32 waking_in_irq;
	__u32 reserved;
	__u64 woken;		/* sched_wakeup: put on its CPU's queue, 0 not seen */
	__u64 tail_reserved[3];
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_slot) == 192);
BRINK_ABI_FIELD(struct brink_lat_slot, deadline, 0, 8);
BRINK_ABI_FIELD(struct brink_lat_slot, irq, 64, 8);
BRINK_ABI_FIELD(struct brink_lat_slot, out_state, 128, 4);

struct brink_lat_config {
	__u32 self_tgid;
	__u32 snapshots;	/* branch snapshots work: take them */
	__u32 watch;		/* enum brink_lat_watch */
	__u32 irq_vectors;	/* local_timer_entry tells of the timer interrupt */
	__u64 watch_limit;	/* ns */
	__u32 futex_syscall;	/* its number */
	__u32 reserved;
	__u64 block_limit;	/* ns of sleep in a futex from which it is reported, 0 never */
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_config) == 40);

enum brink_lat_watch { BRINK_LAT_WATCH_OFF, BRINK_LAT_WATCH_SET, BRINK_LAT_WATCH_ALL };

/* An observed thread's wake-up that took longer than the limit, or its sleep in a futex that did. */
enum brink_lat_spike_kind {
	BRINK_LAT_SPIKE_WAKE,
	BRINK_LAT_SPIKE_BLOCKED,
	BRINK_LAT_SPIKE_NORMAL,	/* within the limit, for comparison: at most one in BRINK_LAT_NORMAL_NS a CPU */
};
#define BRINK_LAT_NORMAL_NS 50000000

struct brink_lat_spike {
	__u64 begin;		/* sched_waking, or the switch-out */
	__u64 end;		/* switch-in, or sched_waking */
	__u64 waker_off_begin;	/* last time the waker was off its CPU */
	__u64 waker_off_end;
	__u32 kind;
	__u32 tid;
	__u32 tgid;
	__u32 cpu;
	__u32 waker_tid;
	__u32 waker_tgid;
	__u32 waker_off_state;	/* why: 0 preempted, 4 stopped, ... */
	__u32 syscall;		/* of a sleep */
	char comm[BRINK_LAT_COMM];
	char waker_comm[BRINK_LAT_COMM];
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_spike) == 96);
BRINK_ABI_FIELD(struct brink_lat_spike, begin, 0, 8);
BRINK_ABI_FIELD(struct brink_lat_spike, kind, 32, 4);
BRINK_ABI_FIELD(struct brink_lat_spike, comm, 64, 16);

/* Of one observed thread, or of an observed process's thread. */
struct brink_lat_watch_stat {
	__u64 count;
	__u64 sum;
	__u64 max;
	__u32 tgid;
	__u32 reserved;
	char comm[BRINK_LAT_COMM];
};
BRINK_ABI_ASSERT(sizeof(struct brink_lat_watch_stat) == 48);

#endif /* BRINK_ABI_LATENCY_H_ */
