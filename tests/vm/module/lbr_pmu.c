// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PMU: four counters a CPU. With the plugin they count the guest's instructions or taken branches and overflow in
 * an NMI, as hardware does; without it, and on arm64 where there is no such interrupt, a timer makes the overflows and a
 * cycle is a nanosecond.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <asm/irq_regs.h>
#ifdef CONFIG_X86
#include <asm/nmi.h>
#endif

#include "lbr.h"

#define SHORTEST_NS 20000

struct counter {
	struct perf_event *event;
	struct hrtimer timer;
};

static DEFINE_PER_CPU(struct counter [LBR_COUNTERS], counters);

static struct lbr_counter *hardware(const struct perf_event *event)
{
	return &lbr_registers()->counters[event->hw.idx];
}

/* Whether the plugin makes the overflows. */
static bool counted(void)
{
	return IS_ENABLED(CONFIG_X86) && lbr_bar;
}

static u64 now_of(const struct perf_event *event)
{
	return counted() ? READ_ONCE(hardware(event)->count) : local_clock();
}

static void pmu_read(struct perf_event *event)
{
	u64 now, before;

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	now = now_of(event);
	before = local64_xchg(&event->hw.prev_count, now);
	local64_add(now - before, &event->count);
}

/* Arms the next overflow; what a long handler ate is taken off, as the x86 driver does. */
static u64 next_period(struct perf_event *event)
{
	struct hw_perf_event *hw = &event->hw;
	s64 left = local64_read(&hw->period_left), period = hw->sample_period;

	if (left <= -period)
		left = period;
	else if (left <= 0)
		left += period;
	hw->last_period = period;
	local64_set(&hw->period_left, 0);
	return max_t(s64, left, counted() ? 2 : SHORTEST_NS);
}

static void sample(struct perf_event *event, struct pt_regs *regs)
{
	struct perf_branch_stack *stack;
	struct perf_sample_data data;

	perf_sample_data_init(&data, 0, event->hw.last_period);
	if (has_branch_stack(event)) {
		stack = lbr_sample(event, regs);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
		perf_sample_save_brstack(&data, event, stack, NULL);
#else
		data.br_stack = stack;
		data.sample_flags |= PERF_SAMPLE_BRANCH_STACK;
#endif
	}
	if (lbr_overflow(event, &data, regs))
		event->pmu->stop(event, 0);
}

static bool excluded(struct perf_event *event, struct pt_regs *regs)
{
	return user_mode(regs) ? event->attr.exclude_user : event->attr.exclude_kernel;
}

static enum hrtimer_restart timer_fired(struct hrtimer *timer)
{
	struct counter *counter = container_of(timer, struct counter, timer);
	struct perf_event *event = counter->event;
	struct pt_regs *regs = get_irq_regs();

	if (!event || (event->hw.state & PERF_HES_STOPPED))
		return HRTIMER_NORESTART;
	pmu_read(event);
	if (regs && !excluded(event, regs) && !(event->attr.exclude_idle && is_idle_task(current)))
		sample(event, regs);
	if (event->hw.state & PERF_HES_STOPPED)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(next_period(event)));
	return HRTIMER_RESTART;
}

#ifdef CONFIG_X86
static int nmi_arrived(unsigned int type, struct pt_regs *regs)
{
	struct lbr_cpu *registers;
	int i, handled = NMI_DONE;

	if (!lbr_bar)
		return NMI_DONE;
	registers = lbr_registers();
	for (i = 0; i < LBR_COUNTERS; i++) {
		struct perf_event *event = this_cpu_ptr(counters)[i].event;

		if (!registers->counters[i].overflowed)
			continue;
		registers->counters[i].overflowed = 0;
		handled = NMI_HANDLED;
		if (!event || (event->hw.state & PERF_HES_STOPPED))
			continue;
		pmu_read(event);
		if (!is_sampling_event(event)) {
			registers->counters[i].left = S64_MAX;
			continue;
		}
		local64_set(&event->hw.period_left, registers->counters[i].left);
		registers->counters[i].left = next_period(event);
		sample(event, regs);
	}
	/* Last: from here on this handler's way out is recorded again. */
	if (registers->in_nmi) {
		WRITE_ONCE(registers->freeze, registers->freeze_before_nmi);
		WRITE_ONCE(registers->in_nmi, 0);
	}
	return handled;
}

static int interrupts_init(void) { return register_nmi_handler(NMI_LOCAL, nmi_arrived, 0, "brink_lbr"); }
static void interrupts_exit(void) { unregister_nmi_handler(NMI_LOCAL, "brink_lbr"); }
#else
static int interrupts_init(void) { return 0; }
static void interrupts_exit(void) {}
#endif

static void pmu_start(struct perf_event *event, int flags)
{
	u64 left = is_sampling_event(event) ? next_period(event) : S64_MAX;
	struct hw_perf_event *hw = &event->hw;

	hw->state = 0;
	local64_set(&hw->prev_count, now_of(event));
	if (counted()) {
		hardware(event)->overflowed = 0;
		hardware(event)->left = left;
		WRITE_ONCE(hardware(event)->control, hw->config);
	} else if (is_sampling_event(event)) {
		hrtimer_start(&this_cpu_ptr(counters)[hw->idx].timer, ns_to_ktime(left), HRTIMER_MODE_REL_PINNED_HARD);
	}
	perf_event_update_userpage(event);
}

static void pmu_stop(struct perf_event *event, int flags)
{
	struct hw_perf_event *hw = &event->hw;

	if (hw->state & PERF_HES_STOPPED)
		return;
	pmu_read(event);
	if (counted()) {
		WRITE_ONCE(hardware(event)->control, 0);
		if (is_sampling_event(event))
			local64_set(&hw->period_left, hardware(event)->left);
	} else {
		/* Not the waiting form: throttling stops from inside the timer. */
		hrtimer_try_to_cancel(&this_cpu_ptr(counters)[hw->idx].timer);
	}
	hw->state |= PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int pmu_add(struct perf_event *event, int flags)
{
	struct counter *mine = this_cpu_ptr(counters);
	int i, err;

	for (i = 0; i < LBR_COUNTERS && mine[i].event; i++)
		;
	if (i == LBR_COUNTERS)
		return -EAGAIN;
	if (has_branch_stack(event)) {
		err = lbr_user_add(event);
		if (err)
			return err;
	}
	if (lbr_bar)
		WRITE_ONCE(lbr_registers()->armed, lbr_registers()->armed + 1);
	event->hw.idx = i;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	WRITE_ONCE(mine[i].event, event);
	if (flags & PERF_EF_START)
		pmu_start(event, PERF_EF_RELOAD);
	return 0;
}

static void pmu_del(struct perf_event *event, int flags)
{
	pmu_stop(event, PERF_EF_UPDATE);
	WRITE_ONCE(this_cpu_ptr(counters)[event->hw.idx].event, NULL);
	if (has_branch_stack(event))
		lbr_user_del(event);
	if (lbr_bar)
		WRITE_ONCE(lbr_registers()->armed, lbr_registers()->armed - 1);
	perf_event_update_userpage(event);
}

/* The core brackets its changes with these, and hardware neither counts nor records in between. */
static void pmu_disable(struct pmu *pmu)
{
	if (lbr_bar)
		WRITE_ONCE(lbr_registers()->off, 1);
}

static void pmu_enable(struct pmu *pmu)
{
	if (lbr_bar)
		WRITE_ONCE(lbr_registers()->off, 0);
}

/* What the counters can count, as perf's generic events and as raw configs (Intel's encodings, AMD's 0xc4). */
static int what_to_count(const struct perf_event *event, u32 *control)
{
	*control = 0;
	if (event->attr.type == PERF_TYPE_HARDWARE) {
		switch (event->attr.config & 0xffffffff) {
		case PERF_COUNT_HW_CPU_CYCLES:
		case PERF_COUNT_HW_INSTRUCTIONS:
		case PERF_COUNT_HW_REF_CPU_CYCLES:
			return 0;
		case PERF_COUNT_HW_BRANCH_INSTRUCTIONS:
			*control = LBR_COUNT_BRANCHES;
			return 0;
		}
		return -ENOENT;
	}
	switch (event->attr.config & 0xffff) {
	case 0x1b00:	/* no counter on Intel, only the branch records */
	case 0x003c: case 0x0076: case 0x00c0:
		return 0;
	case 0x00c4: case 0x20c4:
		*control = LBR_COUNT_BRANCHES;
		return 0;
	}
	return -EINVAL;
}

static int pmu_event_init(struct perf_event *event)
{
	u32 control;
	int err;

	if (event->attr.type != event->pmu->type &&
	    !(event->attr.type == PERF_TYPE_HARDWARE && event->pmu->type == PERF_TYPE_RAW))
		return -ENOENT;
	err = what_to_count(event, &control);
	if (err)
		return err;
	if (event->attr.precise_ip)
		return -EOPNOTSUPP;
	if (has_branch_stack(event)) {
		err = lbr_check_filter(event);
		if (err)
			return err;
	}
	control |= LBR_COUNT_ON;
	if (!event->attr.exclude_user)
		control |= LBR_COUNT_USER;
	if (!event->attr.exclude_kernel)
		control |= LBR_COUNT_KERNEL;
	event->hw.config = control;
	return 0;
}

static ssize_t show_branches(struct device *dev, struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%u\n", lbr_depth);
}

static DEVICE_ATTR(branches, 0444, show_branches, NULL);
static struct attribute *caps_attrs[] = { &dev_attr_branches.attr, NULL };

static umode_t caps_visible(struct kobject *kobj, struct attribute *attr, int i)
{
	return lbr_flavour == LBR_NONE ? 0 : attr->mode;
}

static const struct attribute_group caps_group = { .name = "caps", .attrs = caps_attrs, .is_visible = caps_visible };

PMU_FORMAT_ATTR(event, "config:0-7");
PMU_FORMAT_ATTR(umask, "config:8-15");
static struct attribute *format_attrs[] = { &format_attr_event.attr, &format_attr_umask.attr, NULL };
static const struct attribute_group format_group = { .name = "format", .attrs = format_attrs };

PMU_EVENT_ATTR_STRING(cycles, event_cycles, "event=0x3c");
PMU_EVENT_ATTR_STRING(instructions, event_instructions, "event=0xc0");
PMU_EVENT_ATTR_STRING(branches, event_branches, "event=0xc4");
PMU_EVENT_ATTR_STRING(branch-brs, event_brs, "event=0xc4");
static struct attribute *event_attrs[] = {
	&event_cycles.attr.attr, &event_instructions.attr.attr, &event_branches.attr.attr, &event_brs.attr.attr, NULL
};

static umode_t events_visible(struct kobject *kobj, struct attribute *attr, int i)
{
	return attr == &event_brs.attr.attr && lbr_flavour != LBR_BRS ? 0 : attr->mode;
}

static const struct attribute_group events_group = {
	.name = "events", .attrs = event_attrs, .is_visible = events_visible
};

static const struct attribute_group *groups[] = { &caps_group, &format_group, &events_group, NULL };

static struct pmu lbr_pmu = {
	.module = THIS_MODULE,
	.task_ctx_nr = perf_hw_context,
	.attr_groups = groups,
	.pmu_enable = pmu_enable,
	.pmu_disable = pmu_disable,
	.event_init = pmu_event_init,
	.add = pmu_add,
	.del = pmu_del,
	.start = pmu_start,
	.stop = pmu_stop,
	.read = pmu_read,
};

int lbr_pmu_init(const char *name, int type)
{
	int cpu, i, err;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < LBR_COUNTERS; i++) {
			struct hrtimer *timer = &per_cpu(counters, cpu)[i].timer;

			hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
			timer->function = timer_fired;
		}
	}
	err = interrupts_init();
	if (err)
		return err;
	err = perf_pmu_register(&lbr_pmu, name, type);
	if (err)
		interrupts_exit();
	return err;
}

void lbr_pmu_exit(void)
{
	perf_pmu_unregister(&lbr_pmu);
	interrupts_exit();
}
