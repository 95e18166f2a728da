// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps interrupts off on request, so that a latency tool has something to find: the number of nanoseconds is written to
 * /sys/module/brink_lbr/parameters/irqs_off and spent on the writer's CPU.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>

#define LBR_HOLD_MOST_NS 100000000ULL

/* Named in stacks and branches; never inlined. */
static noinline void lbr_hold_interrupts_off(u64 length)
{
	u64 end = ktime_get_mono_fast_ns() + length;
	unsigned long flags;

	local_irq_save(flags);
	while (ktime_get_mono_fast_ns() < end)
		cpu_relax();
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

static const struct kernel_param_ops lbr_hold_ops = { .set = lbr_hold_set };
module_param_cb(irqs_off, &lbr_hold_ops, NULL, 0200);
MODULE_PARM_DESC(irqs_off, "write: nanoseconds for which interrupts stay off on this CPU, at most 100 ms");
