// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Interrupts, softirqs, page faults, reclaim, idle states and frequency into the log of their CPU. */
#include "lib/latency.h"

char LICENSE[] SEC("license") = "GPL";

lat_inline int irq_enter(void)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu)
		cpu->irq_start = bpf_ktime_get_ns();
	return 0;
}

/* The timer's interrupt, which should come at least once a period of the measuring threads. */
lat_inline int timer_enter(void)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu) {
		cpu->irq_start = bpf_ktime_get_ns();
		cpu->timer_before = cpu->timer_last;
		cpu->timer_last = cpu->irq_start;
	}
	return 0;
}

lat_inline int irq_exit(__u32 id)
{
	struct brink_lat_cpu *cpu = lat_cpu();
	__u64 start;

	if (!cpu)
		return 0;
	start = cpu->irq_start;
	cpu->irq_start = 0;
	if (start)
		lat_log_irq(cpu, BRINK_LAT_HARDIRQ, id, start, bpf_ktime_get_ns());
	return 0;
}

SEC("?tp_btf/local_timer_entry")
int lat_local_timer_entry(void *ctx)
{
	if (lat_cfg.snapshots)
		lat_take_irq_snapshot();
	return timer_enter();
}

#define LAT_VECTOR(name, id)						\
	SEC("?tp_btf/" #name "_entry") int lat_##name##_entry(void *ctx)	\
	{								\
		return irq_enter();					\
	}								\
	SEC("?tp_btf/" #name "_exit") int lat_##name##_exit(void *ctx)	\
	{								\
		return irq_exit(id);					\
	}

SEC("?tp_btf/local_timer_exit")
int lat_local_timer_exit(void *ctx)
{
	return irq_exit(BRINK_LAT_VEC_TIMER);
}

LAT_VECTOR(reschedule, BRINK_LAT_VEC_RESCHEDULE)
LAT_VECTOR(call_function, BRINK_LAT_VEC_CALL)
LAT_VECTOR(call_function_single, BRINK_LAT_VEC_CALL_SINGLE)
LAT_VECTOR(irq_work, BRINK_LAT_VEC_IRQ_WORK)

/* Where there are no irq_vectors the timer's expiry is the first that is seen of its interrupt. */
SEC("?tp_btf/hrtimer_expire_entry")
int lat_hrtimer_expire_entry(void *ctx)
{
	if (lat_cfg.irq_vectors)
		return 0;
	if (lat_cfg.snapshots)
		lat_take_irq_snapshot();
	return timer_enter();
}

SEC("?tp_btf/hrtimer_expire_exit")
int lat_hrtimer_expire_exit(void *ctx)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu && !lat_cfg.irq_vectors)
		cpu->irq_start = 0;
	return 0;
}

SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(lat_irq_handler_entry, int irq)
{
	return irq_enter();
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(lat_irq_handler_exit, int irq)
{
	return irq_exit(BRINK_LAT_VEC_DEVICE + irq);
}

/* Who interrupts whom: logged by the CPU that sends. */
lat_inline int log_ipi(__u32 target, __u64 function)
{
	struct brink_lat_cpu *cpu = lat_cpu();
	__u64 now = bpf_ktime_get_ns();
	struct brink_lat_event *event;

	if (!cpu)
		return 0;
	event = lat_log_irq(cpu, BRINK_LAT_IPI, target, now, now);
	event->work = function;
	event->aux = bpf_get_current_pid_tgid();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return 0;
}

SEC("?tp_btf/ipi_send_cpu")
int BPF_PROG(lat_ipi_send_cpu, unsigned int target, unsigned long callsite, void *callback)
{
	return log_ipi(target, callback ? (__u64)callback : callsite);
}

SEC("?tp_btf/ipi_send_cpumask")
int BPF_PROG(lat_ipi_send_cpumask, const void *mask, unsigned long callsite, void *callback)
{
	return log_ipi(BRINK_LAT_IPI_MANY, callback ? (__u64)callback : callsite);
}

/* arm64: one pair of tracepoints for every kind. */
SEC("?tp_btf/ipi_entry")
int lat_ipi_entry(void *ctx)
{
	return irq_enter();
}

SEC("?tp_btf/ipi_exit")
int lat_ipi_exit(void *ctx)
{
	return irq_exit(BRINK_LAT_VEC_IPI);
}

SEC("?tp_btf/softirq_entry")
int BPF_PROG(lat_softirq_entry, unsigned int nr)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu)
		cpu->softirq_start = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/softirq_exit")
int BPF_PROG(lat_softirq_exit, unsigned int nr)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu && cpu->softirq_start) {
		lat_log_irq(cpu, BRINK_LAT_SOFTIRQ, nr, cpu->softirq_start, bpf_ktime_get_ns());
		cpu->softirq_start = 0;
	}
	return 0;
}

lat_inline int count_fault(void)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu)
		cpu->faults++;
	return 0;
}

SEC("?tp_btf/page_fault_user")
int lat_page_fault_user(void *ctx)
{
	return count_fault();
}

SEC("?tp_btf/page_fault_kernel")
int lat_page_fault_kernel(void *ctx)
{
	return count_fault();
}

lat_inline int reclaim_begin(void)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu)
		cpu->reclaim_start = bpf_ktime_get_ns();
	return 0;
}

lat_inline int reclaim_end(void)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu && cpu->reclaim_start) {
		cpu->reclaim_ns += bpf_ktime_get_ns() - cpu->reclaim_start;
		cpu->reclaim_start = 0;
	}
	return 0;
}

SEC("?tp_btf/mm_vmscan_direct_reclaim_begin")
int lat_direct_reclaim_begin(void *ctx)
{
	return reclaim_begin();
}

SEC("?tp_btf/mm_vmscan_direct_reclaim_end")
int lat_direct_reclaim_end(void *ctx)
{
	return reclaim_end();
}

SEC("?tp_btf/mm_vmscan_memcg_reclaim_begin")
int lat_memcg_reclaim_begin(void *ctx)
{
	return reclaim_begin();
}

SEC("?tp_btf/mm_vmscan_memcg_reclaim_end")
int lat_memcg_reclaim_end(void *ctx)
{
	return reclaim_end();
}

SEC("?tp_btf/cpu_idle")
int BPF_PROG(lat_cpu_idle, unsigned int state, unsigned int cpu_id)
{
	struct brink_lat_cpu *cpu = lat_cpu();
	__u64 now = bpf_ktime_get_ns();

	if (!cpu)
		return 0;
	if (state != (__u32)-1) {
		cpu->idle_start = now;
		cpu->idle_state = state;
	} else if (cpu->idle_start) {
		lat_log_irq(cpu, BRINK_LAT_IDLE_STATE, cpu->idle_state, cpu->idle_start, now);
		cpu->idle_start = 0;
	}
	return 0;
}

SEC("?tp_btf/cpu_frequency")
int BPF_PROG(lat_cpu_frequency, unsigned int khz, unsigned int cpu_id)
{
	__u32 key = cpu_id;
	struct brink_lat_cpu *cpu = bpf_map_lookup_elem(&lat_cpus, &key);
	__u64 now = bpf_ktime_get_ns();

	if (cpu)
		lat_append(cpu, BRINK_LAT_FREQ, khz, now, now);
	return 0;
}

SEC("?tp_btf/workqueue_execute_start")
int BPF_PROG(lat_workqueue_execute_start, struct work_struct *work)
{
	struct brink_lat_cpu *cpu = lat_cpu();

	if (cpu)
		cpu->work = (__u64)work->func;
	return 0;
}
