/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Pairs, exclusives and atomics: instructions that access memory more than once, or under a condition. */
#ifndef BRINK_WALK_A64_ACCESS_H_
#define BRINK_WALK_A64_ACCESS_H_

#include "walk/a64/alu.h"

/* An access that must be aligned is not: no page that is brought in helps. */
WALK_INLINE int a64_fault(struct brink_walk *w)
{
	w->fault_address = w->ea;
	w->denied = 1;
	return walk_stop(w, BRINK_STOP_FAULT);
}

/* Ordered and atomic accesses need not be aligned on every machine (FEAT_LSE2). */
WALK_INLINE int a64_misaligned(struct brink_walk *w)
{
	return walk_stop(w, BRINK_STOP_UNSUPPORTED);
}

/* The bytes of one element. */
WALK_INLINE __u32 a64_size(const struct brink_uop *u)
{
	return 8 - ((u->msh & 63) >> 3);
}

/* Puts what was loaded into a register. */
WALK_INLINE void a64_loaded(struct brink_walk *w, const struct brink_uop *u, __u32 to, struct brink_walk_reg v)
{
	__u32 msh = u->msh & 63;

	if (u->aux & BRINK_A64_SIGNED) {
		v.val = walk_sext(v.val, msh);
		v.unk = walk_sext(v.unk, msh);
	}
	a64_write(w, to, u->sh & 63, v.val, v.unk);
}

WALK_INLINE void a64_unknown_temporaries(struct brink_walk *w, __u32 msh)
{
	w->reg[BRINK_WREG_T0].val = w->reg[BRINK_WREG_T1].val = 0;
	w->reg[BRINK_WREG_T0].unk = w->reg[BRINK_WREG_T1].unk = walk_mask(msh);
}

/* The two elements at the address into T0 and T1. */
WALK_GLOBAL int a64_load_two(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 msh, n;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	n = a64_size(u);
	if (w->reg[BRINK_WREG_MEM].unk) {
		a64_unknown_temporaries(w, msh);
		return 0;
	}
	if ((u->flags & BRINK_A64_ALIGNED) && (w->ea & (2 * n - 1)))
		return a64_fault(w);
	if (walk_load(w, w->ea, msh, BRINK_WREG_T0) || walk_load(w, w->ea + n, msh, BRINK_WREG_T1))
		return 1;
	return 0;
}

/* T0 and T1 to the two elements at the address. */
WALK_GLOBAL int a64_store_two(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 msh, n;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	n = a64_size(u);
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if ((u->flags & BRINK_A64_ALIGNED) && (w->ea & (2 * n - 1)))
		return a64_fault(w);
	if (walk_touch(w, w->ea, 2 * n) || walk_store(w, w->ea, msh, BRINK_WREG_T0) || walk_store(w, w->ea + n, msh, BRINK_WREG_T1))
		return 1;
	return 0;
}

/* What is reserved: address, and above it the size, by which a store must be of the same kind as the load. */
WALK_INLINE __u64 a64_reservation(const struct brink_walk *w, const struct brink_uop *u)
{
	__u64 pair = u->op == BRINK_A64_PAIR_LOAD || u->op == BRINK_A64_PAIR_STORE;

	return w->ea | (__u64)a64_size(u) << 56 | pair << 60;
}

WALK_INLINE void a64_reserve(struct brink_walk *w, const struct brink_uop *u)
{
	w->reg[BRINK_A64_MONITOR].val = a64_reservation(w, u);
	w->reg[BRINK_A64_MONITOR].unk = w->reg[BRINK_WREG_MEM].unk;
}

WALK_INLINE int a64_pair_load(struct brink_walk *w, const struct brink_uop *u)
{
	if (a64_load_two(w, u))
		return 1;
	if (u->aux & BRINK_A64_MONITORED)
		a64_reserve(w, u);
	a64_loaded(w, u, u->dst, w->reg[BRINK_WREG_T0]);
	a64_loaded(w, u, u->src2, w->reg[BRINK_WREG_T1]);
	return 0;
}

/*
 * May the exclusive store be done? The kernel opens the monitor on its way back to the thread, so that at the start of a
 * walk nothing is reserved. 1 yes, 0 no; 2 stops the walk: the monitor is elsewhere, and then the machine may do as it likes.
 */
WALK_INLINE int a64_may_store(struct brink_walk *w, const struct brink_uop *u)
{
	const struct brink_walk_reg *m = &w->reg[BRINK_A64_MONITOR];

	if (m->unk || w->reg[BRINK_WREG_MEM].unk)
		return m->unk == ~0ull && !w->reg[BRINK_WREG_MEM].unk ? 0 : 2;
	return m->val == a64_reservation(w, u) ? 1 : 2;
}

/* STXR, STXP */
WALK_GLOBAL int a64_exclusive(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 size;
	int may;

	if (!w || !u)
		return 1;
	size = a64_size(u) << (u->op == BRINK_A64_PAIR_STORE);
	if (!w->reg[BRINK_WREG_MEM].unk && (w->ea & (size - 1)))
		return a64_fault(w);
	may = a64_may_store(w, u);
	if (may == 2)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (may) {
		w->reg[BRINK_WREG_T0] = *a64_reg(w, u->src);
		w->reg[BRINK_WREG_T1] = *a64_reg(w, u->src2);
		if (u->op == BRINK_A64_PAIR_STORE ? a64_store_two(w, u) : walk_store(w, w->ea, u->msh & 63, BRINK_WREG_T0))
			return 1;
	}
	w->reg[BRINK_A64_MONITOR].val = 0;
	w->reg[BRINK_A64_MONITOR].unk = ~0ull;
	a64_write(w, u->dst, 32, !may, 0);
	return 0;
}

WALK_INLINE int a64_pair_store(struct brink_walk *w, const struct brink_uop *u)
{
	if (u->aux & BRINK_A64_MONITORED)
		return a64_exclusive(w, u);
	w->reg[BRINK_WREG_T0] = *a64_reg(w, u->src);
	w->reg[BRINK_WREG_T1] = *a64_reg(w, u->src2);
	return a64_store_two(w, u);
}

/* The new value of an atomic operation, msh as the size; in T1. */
WALK_INLINE void a64_atomic_value(struct brink_walk *w, __u32 kind, __u32 msh, struct brink_walk_reg a, struct brink_walk_reg b)
{
	struct walk_pair p = { a.val, a.unk };
	__u32 take = 0;

	a.val &= walk_mask(msh);
	a.unk &= walk_mask(msh);
	b.val &= walk_mask(msh);
	b.unk &= walk_mask(msh);
	if (kind == BRINK_A64_AT_ADD) {
		walk_unk_add(&p, b.val, b.unk);
	} else if (kind == BRINK_A64_AT_CLR) {
		p.unk = (a.unk | b.unk) & (a.val | a.unk) & ~(b.val & ~b.unk);
		p.val = a.val & ~b.val & ~p.unk;
	} else if (kind == BRINK_A64_AT_EOR) {
		p.unk = a.unk | b.unk;
		p.val = (a.val ^ b.val) & ~p.unk;
	} else if (kind == BRINK_A64_AT_SET) {
		p.val = a.val | b.val;
		p.unk = (a.unk | b.unk) & ~p.val;
	} else if (kind == BRINK_A64_AT_SWAP) {
		p.val = b.val;
		p.unk = b.unk;
	} else if (a.unk | b.unk) {
		p.val = 0;
		p.unk = ~0ull;
	} else {
		if (kind == BRINK_A64_AT_SMAX || kind == BRINK_A64_AT_SMIN)
			take = (__s64)(b.val << msh) > (__s64)(a.val << msh);
		else
			take = b.val > a.val;
		if (kind == BRINK_A64_AT_SMIN || kind == BRINK_A64_AT_UMIN)
			take = !take;
		p.val = take ? b.val : a.val;
	}
	w->reg[BRINK_WREG_T1].val = p.val & walk_mask(msh);
	w->reg[BRINK_WREG_T1].unk = p.unk & walk_mask(msh);
}

/* LDADD .. LDUMIN, SWP */
WALK_GLOBAL int a64_atomic(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 msh;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (w->ea & (a64_size(u) - 1))
		return a64_misaligned(w);
	if (walk_load(w, w->ea, msh, BRINK_WREG_T0))
		return 1;
	a64_atomic_value(w, u->aux, msh, w->reg[BRINK_WREG_T0], *a64_reg(w, u->src));
	if (walk_store(w, w->ea, msh, BRINK_WREG_T1))
		return 1;
	a64_write(w, u->dst, u->sh & 63, w->reg[BRINK_WREG_T0].val, w->reg[BRINK_WREG_T0].unk);
	return 0;
}

/* What memory holds after a comparison with an unknown outcome: what both ways agree on. In `b`. */
WALK_INLINE void a64_either(struct brink_walk_reg *b, const struct brink_walk_reg *a, __u64 m)
{
	b->unk = (a->unk | b->unk | (a->val ^ b->val)) & m;
	b->val &= m & ~b->unk;
}

/* 1 equal, 0 not, 2 unknown. */
WALK_INLINE __u32 a64_equal(const struct brink_walk_reg *a, const struct brink_walk_reg *b, __u64 m)
{
	__u64 unk = (a->unk | b->unk) & m;

	if ((a->val ^ b->val) & m & ~unk)
		return 0;
	return unk ? 2 : 1;
}

/* CAS. The store is one to the kernel's eyes in any case: memory must be writable. */
WALK_GLOBAL int a64_swap_if(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg now, then;
	__u32 msh, equal;
	__u64 m;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	m = walk_mask(msh);
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (w->ea & (a64_size(u) - 1))
		return a64_misaligned(w);
	if (walk_load(w, w->ea, msh, BRINK_WREG_T0))
		return 1;
	now = w->reg[BRINK_WREG_T0];
	then = *a64_reg(w, u->src);
	equal = a64_equal(&now, a64_reg(w, u->src2), m);
	if (equal == 0)
		then = now;
	else if (equal == 2)
		a64_either(&then, &now, m);
	w->reg[BRINK_WREG_T1] = then;
	if (walk_store(w, w->ea, msh, BRINK_WREG_T1))
		return 1;
	a64_write(w, u->dst, u->sh & 63, now.val, now.unk);
	return 0;
}

/* CASP: registers of the machine in even pairs, so that their numbers here follow each other. */
WALK_GLOBAL int a64_swap_pair(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg low, high, new_low, new_high;
	__u32 msh, equal, more;
	__u64 m;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	m = walk_mask(msh);
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (w->ea & (2 * a64_size(u) - 1))
		return a64_misaligned(w);
	if (a64_load_two(w, u))
		return 1;
	low = w->reg[BRINK_WREG_T0];
	high = w->reg[BRINK_WREG_T1];
	new_low = *a64_reg(w, u->src);
	new_high = *a64_reg(w, u->src2);
	equal = a64_equal(&low, a64_reg(w, u->dst), m);
	more = a64_equal(&high, a64_reg(w, u->dst + 1), m);
	equal = !equal || !more ? 0 : equal == 2 ? 2 : more;
	if (equal == 0) {
		new_low = low;
		new_high = high;
	} else if (equal == 2) {
		a64_either(&new_low, &low, m);
		a64_either(&new_high, &high, m);
	}
	w->reg[BRINK_WREG_T0] = new_low;
	w->reg[BRINK_WREG_T1] = new_high;
	if (a64_store_two(w, u))
		return 1;
	a64_write(w, u->dst, u->sh & 63, low.val, low.unk);
	a64_write(w, u->dst + 1, u->sh & 63, high.val, high.unk);
	return 0;
}

#endif /* BRINK_WALK_A64_ACCESS_H_ */
