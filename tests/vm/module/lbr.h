/* SPDX-License-Identifier: GPL-2.0-only */
/* Between the parts of the test module. */
#ifndef BRINK_TESTS_VM_LBR_H_
#define BRINK_TESTS_VM_LBR_H_

#include <linux/perf_event.h>
#include <linux/version.h>

#include "bar.h"
#include "feed.h"

enum lbr_flavour {
	LBR_INTEL,	/* every filter, snapshots, cycles, no spec */
	LBR_AMD,	/* LbrExtV2: no transactions, no call stack, no cycles, spec */
	LBR_BRS,	/* AMD Zen 3: ANY only, raw 0xc4 with a fixed period, no snapshot */
	LBR_BRBE,	/* Arm: half records across privileges, types and privilege always, no snapshot */
	LBR_NONE,	/* a PMU without branch records */
};

struct lbr_stack {	/* the layout of struct perf_branch_stack, with room */
	u64 nr;
	u64 hw_idx;
	struct perf_branch_entry entries[LBR_MAX_DEPTH];
};

/* What one CPU's branch users want. */
struct lbr_users {
	int count;
	u64 branch_sample_type;
	struct lbr_stack stack;		/* what the next sample shows */
	struct perf_branch_entry stale[LBR_MAX_DEPTH];	/* what the hardware would still hold */
};

/* lbr_main.c */
extern enum lbr_flavour lbr_flavour;
extern unsigned int lbr_depth;
extern unsigned long lbr_refuse, lbr_invalid;
extern bool lbr_counting;
extern struct lbr_bar *lbr_bar;	/* NULL: canned stacks only */
extern int (*lbr_overflow)(struct perf_event *, struct perf_sample_data *, struct pt_regs *);
unsigned long lbr_symbol(const char *name);

/* lbr_feed.c */
int lbr_feed_init(void);
void lbr_feed_exit(void);

/* lbr_stack.c; callers have interrupts off */
int lbr_check_filter(struct perf_event *event);	/* 0 or what a driver of this flavour says */
int lbr_user_add(struct perf_event *event);
void lbr_user_del(struct perf_event *event);
struct perf_branch_stack *lbr_sample(struct perf_event *event, struct pt_regs *regs);	/* NULL: none */
int lbr_snapshot(struct perf_branch_entry *entries, unsigned int count);
void lbr_canned_lock(void);
void lbr_canned_unlock(void);
extern struct lbr_feed_stack *lbr_canned;
extern unsigned int lbr_canned_count;
extern atomic_t lbr_samples, lbr_snapshots;

/* lbr_pmu.c */
int lbr_pmu_init(const char *name, int type);
void lbr_pmu_exit(void);

static inline struct lbr_cpu *lbr_registers(void)
{
	return (void *)lbr_bar + LBR_BAR_PAGE * (1 + raw_smp_processor_id());
}

#endif
