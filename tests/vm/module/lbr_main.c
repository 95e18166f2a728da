// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branch hardware for guests that have none: a PMU with branch stacks and the kernel's branch snapshot. For tests
 * only: it takes what it needs from the kernel by name, exported or not.
 */
#include <linux/cpu.h>
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/static_call.h>
#include <linux/tracepoint.h>
#ifdef CONFIG_X86
#include <asm/desc.h>
#else
#include <asm/sysreg.h>
#endif

#include "lbr.h"

static char *flavour = "intel";
module_param(flavour, charp, 0444);
MODULE_PARM_DESC(flavour, "whose rules to follow: intel amd brs brbe none");
static char *source = "auto";
module_param(source, charp, 0444);
MODULE_PARM_DESC(source, "auto (the plugin where its device is there), plugin, canned");
static char *name = "cpu";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "of the PMU; 'cpu' also serves the generic hardware events");
unsigned int lbr_depth = 32;
module_param_named(depth, lbr_depth, uint, 0444);
unsigned long lbr_refuse;
module_param_named(refuse, lbr_refuse, ulong, 0644);
MODULE_PARM_DESC(refuse, "branch_sample_type bits answered with EOPNOTSUPP");
unsigned long lbr_invalid;
module_param_named(invalid, lbr_invalid, ulong, 0644);
MODULE_PARM_DESC(invalid, "branch_sample_type bits answered with EINVAL");
bool lbr_counting = true;
module_param_named(counting, lbr_counting, bool, 0644);
MODULE_PARM_DESC(counting, "counting events may have branch stacks (not so for AMD on 6.1)");
static int snapshot = -1;
module_param(snapshot, int, 0444);
MODULE_PARM_DESC(snapshot, "provide bpf_get_branch_snapshot: 1 yes, 0 no, -1 as the flavour has it");

static bool empties;
module_param(empties, bool, 0444);
MODULE_PARM_DESC(empties, "empty the registers when the CPU switches to another thread, as Intel's and AMD's drivers do");

enum lbr_flavour lbr_flavour;
struct lbr_bar *lbr_bar;
int (*lbr_overflow)(struct perf_event *, struct perf_sample_data *, struct pt_regs *);

static struct pci_dev *device;
#ifdef CONFIG_X86
static struct static_call_key *snapshot_key;
static void *snapshot_trampoline, *snapshot_before;
#endif

static unsigned long (*lookup)(const char *);

unsigned long lbr_symbol(const char *symbol)
{
	return lookup(symbol);
}

/* kallsyms_lookup_name is not exported since 5.7; a kprobe's address gives it away. */
static int find_lookup(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	int err = register_kprobe(&probe);

	if (err)
		return err;
	lookup = (void *)probe.addr;
	unregister_kprobe(&probe);
	return 0;
}

static int pick_flavour(void)
{
	static const char *const names[] = { "intel", "amd", "brs", "brbe", "none" };
	int found = match_string(names, ARRAY_SIZE(names), flavour);

	if (found < 0 || lbr_depth < 1 || lbr_depth > LBR_MAX_DEPTH)
		return -EINVAL;
	lbr_flavour = found;
	/* The kernel's own Arm PMU has the name and the place that brink looks at; a snapshot it has none. */
	if (!IS_ENABLED(CONFIG_X86) && snapshot > 0)
		return -EINVAL;
	if (!IS_ENABLED(CONFIG_X86))
		snapshot = 0;
	if (snapshot < 0)
		snapshot = found == LBR_INTEL || found == LBR_AMD;
	return 0;
}

/* Tells the plugin where interrupts and faults enter the kernel. */
static void publish_vectors(void)
{
#ifdef CONFIG_X86
	struct desc_ptr idt;
	const gate_desc *gates;
	int i;

	store_idt(&idt);
	gates = (const gate_desc *)idt.address;
	for (i = 0; i < 256 && (i + 1) * sizeof(gate_desc) <= idt.size + 1; i++)
		lbr_bar->vectors[i] = gate_offset(&gates[i]);
#else
	u64 base = read_sysreg(vbar_el1);
	int i;

	for (i = 0; i < 16; i++)
		lbr_bar->vectors[i] = base + 0x80 * i;
#endif
	WRITE_ONCE(lbr_bar->vectors_generation, lbr_bar->vectors_generation + 1);
}

static int map_plugin(void)
{
	struct lbr_cpu *registers;
	unsigned int cpu;

	if (!strcmp(source, "canned"))
		return 0;
	device = pci_get_device(LBR_PCI_VENDOR, LBR_PCI_DEVICE, NULL);
	if (device && !pci_enable_device(device))
		lbr_bar = memremap(pci_resource_start(device, 2), LBR_BAR_SIZE, MEMREMAP_WB);
	if (!lbr_bar || lbr_bar->magic != LBR_BAR_MAGIC || lbr_bar->cpus < num_online_cpus()) {
		if (lbr_bar)
			memunmap(lbr_bar);
		lbr_bar = NULL;
		return strcmp(source, "plugin") ? 0 : -ENODEV;
	}
	for_each_online_cpu(cpu) {
		registers = (void *)lbr_bar + LBR_BAR_PAGE * (1 + cpu);
		memset(registers->counters, 0, sizeof(registers->counters));
		registers->depth = lbr_depth;
		registers->enable = 0;
		registers->armed = 0;
		registers->off = 0;
		registers->freeze = 0;
		registers->freeze_on_nmi = 1;
	}
	publish_vectors();
	return 0;
}

static void unmap_plugin(void)
{
	unsigned int cpu;

	if (lbr_bar) {
		for_each_online_cpu(cpu) {
			struct lbr_cpu *registers = (void *)lbr_bar + LBR_BAR_PAGE * (1 + cpu);

			registers->enable = 0;
			registers->armed = 0;
			registers->freeze_on_nmi = 0;
		}
		memunmap(lbr_bar);
	}
	pci_dev_put(device);
}

#ifdef CONFIG_X86
static int install_snapshot(void)
{
	if (!snapshot)
		return 0;
	snapshot_key = (void *)lbr_symbol("__SCK__perf_snapshot_branch_stack");
	snapshot_trampoline = (void *)lbr_symbol("__SCT__perf_snapshot_branch_stack");
	if (!snapshot_key || !snapshot_trampoline)
		return -ENOENT;
	snapshot_before = snapshot_key->func;
	__static_call_update(snapshot_key, snapshot_trampoline, lbr_snapshot);
	return 0;
}

static void remove_snapshot(void)
{
	if (!snapshot_key)
		return;
	__static_call_update(snapshot_key, snapshot_trampoline, snapshot_before);
	synchronize_rcu();
}
#else
static int install_snapshot(void) { return 0; }
static void remove_snapshot(void) {}
#endif

/* The drivers are asked by perf, which does not export how; a tracepoint at the switch serves as well. */
static struct tracepoint *switch_point;

static void empty_at_switch(void *data)
{
	lbr_registers()->valid = 0;
}

static void find_switch(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "sched_switch"))
		switch_point = point;
}

static int install_switch(void)
{
	int err;

	if (!empties || !lbr_bar)
		return 0;
	for_each_kernel_tracepoint(find_switch, NULL);
	err = switch_point ? tracepoint_probe_register(switch_point, empty_at_switch, NULL) : -ENOENT;
	if (err)
		switch_point = NULL;
	return err;
}

static void remove_switch(void)
{
	if (!switch_point)
		return;
	tracepoint_probe_unregister(switch_point, empty_at_switch, NULL);
	tracepoint_synchronize_unregister();
}

static int __init lbr_init(void)
{
	int err = pick_flavour();

	if (!err)
		err = find_lookup();
	if (err)
		return err;
	lbr_overflow = (void *)lbr_symbol("perf_event_overflow");
	if (!lbr_overflow)
		return -ENOENT;
	err = map_plugin();
	if (err)
		goto no_plugin;
	err = lbr_feed_init();
	if (err)
		goto no_feed;
	err = lbr_pmu_init(name, strcmp(name, "cpu") ? -1 : PERF_TYPE_RAW);
	if (err)
		goto no_pmu;
	err = install_switch();
	if (err)
		goto no_switch;
	err = install_snapshot();
	if (err)
		goto no_snapshot;
	pr_info("brink_lbr: %s, depth %u, %s\n", flavour, lbr_depth, lbr_bar ? "plugin" : "canned");
	return 0;
no_snapshot:
	remove_switch();
no_switch:
	lbr_pmu_exit();
no_pmu:
	lbr_feed_exit();
no_feed:
	unmap_plugin();
no_plugin:
	return err;
}

static void __exit lbr_exit(void)
{
	remove_snapshot();
	remove_switch();
	lbr_pmu_exit();
	lbr_feed_exit();
	unmap_plugin();
}

module_init(lbr_init);
module_exit(lbr_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test-only branch records");
