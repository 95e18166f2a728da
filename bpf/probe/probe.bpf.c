// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * One program a capability. All are off by default; the prober opens this object anew for each, switches one on, loads,
 * attaches, triggers it in its own process and looks at probe_out.
 */
#include "probe/common.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} probe_ring SEC(".maps");

const volatile __u64 probe_addr = 0;

/* Program types. */
SEC("?perf_event") int on_perf_event(void *ctx) { return probe_hit(); }
SEC("?raw_tp/sys_enter") int on_raw_tp(void *ctx) { return probe_hit(); }
SEC("?tp_btf/sys_enter") int on_tp_btf(void *ctx) { return probe_hit(); }
SEC("?tracepoint") int on_tracepoint(void *ctx) { return probe_hit(); }
SEC("?kprobe") int on_kprobe(void *ctx) { return probe_hit(); }
SEC("?kprobe.multi") int on_kprobe_multi(void *ctx) { return probe_hit(); }
SEC("?uprobe") int on_uprobe(void *ctx) { return probe_hit(); }
SEC("?uretprobe") int on_uretprobe(void *ctx) { return probe_hit(); }
SEC("?kprobe") int on_uprobe_multi(void *ctx) { return probe_hit(); }
SEC("?fentry/bpf_fentry_test1") int on_fentry(void *ctx) { return probe_hit(); }
SEC("?fexit/bpf_fentry_test1") int on_fexit(void *ctx) { return probe_hit(); }
SEC("?lsm/file_open") int on_lsm(void *ctx) { return probe_hit(); }

/* The seccomp'd child of the uretprobe test is another process: count without looking at the tgid. */
SEC("?uretprobe") int on_child_uretprobe(void *ctx)
{
	__sync_fetch_and_add(&probe_out.fired, 1);
	return 0;
}

/* Helpers. */
SEC("?raw_tp") int do_ring(void *ctx)
{
	__u64 *word = bpf_ringbuf_reserve(&probe_ring, sizeof(*word), 0);

	if (!word)
		return 0;
	*word = BRINK_PROBE_MAGIC;
	bpf_ringbuf_submit(word, 0);
	probe_out.fired++;
	return 0;
}

static int count_to(__u32 index, void *ctx)
{
	__u64 *sum = ctx;

	*sum += index;
	return 0;
}

SEC("?raw_tp") int do_loop(void *ctx)
{
	__u64 sum = 0;

	probe_out.value = bpf_loop(1000, count_to, &sum, 0);
	probe_out.extra = sum;
	probe_out.fired++;
	return 0;
}

struct task_struct;
struct vm_area_struct;

static long saw_vma(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	/* Set, not counted: the verifier follows a callback until nothing changes any more. */
	*(__u64 *)ctx = 1;
	return 0;
}

/* In the clock interrupt, where walk needs it; on PREEMPT_RT the map lock cannot be tried there. */
SEC("?perf_event") int do_find_vma(void *ctx)
{
	__u64 seen = 0;
	long err;

	if (!probe_ours())
		return 0;
	err = bpf_find_vma(bpf_get_current_task_btf(), probe_addr, saw_vma, &seen, 0);
	if (err == 0 && seen)
		__sync_fetch_and_add(&probe_out.extra, 1);
	else
		probe_out.value = err;
	__sync_fetch_and_add(&probe_out.fired, 1);
	return 0;
}

static __u64 entries[3 * 64];

SEC("?raw_tp") int do_branch_snapshot(void *ctx)
{
	probe_out.value = bpf_get_branch_snapshot(entries, sizeof(entries), 0);
	probe_out.fired++;
	return 0;
}

SEC("?perf_event") int do_read_branches(struct bpf_perf_event_data *ctx)
{
	if (!probe_ours())
		return 0;
	probe_out.value = bpf_read_branch_records(ctx, NULL, 0, BPF_F_GET_BRANCH_RECORDS_SIZE);
	if (probe_out.value > 0)
		__sync_fetch_and_add(&probe_out.extra, 1);
	__sync_fetch_and_add(&probe_out.fired, 1);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct brink_probe_stack);
} probe_stack SEC(".maps");

/* A snapshot at our own system call number `probe_addr`. The held event records user branches only, so that looking
 * before shooting burns nothing. */
SEC("?raw_tp/sys_enter") int do_snapshot_live(struct bpf_raw_tracepoint_args *ctx)
{
	struct brink_probe_stack *stack;
	__u32 zero = 0;

	if (!probe_ours() || ctx->args[1] != probe_addr)
		return 0;
	stack = bpf_map_lookup_elem(&probe_stack, &zero);
	if (!stack)
		return 0;
	stack->bytes = bpf_get_branch_snapshot(stack->entries, sizeof(stack->entries), 0);
	probe_out.value = stack->bytes;
	__sync_fetch_and_add(&probe_out.fired, 1);
	return 0;
}
