/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a session tells its BPF programs: the read-only configuration that every object of bpf/lib carries as
 * `brink_cfg`, and the values of the shared maps.
 *
 * The configuration is frozen at load, so the verifier removes what a switch turns off.
 */
#ifndef BRINK_ABI_SESSION_H_
#define BRINK_ABI_SESSION_H_

#include "brink/abi/event.h"
#include "brink/abi/filter.h"

/* Which samples are the target's. */
enum brink_target_mode {
	BRINK_TARGET_ALL = 0,		/* every task (or the perf event itself is bound to tasks or a cgroup) */
	BRINK_TARGET_TGIDS = 1,		/* processes in brink_tasks; children join before they run */
	BRINK_TARGET_TIDS = 2,		/* threads in brink_tasks; children do not join */
	BRINK_TARGET_CGROUP = 3,	/* tasks below one of brink_cgroups (cgroup v2) */
};

/* config.flags */
#define BRINK_CFG_SKIP_KERNEL 0x0001	/* drop samples that hit the kernel */
#define BRINK_CFG_SKIP_USER 0x0002	/* drop samples that hit user code */
#define BRINK_CFG_CHAIN_USER 0x0004	/* call chain: user frames */
#define BRINK_CFG_CHAIN_KERNEL 0x0008	/* call chain: kernel frames */
#define BRINK_CFG_REPLAY 0x0010		/* tests only: stacks come from brink_replay instead of the source */
#define BRINK_CFG_TASK_EVENTS 0x0020	/* emit struct brink_task_event for members of the set */
#define BRINK_CFG_NO_CHILDREN 0x0080	/* what members fork does not join the set */
#define BRINK_CFG_COOKIE 0x0040		/* several events: the link's cookie is the event index */
#define BRINK_CFG_FILTER_SAMPLES 0x0100	/* run the sample program of brink_filter_prog */
#define BRINK_CFG_FILTER_RECORDS 0x0200	/* run its record program over the entries */

#define BRINK_MAX_CGROUPS 16
/* Processes or threads that the set can hold; more are counted as BRINK_CNT_TASKS_LOST. */
#define BRINK_MAX_TASKS 65536

struct brink_bpf_config {
	__u32 target_mode;	/* enum brink_target_mode */
	__u32 flags;		/* BRINK_CFG_* */
	__u32 depth;		/* most branches kept of a stack */
	__u32 cgroups;		/* used slots of brink_cgroups */
	__u32 wake_bytes;	/* fill of the ring at which its reader is woken; below it the reader's timer serves */
	__u32 ring_bytes;	/* size of the ring */
	__u32 own_tgid;		/* the collector, never sampled; 0 = none */
	__u32 source;		/* enum brink_source, copied into each sample */
	__u32 period_ns;	/* nominal distance of two samples, 0 = not a clock */
	__u32 command_tgid;	/* the command's process: not sampled before its first exec; 0 = none */
};
BRINK_ABI_ASSERT(sizeof(struct brink_bpf_config) == 40);
BRINK_ABI_FIELD(struct brink_bpf_config, target_mode, 0, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, flags, 4, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, depth, 8, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, cgroups, 12, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, wake_bytes, 16, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, ring_bytes, 20, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, own_tgid, 24, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, source, 28, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, period_ns, 32, 4);
BRINK_ABI_FIELD(struct brink_bpf_config, command_tgid, 36, 4);

/*
 * Value of brink_tasks, keyed by tgid or tid (__u32). The start time tells a reused id from the task that was meant:
 * /proc shows it in ticks of 10 ms only, so both sides compare ticks.
 */
struct brink_task_entry {
	__u64 start_ticks;	/* start_boottime / 10 ms of the process leader (or of the thread) */
};
BRINK_ABI_ASSERT(sizeof(struct brink_task_entry) == 8);
BRINK_ABI_FIELD(struct brink_task_entry, start_ticks, 0, 8);
#define BRINK_NS_PER_TICK 10000000ULL

/* Value of brink_replay: one recorded stack, newest entry first. */
#define BRINK_REPLAY_STACKS 1024
struct brink_replay_stack {
	__u32 nr;
	__u32 reserved;
	__u64 ip;
	struct brink_branch entries[BRINK_MAX_HW_BRANCHES];
};
BRINK_ABI_ASSERT(sizeof(struct brink_replay_stack) == 16 + 24 * BRINK_MAX_HW_BRANCHES);
BRINK_ABI_FIELD(struct brink_replay_stack, nr, 0, 4);
BRINK_ABI_FIELD(struct brink_replay_stack, ip, 8, 8);
BRINK_ABI_FIELD(struct brink_replay_stack, entries, 16, 24 * BRINK_MAX_HW_BRANCHES);

#endif /* BRINK_ABI_SESSION_H_ */
