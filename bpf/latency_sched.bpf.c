// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Wake-ups and switches: the split of a measured thread's lateness, and who had its CPU. */
#include "lib/latency.h"

/* The task that the wake-up interrupts in user mode: from here its next branches can be walked. */
lat_inline void lat_keep_interrupted(struct brink_lat_cpu *cpu, __u64 now)
{
#if defined(__TARGET_ARCH_x86)
	struct task_struct *task = bpf_get_current_task_btf();
	struct brink_lat_regs *kept = &cpu->interrupted;
	struct pt_regs___lat *regs;
	__u64 id = bpf_get_current_pid_tgid();

	kept->when = 0;
	if (!task->mm)
		return;
	regs = (void *)bpf_task_pt_regs(task);
	if ((__s64)BPF_CORE_READ(regs, orig_ax) >= 0)
		return;
	kept->reg[0] = BPF_CORE_READ(regs, ax);
	kept->reg[1] = BPF_CORE_READ(regs, cx);
	kept->reg[2] = BPF_CORE_READ(regs, dx);
	kept->reg[3] = BPF_CORE_READ(regs, bx);
	kept->reg[4] = BPF_CORE_READ(regs, sp);
	kept->reg[5] = BPF_CORE_READ(regs, bp);
	kept->reg[6] = BPF_CORE_READ(regs, si);
	kept->reg[7] = BPF_CORE_READ(regs, di);
	kept->reg[8] = BPF_CORE_READ(regs, r8);
	kept->reg[9] = BPF_CORE_READ(regs, r9);
	kept->reg[10] = BPF_CORE_READ(regs, r10);
	kept->reg[11] = BPF_CORE_READ(regs, r11);
	kept->reg[12] = BPF_CORE_READ(regs, r12);
	kept->reg[13] = BPF_CORE_READ(regs, r13);
	kept->reg[14] = BPF_CORE_READ(regs, r14);
	kept->reg[15] = BPF_CORE_READ(regs, r15);
	kept->ip = BPF_CORE_READ(regs, ip);
	kept->flags = BPF_CORE_READ(regs, flags);
	kept->tid = id;
	kept->tgid = id >> 32;
	kept->stack_base = (kept->reg[4] - BRINK_LAT_BELOW_SP) & ~63ULL;
	kept->stack_bytes = sizeof(kept->stack);
	if (bpf_probe_read_user(kept->stack, sizeof(kept->stack), (void *)kept->stack_base)) {
		/* Near the stack's end. */
		kept->stack_bytes = sizeof(kept->stack) / 2;
		if (bpf_probe_read_user(kept->stack, sizeof(kept->stack) / 2, (void *)kept->stack_base))
			kept->stack_bytes = 0;
	}
	kept->when = now;
#endif
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(lat_sched_waking, struct task_struct *task)
{
	struct brink_lat_slot *slot = lat_slot_of(task->pid);
	struct brink_lat_cpu *cpu;
	__u64 now;

	if (!slot || !slot->deadline)
		return 0;
	now = bpf_ktime_get_ns();
	if (slot->waking) {
		slot->rewaking = now;
		return 0;
	}
	cpu = lat_cpu();
	if (!cpu)
		return 0;
	slot->irq = cpu->irq_start;
	slot->waking_in_irq = cpu->irq_start != 0;
	slot->waking_cpu = bpf_get_smp_processor_id();
	slot->waker_tid = bpf_get_current_pid_tgid();
	slot->waking = now;
	if (slot->waking_in_irq)
		lat_keep_interrupted(cpu, now);
	if (now > slot->deadline && now - slot->deadline > slot->limit)
		lat_capture(ctx, cpu, BRINK_LAT_AT_WAKING, now);
	return 0;
}

/* The wake-up has reached its CPU's queue: by an interrupt to it where another CPU woke the thread. */
SEC("?tp_btf/sched_wakeup")
int BPF_PROG(lat_sched_wakeup, struct task_struct *task)
{
	struct brink_lat_slot *slot = lat_slot_of(task->pid);

	if (slot && slot->waking && !slot->woken)
		slot->woken = bpf_ktime_get_ns();
	return 0;
}

lat_inline void lat_switched_out(struct brink_lat_slot *slot, __u64 now, unsigned int state)
{
	slot->out = now;
	slot->out_state = state;
	slot->rewaking = 0;
}

lat_inline void lat_switched_in(void *ctx, struct brink_lat_cpu *cpu, struct brink_lat_slot *slot, __u64 now)
{
	if (!slot->waking)
		return;
	if (!slot->first_in) {
		slot->first_in = now;
		slot->wait = now - slot->waking;
	} else if (slot->out_state && slot->rewaking >= slot->out) {
		slot->blocked += slot->rewaking - slot->out;
		slot->wait += now - slot->rewaking;
	} else {
		slot->wait += now - slot->out;
	}
	slot->last_in = now;
	slot->in_cpu = bpf_get_smp_processor_id();
	slot->switches++;
	if (slot->deadline && now > slot->deadline && now - slot->deadline > slot->limit)
		lat_capture(ctx, cpu, BRINK_LAT_AT_SWITCH, now);
}

/* The task's time on the CPU is over: one event. */
lat_inline void lat_log_task(struct brink_lat_cpu *cpu, struct task_struct *prev, __u64 now)
{
	struct brink_lat_event *event;
	__u64 reclaim = cpu->reclaim_ns;

	if (cpu->reclaim_start)
		reclaim += now - cpu->reclaim_start;
	if (cpu->task_start) {
		event = lat_append(cpu, BRINK_LAT_TASK, prev->pid, cpu->task_start, now);
		event->aux = prev->tgid;
		event->faults = cpu->faults;
		event->reclaim_us = reclaim / 1000;
		event->work = cpu->work;
		bpf_probe_read_kernel(event->comm, sizeof(event->comm), ((struct task_struct___lat *)prev)->comm);
	}
	cpu->task_start = now;
	cpu->faults = 0;
	cpu->reclaim_start = 0;
	cpu->reclaim_ns = 0;
	cpu->work = 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(lat_sched_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct brink_lat_slot *slot;
	struct brink_lat_cpu *cpu;
	__u64 now;

	if (lat_cfg.snapshots)
		lat_take_snapshot(LAT_SNAPSHOT_SWITCH);
	cpu = lat_cpu();
	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	slot = lat_slot_of(next->pid);
	if (slot)
		lat_switched_in(ctx, cpu, slot, now);
	slot = lat_slot_of(prev->pid);
	if (slot)
		lat_switched_out(slot, now, preempt ? 0 : prev_state);
	lat_log_task(cpu, prev, now);
	return 0;
}

SEC("?tp_btf/sched_migrate_task")
int BPF_PROG(lat_sched_migrate_task, struct task_struct *task, int dest)
{
	struct brink_lat_slot *slot = lat_slot_of(task->pid);
	struct brink_lat_cpu *cpu;
	struct brink_lat_event *event;
	__u64 now;

	if (!slot)
		return 0;
	slot->migrations++;
	cpu = lat_cpu();
	now = bpf_ktime_get_ns();
	if (cpu) {
		event = lat_append(cpu, BRINK_LAT_MIGRATE, task->pid, now, now);
		event->aux = dest;
	}
	return 0;
}
