// SPDX-License-Identifier: GPL-2.0-only
/* Branch stacks: where they come from, and what an event's filter leaves of them. */
#include <linux/module.h>
#include <linux/percpu.h>

#include "lbr.h"

#define KINDS (PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_ANY_RETURN |	\
	       PERF_SAMPLE_BRANCH_IND_CALL | PERF_SAMPLE_BRANCH_COND | PERF_SAMPLE_BRANCH_IND_JUMP |		\
	       PERF_SAMPLE_BRANCH_CALL)
#define TRANSACTIONS (PERF_SAMPLE_BRANCH_ABORT_TX | PERF_SAMPLE_BRANCH_IN_TX | PERF_SAMPLE_BRANCH_NO_TX)

struct lbr_feed_stack *lbr_canned;
unsigned int lbr_canned_count;
atomic_t lbr_samples, lbr_snapshots;

static DEFINE_PER_CPU(struct lbr_users, users);

/* The refusals of the drivers; tests/vm/README.md has the table. */
int lbr_check_filter(struct perf_event *event)
{
	u64 type = event->attr.branch_sample_type;

	if (lbr_flavour == LBR_NONE || (type & lbr_refuse))
		return -EOPNOTSUPP;
	if (type & lbr_invalid)
		return -EINVAL;
	if (!lbr_counting && !is_sampling_event(event))
		return -EINVAL;
	/* What the plugin follows on arm64 is user code: whoever wants the kernel too is told. */
	if (!IS_ENABLED(CONFIG_X86) && lbr_bar && (type & PERF_SAMPLE_BRANCH_KERNEL))
		return -EOPNOTSUPP;
	switch (lbr_flavour) {
	case LBR_AMD:
		if (type & (TRANSACTIONS | PERF_SAMPLE_BRANCH_CALL_STACK | PERF_SAMPLE_BRANCH_NO_FLAGS |
			    PERF_SAMPLE_BRANCH_NO_CYCLES))
			return -EOPNOTSUPP;
		break;
	case LBR_BRS:
		if ((type & ~PERF_SAMPLE_BRANCH_PLM_ALL) != PERF_SAMPLE_BRANCH_ANY)
			return -EINVAL;
		if (event->attr.type != PERF_TYPE_RAW || event->attr.config != 0xc4 || event->attr.freq ||
		    event->attr.sample_period <= 16)
			return -EINVAL;
		break;
	case LBR_BRBE:
		if (type & (TRANSACTIONS | PERF_SAMPLE_BRANCH_CALL_STACK))
			return -EOPNOTSUPP;
		if (!(type & KINDS))
			return -EOPNOTSUPP;
		break;
	default:
		if ((type & PERF_SAMPLE_BRANCH_CALL_STACK) && (type & KINDS))
			return -EINVAL;
	}
	return 0;
}

static bool in_kernel(u64 address)
{
	return (s64)address < 0;
}

static u32 select_of(u64 type)
{
	u32 select = 0;

	if (!(type & PERF_SAMPLE_BRANCH_KERNEL))
		select |= LBR_NO_KERNEL;
	if (!(type & PERF_SAMPLE_BRANCH_USER))
		select |= LBR_NO_USER;
	if (type & PERF_SAMPLE_BRANCH_CALL_STACK)
		return select | LBR_CALL_STACK | LBR_NO_COND | LBR_NO_JUMP | LBR_NO_IND_JUMP | LBR_NO_FAR;
	if (type & PERF_SAMPLE_BRANCH_ANY)
		return select;
	select |= LBR_NO_COND | LBR_NO_CALL | LBR_NO_IND_CALL | LBR_NO_RET | LBR_NO_IND_JUMP | LBR_NO_JUMP | LBR_NO_FAR;
	if (type & PERF_SAMPLE_BRANCH_ANY_CALL)
		select &= ~(LBR_NO_CALL | LBR_NO_IND_CALL | LBR_NO_FAR);
	if (type & PERF_SAMPLE_BRANCH_ANY_RETURN)
		select &= ~(LBR_NO_RET | LBR_NO_FAR);
	if (type & PERF_SAMPLE_BRANCH_IND_CALL)
		select &= ~LBR_NO_IND_CALL;
	if (type & PERF_SAMPLE_BRANCH_CALL)
		select &= ~LBR_NO_CALL;
	if (type & PERF_SAMPLE_BRANCH_COND)
		select &= ~LBR_NO_COND;
	if (type & PERF_SAMPLE_BRANCH_IND_JUMP)
		select &= ~LBR_NO_IND_JUMP;
	return select;
}

/* What select cannot say: far branches come with calls and with returns, but each only in its direction. */
static bool wanted_kind(u64 type, unsigned int kind)
{
	if (type & (PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_CALL_STACK))
		return true;
	switch (kind) {
	case PERF_BR_COND: return type & PERF_SAMPLE_BRANCH_COND;
	case PERF_BR_IND: return type & PERF_SAMPLE_BRANCH_IND_JUMP;
	case PERF_BR_CALL: return type & (PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_CALL);
	case PERF_BR_IND_CALL: return type & (PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_IND_CALL);
	case PERF_BR_SYSCALL: case PERF_BR_IRQ: return type & PERF_SAMPLE_BRANCH_ANY_CALL;
	case PERF_BR_RET: case PERF_BR_SYSRET: case PERF_BR_ERET: return type & PERF_SAMPLE_BRANCH_ANY_RETURN;
	default: return false;
	}
}

static bool keep(u64 type, struct perf_branch_entry *entry, unsigned int kind)
{
	bool user = type & PERF_SAMPLE_BRANCH_USER, kernel = type & PERF_SAMPLE_BRANCH_KERNEL;

	if (!wanted_kind(type, kind))
		return false;
	if (lbr_flavour != LBR_BRBE)
		return in_kernel(entry->to) ? kernel : user;
	/* BRBE keeps records that cross and hides the side that the event may not see. */
	if (entry->from && !(in_kernel(entry->from) ? kernel : user))
		entry->from = 0;
	if (entry->to && !(in_kernel(entry->to) ? kernel : user))
		entry->to = 0;
	return entry->from || entry->to;
}

/* Fields that the event did not ask for, or that this flavour's hardware does not know. */
static void dress(u64 type, struct perf_branch_entry *entry)
{
	bool always_typed = lbr_flavour == LBR_BRBE;

	if (!(type & PERF_SAMPLE_BRANCH_TYPE_SAVE) && !always_typed) {
		entry->type = 0;
		entry->new_type = 0;
	}
	if (!(type & PERF_SAMPLE_BRANCH_PRIV_SAVE) && !always_typed)
		entry->priv = 0;
	if ((type & PERF_SAMPLE_BRANCH_NO_FLAGS) || lbr_flavour == LBR_BRS)
		entry->mispred = entry->predicted = entry->in_tx = entry->abort = 0;
	if ((type & PERF_SAMPLE_BRANCH_NO_CYCLES) || lbr_flavour == LBR_BRS || lbr_flavour == LBR_AMD)
		entry->cycles = 0;
	if (lbr_flavour != LBR_AMD)
		entry->spec = 0;
}

static void filter(u64 type, struct lbr_stack *stack)
{
	unsigned int i, kept = 0;

	for (i = 0; i < stack->nr; i++) {
		struct perf_branch_entry entry = stack->entries[i];

		if (!keep(type, &entry, entry.type))
			continue;
		dress(type, &entry);
		stack->entries[kept++] = entry;
	}
	stack->nr = kept;
}

/*
 * The branch that the interrupted block may have ended in. The plugin records it when the CPU is back in user mode, too
 * late for the sample that is taken now.
 */
static void read_pending(struct lbr_stack *stack, u64 pc)
{
	struct lbr_pending *pending = &lbr_registers()->pending;
	struct perf_branch_entry *entry = &stack->entries[0];

	if (pending->kind == LBR_KIND_NONE || (pending->direct && pending->target != pc) || lbr_registers()->freeze)
		return;
	memmove(stack->entries + 1, stack->entries, min_t(u64, stack->nr, lbr_depth - 1) * sizeof(*entry));
	memset(entry, 0, sizeof(*entry));
	entry->from = pending->from;
	entry->to = pc;
	entry->type = pending->kind;
	entry->priv = PERF_BR_PRIV_USER;
	stack->nr = min_t(u64, stack->nr + 1, lbr_depth);
}

/* The registers are frozen. */
static void read_plugin(struct lbr_stack *stack)
{
	struct lbr_cpu *registers = lbr_registers();
	unsigned int i, valid = min(registers->valid, lbr_depth);

	for (i = 0; i < valid; i++) {
		struct lbr_record *record = &registers->records[(registers->top + lbr_depth - i) % lbr_depth];
		struct perf_branch_entry *entry = &stack->entries[i];

		memset(entry, 0, sizeof(*entry));
		entry->from = record->from;
		entry->to = record->to;
		entry->cycles = record->cycles;
		entry->type = record->kind;
		entry->mispred = record->mispredicted;
		entry->predicted = !record->mispredicted;
		entry->priv = in_kernel(record->to) ? PERF_BR_PRIV_KERNEL : PERF_BR_PRIV_USER;
		entry->spec = PERF_BR_SPEC_CORRECT_PATH;
	}
	stack->nr = valid;
	stack->hw_idx = lbr_flavour == LBR_AMD ? 0 : registers->top;
}

static void read_canned(struct lbr_stack *stack, atomic_t *sequence)
{
	unsigned int count = smp_load_acquire(&lbr_canned_count);
	struct lbr_feed_stack *fed;

	stack->nr = 0;
	stack->hw_idx = 0;
	if (!count)
		return;
	fed = &lbr_canned[(u32)(atomic_inc_return(sequence) - 1) % count];
	stack->nr = min(fed->nr, lbr_depth);
	stack->hw_idx = fed->hw_idx;
	BUILD_BUG_ON(sizeof(fed->entries[0]) != sizeof(stack->entries[0]));
	memcpy(stack->entries, fed->entries, stack->nr * sizeof(stack->entries[0]));
}

int lbr_user_add(struct perf_event *event)
{
	struct lbr_users *mine = this_cpu_ptr(&users);
	u64 type = event->attr.branch_sample_type;

	/* One filter a CPU; a second user with another one waits for its turn. */
	if (mine->count && select_of(mine->branch_sample_type) != select_of(type))
		return -EAGAIN;
	mine->branch_sample_type = type;
	if (mine->count++ || !lbr_bar)
		return 0;
	lbr_registers()->select = select_of(type);
	lbr_registers()->valid = 0;
	lbr_registers()->pending.kind = LBR_KIND_NONE;
	WRITE_ONCE(lbr_registers()->enable, 1);
	return 0;
}

void lbr_user_del(struct perf_event *event)
{
	struct lbr_users *mine = this_cpu_ptr(&users);

	if (!WARN_ON(mine->count <= 0) && --mine->count == 0 && lbr_bar)
		WRITE_ONCE(lbr_registers()->enable, 0);
}

struct perf_branch_stack *lbr_sample(struct perf_event *event, struct pt_regs *regs)
{
	struct lbr_stack *stack = &this_cpu_ptr(&users)->stack;

	if (lbr_bar) {
		read_plugin(stack);
		if (!IS_ENABLED(CONFIG_X86) && user_mode(regs))
			read_pending(stack, instruction_pointer(regs));
		atomic_inc(&lbr_samples);
	} else {
		read_canned(stack, &lbr_samples);
	}
	filter(event->attr.branch_sample_type, stack);
	return (struct perf_branch_stack *)stack;
}

/*
 * The freeze comes before any branch of this function. Without a user the registers keep what they had, and like the
 * drivers the result counts what was asked for, not what is fresh.
 */
int lbr_snapshot(struct perf_branch_entry *entries, unsigned int count)
{
	struct lbr_users *mine;
	static DEFINE_PER_CPU(struct lbr_stack, local);
	struct lbr_stack *stack;
	unsigned long flags;
	u32 frozen = 0;

	raw_local_irq_save(flags);
	if (lbr_bar) {
		frozen = READ_ONCE(lbr_registers()->freeze);
		WRITE_ONCE(lbr_registers()->freeze, 1);
	}
	mine = this_cpu_ptr(&users);
	stack = this_cpu_ptr(&local);
	count = min(count, lbr_depth);
	if (mine->count) {
		if (lbr_bar) {
			read_plugin(stack);
			atomic_inc(&lbr_snapshots);
		} else {
			read_canned(stack, &lbr_snapshots);
		}
		filter(mine->branch_sample_type, stack);
		memcpy(mine->stale, stack->entries, stack->nr * sizeof(stack->entries[0]));
	}
	memcpy(entries, mine->stale, count * sizeof(*entries));
	if (lbr_bar)
		WRITE_ONCE(lbr_registers()->freeze, frozen);
	raw_local_irq_restore(flags);
	return count;
}
