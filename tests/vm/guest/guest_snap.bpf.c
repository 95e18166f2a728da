// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Takes branch stacks at every kind of hook; nothing of brink's own, so that the lane can judge the hardware itself. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

#include "guest_snap.h"

/* One page-sized buffer for all: the tests run on one CPU at a time. */
struct guest_stack scratch;
struct guest_stack results[GUEST_HOOKS];
__u32 target;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

static __always_inline void keep(enum guest_hook hook)
{
	struct guest_stack *result = &results[hook];

	if ((__u32)(bpf_get_current_pid_tgid() >> 32) != target)
		return;
	bpf_probe_read_kernel(result->entries, sizeof(result->entries), scratch.entries);
	result->bytes = scratch.bytes;
	result->ip = scratch.ip;
	result->tgid = target;
	result->hits++;
}

#define SNAPSHOT_AT(name, section, hook)							\
	SEC(section) int name(void *ctx)							\
	{											\
		scratch.bytes = bpf_get_branch_snapshot(scratch.entries, sizeof(scratch.entries), 0);	\
		keep(hook);									\
		return 0;									\
	}

SNAPSHOT_AT(at_raw_tp, "raw_tp/sys_enter", GUEST_RAW_TP)
SNAPSHOT_AT(at_tracepoint, "tp/syscalls/sys_enter_getppid", GUEST_TRACEPOINT)
SNAPSHOT_AT(at_fentry, "fentry/__do_sys_getppid", GUEST_FENTRY)
SNAPSHOT_AT(at_fexit, "fexit/__do_sys_getppid", GUEST_FEXIT)
SNAPSHOT_AT(at_kprobe, "kprobe", GUEST_KPROBE)
SNAPSHOT_AT(at_kretprobe, "kretprobe", GUEST_KRETPROBE)
SNAPSHOT_AT(at_uprobe, "uprobe", GUEST_UPROBE)

SEC("perf_event") int at_perf_event(struct bpf_perf_event_data *ctx)
{
	scratch.bytes = bpf_get_branch_snapshot(scratch.entries, sizeof(scratch.entries), 0);
	scratch.ip = ctx->regs.rip;
	keep(GUEST_PERF_EVENT);
	return 0;
}

/* The records that came with the sample. Answers 1, so that the kernel writes its own copy too. */
SEC("perf_event") int read_records(struct bpf_perf_event_data *ctx)
{
	scratch.bytes = bpf_read_branch_records(ctx, scratch.entries, sizeof(scratch.entries), 0);
	scratch.ip = ctx->regs.rip;
	scratch.tgid = bpf_get_current_pid_tgid() >> 32;
	if (bpf_ringbuf_output(&ring, &scratch, sizeof(scratch), 0) == 0)
		__sync_fetch_and_add(&results[GUEST_PERF_EVENT].hits, 1);
	return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
