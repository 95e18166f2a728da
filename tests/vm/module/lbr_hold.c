// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps interrupts off on request, so that a latency tool has something to find: the number of nanoseconds is written to
 * /sys/module/brink_lbr/parameters/irqs_off and spent on the writer's CPU. Reading it tells how much of the last time the
 * host had the CPU for itself: such a stretch is not what was asked for.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>

#define LBR_HOLD_MOST_NS 100000000ULL
/* A clock that is read without pause moves in smaller steps. */
#define LBR_HOLD_STEP_NS 200000ULL

static u64 lbr_hold_stolen;

/* Named in stacks and branches; never inlined. */
static noinline void lbr_hold_interrupts_off(u64 length)
{
	u64 now, last = ktime_get_mono_fast_ns(), end = last + length, stolen = 0;
	unsigned long flags;

	local_irq_save(flags);
	do {
		now = ktime_get_mono_fast_ns();
		if (now - last > LBR_HOLD_STEP_NS)
			stolen += now - last;
		last = now;
		cpu_relax();
	} while (now < end);
	local_irq_restore(flags);
	lbr_hold_stolen = stolen;
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

static int lbr_hold_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%llu\n", lbr_hold_stolen);
}

static const struct kernel_param_ops lbr_hold_ops = { .set = lbr_hold_set, .get = lbr_hold_get };
module_param_cb(irqs_off, &lbr_hold_ops, NULL, 0600);
MODULE_PARM_DESC(irqs_off, "write: nanoseconds for which interrupts stay off on this CPU, at most 100 ms");
