// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps interrupts off on request, so that a latency tool has something to find: the number of nanoseconds is written to
 * /sys/module/brink_lbr/parameters/irqs_off and spent on the writer's CPU. Read, it says from when to when they were off
 * the last time ("start end", CLOCK_MONOTONIC, ns): what an emulated CPU makes of the number is not foreseeable.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sysfs.h>

#define LBR_HOLD_MOST_NS 100000000ULL

static u64 lbr_hold_start, lbr_hold_end;	/* read by who wrote */

/* Named in stacks and branches; never inlined. */
static noinline void lbr_hold_interrupts_off(u64 length)
{
	unsigned long flags;
	u64 start, now;

	local_irq_save(flags);
	start = now = ktime_get_mono_fast_ns();
	while (now < start + length) {
		cpu_relax();
		now = ktime_get_mono_fast_ns();
	}
	lbr_hold_start = start;
	lbr_hold_end = now;
	local_irq_restore(flags);
}

static int lbr_hold_set(const char *text, const struct kernel_param *param)
{
	unsigned long long length;
	int err = kstrtoull(text, 0, &length);

	if (err)
		return err;
	if (length > LBR_HOLD_MOST_NS)
		return -ERANGE;
	lbr_hold_interrupts_off(length);
	return 0;
}

static int lbr_hold_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%llu %llu\n", lbr_hold_start, lbr_hold_end);
}

static const struct kernel_param_ops lbr_hold_ops = { .set = lbr_hold_set, .get = lbr_hold_get };
module_param_cb(irqs_off, &lbr_hold_ops, NULL, 0600);
MODULE_PARM_DESC(irqs_off, "write: nanoseconds for which interrupts stay off on this CPU, at most 100 ms");
