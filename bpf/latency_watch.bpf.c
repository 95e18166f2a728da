// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Threads that are observed, not measured: wake-up latency from sched_waking to the switch-in, and long futex sleeps. */
#include "lib/latency.h"

/* tgid or tid -> anything (BRINK_LAT_WATCH_SET) */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} lat_watch_set SEC(".maps");

struct watch_task {
	__u64 waking;
	__u64 waker_off_begin;
	__u64 waker_off_end;
	__u32 waker_tid;
	__u32 waker_tgid;
	__u32 waker_off_state;
	__u32 reserved;
	char waker_comm[BRINK_LAT_COMM];
};

/* Of observed threads, by tid. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct watch_task);
} lat_watch_tasks SEC(".maps");

/* The last time that any task was off its CPU: who held a lock meanwhile is seen by it. */
struct watch_off {
	__u64 begin;
	__u64 end;	/* 0: still off */
	__u64 long_begin;	/* the longest before it, of the last second */
	__u64 long_end;
	__u32 state;
	__u32 syscall;
	__u32 long_state;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct watch_off);
} lat_watch_off SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BRINK_LAT_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} lat_watch_histogram SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct brink_lat_watch_stat);
} lat_watch_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} lat_spikes SEC(".maps");

/* Spikes for which the ring had no room. */
__u64 lat_spikes_lost;

lat_inline int watched(struct task_struct *task)
{
	__u32 key = task->tgid;

	if (!task->pid || key == lat_cfg.self_tgid)
		return 0;
	if (lat_cfg.watch == BRINK_LAT_WATCH_ALL)
		return 1;
	if (bpf_map_lookup_elem(&lat_watch_set, &key))
		return 1;
	key = task->pid;
	return bpf_map_lookup_elem(&lat_watch_set, &key) != 0;
}

lat_inline __u32 bucket_of(__u64 value)
{
	__u32 top = 0, shift;
	__u64 rest = value;

	if (value < (1 << BRINK_LAT_SUB_BITS))
		return value;
	if (rest >> 32) {
		top += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		top += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		top += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		top += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		top += 2;
		rest >>= 2;
	}
	top += rest >> 1;
	if (top >= BRINK_LAT_MAX_BITS)
		return BRINK_LAT_BUCKETS - 1;
	shift = top - BRINK_LAT_SUB_BITS;
	return ((shift + 1) << BRINK_LAT_SUB_BITS) + (__u32)((value >> shift) - (1 << BRINK_LAT_SUB_BITS));
}

lat_inline void send_spike(__u32 kind, struct task_struct *task, const struct watch_task *state, __u64 begin, __u64 end, __u32 syscall)
{
	struct brink_lat_spike *spike = bpf_ringbuf_reserve(&lat_spikes, sizeof(*spike), 0);

	if (!spike) {
		__sync_fetch_and_add(&lat_spikes_lost, 1);
		return;
	}
	spike->begin = begin;
	spike->end = end;
	spike->waker_off_begin = state->waker_off_begin;
	spike->waker_off_end = state->waker_off_end;
	spike->kind = kind;
	spike->tid = task->pid;
	spike->tgid = task->tgid;
	spike->cpu = bpf_get_smp_processor_id();
	spike->waker_tid = state->waker_tid;
	spike->waker_tgid = state->waker_tgid;
	spike->waker_off_state = state->waker_off_state;
	spike->syscall = syscall;
	bpf_probe_read_kernel(spike->comm, sizeof(spike->comm), ((struct task_struct___lat *)task)->comm);
	__builtin_memcpy(spike->waker_comm, state->waker_comm, sizeof(spike->waker_comm));
	bpf_ringbuf_submit(spike, 0);
}

/* How much of [from, to] lies within [begin, end]. */
lat_inline __u64 overlap(__u64 begin, __u64 end, __u64 from, __u64 to)
{
	if (begin < from)
		begin = from;
	if (end > to)
		end = to;
	return end > begin ? end - begin : 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(lat_watch_waking, struct task_struct *task)
{
	struct watch_task state = {};
	struct watch_off *off, *own;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id, key = task->pid;

	if (!watched(task))
		return 0;
	state.waking = bpf_ktime_get_ns();
	state.waker_tid = id;
	state.waker_tgid = id >> 32;
	bpf_get_current_comm(state.waker_comm, sizeof(state.waker_comm));
	own = bpf_map_lookup_elem(&lat_watch_off, &key);
	off = bpf_map_lookup_elem(&lat_watch_off, &tid);
	if (off && own) {
		state.waker_off_begin = off->begin;
		state.waker_off_end = off->end;
		state.waker_off_state = off->state;
		if (overlap(off->long_begin, off->long_end, own->begin, state.waking) > overlap(off->begin, off->end, own->begin, state.waking)) {
			state.waker_off_begin = off->long_begin;
			state.waker_off_end = off->long_end;
			state.waker_off_state = off->long_state;
		}
	}
	bpf_map_update_elem(&lat_watch_tasks, &key, &state, BPF_ANY);
	if (own && lat_cfg.block_limit && own->state && own->syscall == lat_cfg.futex_syscall &&
	    state.waking - own->begin > lat_cfg.block_limit)
		send_spike(BRINK_LAT_SPIKE_BLOCKED, task, &state, own->begin, state.waking, own->syscall);
	return 0;
}

lat_inline void watched_in(void *ctx, struct task_struct *task, __u64 now)
{
	struct brink_lat_cpu *cpu = lat_cpu();
	struct brink_lat_watch_stat *stat, first = {};
	struct watch_task *state;
	__u32 key = task->pid, bucket;
	__u64 *cell, latency;

	state = bpf_map_lookup_elem(&lat_watch_tasks, &key);
	if (!state || !state->waking)
		return;
	latency = now - state->waking;
	bucket = bucket_of(latency);
	cell = bpf_map_lookup_elem(&lat_watch_histogram, &bucket);
	if (cell)
		(*cell)++;
	stat = bpf_map_lookup_elem(&lat_watch_stats, &key);
	if (!stat) {
		first.tgid = task->tgid;
		bpf_probe_read_kernel(first.comm, sizeof(first.comm), ((struct task_struct___lat *)task)->comm);
		bpf_map_update_elem(&lat_watch_stats, &key, &first, BPF_NOEXIST);
		stat = bpf_map_lookup_elem(&lat_watch_stats, &key);
	}
	if (stat) {
		stat->count++;
		stat->sum += latency;
		if (latency > stat->max)
			stat->max = latency;
	}
	if (latency > lat_cfg.watch_limit) {
		if (cpu)
			lat_capture(ctx, cpu, BRINK_LAT_AT_SWITCH, now);
		send_spike(BRINK_LAT_SPIKE_WAKE, task, state, state->waking, now, 0);
	} else if (cpu && now - cpu->normal_last > BRINK_LAT_NORMAL_NS) {
		cpu->normal_last = now;
		lat_capture(ctx, cpu, BRINK_LAT_AT_SWITCH, now);
		send_spike(BRINK_LAT_SPIKE_NORMAL, task, state, state->waking, now, 0);
	}
	state->waking = 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(lat_watch_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct watch_off off = {}, *last;
	__u64 now = bpf_ktime_get_ns();
	__u32 key = prev->pid;

	if (key) {
		last = bpf_map_lookup_elem(&lat_watch_off, &key);
		if (last) {
			off.long_begin = last->long_begin;
			off.long_end = last->long_end;
			off.long_state = last->long_state;
			/* The later one of two that are much alike: a holder that is held up again and again, each time for as
			 * long, and then for a moment more. */
			if (2 * (last->end - last->begin) > off.long_end - off.long_begin || now - off.long_end > 1000000000ULL) {
				off.long_begin = last->begin;
				off.long_end = last->end;
				off.long_state = last->state;
			}
		}
		off.begin = now;
		off.state = preempt ? 0 : prev_state;
		off.syscall = -1;
#if defined(__TARGET_ARCH_x86)
		/* Of user threads only: a kernel thread's registers hold nothing. */
		if (prev->mm) {
			struct pt_regs___lat *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

			off.syscall = BPF_CORE_READ(regs, orig_ax);
		}
#endif
		bpf_map_update_elem(&lat_watch_off, &key, &off, BPF_ANY);
	}
	key = next->pid;
	last = bpf_map_lookup_elem(&lat_watch_off, &key);
	if (last)
		last->end = now;
	if (watched(next))
		watched_in(ctx, next, now);
	return 0;
}
