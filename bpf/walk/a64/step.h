/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One A64 instruction of a walk. What is frequent is here, the rest behind functions of its own. */
#ifndef BRINK_WALK_A64_STEP_H_
#define BRINK_WALK_A64_STEP_H_

#include "walk/a64/bits.h"
#include "walk/a64/branch.h"
#include "walk/a64/vmove.h"
#include "walk/operand.h"

/* Address of the memory operand, into reg[MEM] and w->ea. 1: the stack pointer is not aligned, which faults. */
WALK_INLINE int a64_address(struct brink_walk *w, const struct brink_uop *u, __u32 flags)
{
	const struct brink_walk_reg *b = a64_reg(w, u->base), *x = a64_reg(w, u->index);
	__u64 xv = x->val, xu = x->unk, ea, unk;

	if (walk_unlikely(flags & (BRINK_A64_INDEX32 | BRINK_A64_INDEX32S))) {
		xv = flags & BRINK_A64_INDEX32S ? walk_sext(xv, 32) : (__u32)xv;
		xu = flags & BRINK_A64_INDEX32S ? walk_sext(xu, 32) : (__u32)xu;
	}
	ea = b->val + (xv << (u->scale & 7)) + (__s64)u->value;
	unk = b->unk | xu << (u->scale & 7);
	/* Everything above the lowest unknown bit is unknown, and the top byte is ignored. */
	unk = -(unk & -unk) & A64_ADDRESS;
	ea &= A64_ADDRESS & ~unk;
	w->ea = ea;
	w->reg[BRINK_WREG_MEM].val = ea;
	w->reg[BRINK_WREG_MEM].unk = unk;
	if (walk_unlikely(u->base == BRINK_A64_SP && (b->val & 15))) {
		w->fault_address = b->val;
		w->denied = 1;
		return walk_stop(w, BRINK_STOP_FAULT);
	}
	return 0;
}

/* Results that nobody follows. */
WALK_GLOBAL int a64_clobber(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 i, n;

	if (!w || !u)
		return 1;
	if (u->aux & BRINK_A64_LOSE_MEMORY) {
		n = (__u32)u->msh & 127;
		if (w->reg[BRINK_WREG_MEM].unk)
			return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
		if (walk_touch(w, w->ea, n))
			return 1;
		w->reg[BRINK_WREG_T0].val = 0;
		for (i = 0; i < 64; i++) {
			if (i >= n)
				break;
			w->reg[BRINK_WREG_T0].unk = 0xff;
			if (walk_store(w, w->ea + i, 56, BRINK_WREG_T0))
				return 1;
		}
	} else if ((u->flags & BRINK_UOP_MEM) && !w->reg[BRINK_WREG_MEM].unk && walk_touch(w, w->ea, (__u32)u->msh & 127)) {
		return 1;	/* a load of what cannot be read */
	}
	if (u->aux & BRINK_A64_LOSE_VECTOR) {
		for (i = 0; i < 4; i++) {
			if (i > u->src)
				break;
			a64_v(w, u->dst + i)[0] = 0;
			a64_v(w, u->dst + i)[1] = 0;
			w->vknown[(u->dst + i) & 31] = 0;
		}
	}
	if (u->aux & BRINK_A64_LOSE_FLAGS)
		a64_flags_all(w, 0, 0);
	if (u->aux & BRINK_A64_LOSE_REG)
		a64_write(w, u->dst, u->sh & 63, 0, ~0ull);
	if (u->aux & BRINK_A64_LOSE_REG2)
		a64_write(w, u->src2, u->sh & 63, 0, ~0ull);
	return 0;
}

/* DC ZVA */
WALK_GLOBAL int a64_zero(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 i, k, bytes;
	__u64 at;

	if (!w || !u)
		return 1;
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	bytes = 1u << (u->aux & 15);
	at = w->ea & ~(__u64)(bytes - 1);
	for (i = 0; i < 32; i++) {
		struct brink_walk_line *l;
		int line;

		if (64 * i >= bytes)
			break;
		line = walk_line(w, at + 64 * i);
		if (line < 0)
			return 1;
		l = walk_line_at(w, line);
		if (!l->dirty && walk_first_store(w, l))
			return 1;
		for (k = 0; k < 64; k += 8)
			WALK_AT(64, l->data + k) = 0;
		l->dirty = ~0ull;
		l->known = ~0ull;
	}
	return 0;
}

/* Instructions outside the inner switch, by group. */
WALK_INLINE int a64_cold(struct brink_walk *w, const struct brink_uop *u, __u32 op)
{
	switch (op) {
	case BRINK_A64_SELECT:
		return a64_select(w, u);
	case BRINK_A64_COMPARE:
		return a64_compare_if(w, u);
	case BRINK_A64_CARRY:
		return a64_add_carry(w, u);
	case BRINK_A64_SHIFT:
		return a64_shift(w, u);
	case BRINK_A64_FIELD:
		return a64_field(w, u);
	case BRINK_A64_EXTRACT:
		return a64_extract(w, u);
	case BRINK_A64_MADD:
		return a64_madd(w, u);
	case BRINK_A64_HIGH:
	case BRINK_A64_DIV:
		return a64_mul_div(w, u);
	case BRINK_A64_BITS:
		return a64_bits(w, u);
	case BRINK_A64_CRC:
		return a64_crc(w, u);
	case BRINK_A64_FLAG:
		return a64_flag_op(w, u);
	case BRINK_A64_PAC:
		return a64_pac(w, u);
	case BRINK_A64_PAIR_LOAD:
		return a64_pair_load(w, u);
	case BRINK_A64_PAIR_STORE:
		return a64_pair_store(w, u);
	case BRINK_A64_EXCLUSIVE:
		return a64_exclusive(w, u);
	case BRINK_A64_ATOMIC:
		return a64_atomic(w, u);
	case BRINK_A64_SWAP_IF:
		return a64_swap_if(w, u);
	case BRINK_A64_SWAP_PAIR:
		return a64_swap_pair(w, u);
	case BRINK_A64_CLOBBER:
		return a64_clobber(w, u);
	case BRINK_A64_ZERO:
		return a64_zero(w, u);
	case BRINK_AV_LOAD ... BRINK_AV_MAX - 1:
		return a64_vector(w, u);
	default:
		return walk_stop(w, BRINK_STOP_UNSUPPORTED);
	}
}

/* ADD .. XOR */
WALK_INLINE int a64_alu(struct brink_walk *w, const struct brink_uop *u, __u32 op)
{
	struct brink_walk_reg b = a64_operand_b(w, u);
	const struct brink_walk_reg *ra = a64_reg(w, u->src2);
	struct brink_walk_reg *d = a64_reg(w, u->dst);
	__u32 sh = u->sh & 63;
	__u64 x, y, r, c;

	if (walk_unlikely((ra->unk | b.unk) << sh))
		return a64_alu_unknown(w, u);
	x = ra->val << sh;
	y = b.val << sh;
	if (op == BRINK_A64_ADD) {
		r = x + y;
		c = (x & y) | ((x | y) & ~r);
	} else if (op == BRINK_A64_SUB) {
		r = x - y;
		c = (x & ~y) | ((x | ~y) & ~r);
	} else {
		if (op == BRINK_A64_OR)
			r = x | y;
		else if (op == BRINK_A64_XOR)
			r = x ^ y;
		else
			r = x & y;
		c = 0;
	}
	if (u->aux & BRINK_A64_FLAGS)
		a64_flags_lazy(w, r, c);
	d->val = r >> sh;
	d->unk = 0;
	return 0;
}

/* What has no operand in memory and is short. 1: it was none of these. */
WALK_INLINE int a64_simple(struct brink_walk *w, const struct brink_uop *u, __u32 op)
{
	__u64 ip = w->reg[BRINK_WREG_IP].val, m;
	struct brink_walk_reg *d = a64_reg(w, u->dst);

	switch (op) {
	case BRINK_A64_CONST:
		d->val = walk_wide(w, u);
		d->unk = 0;
		return 0;
	case BRINK_A64_ADDRESS:
		d->val = u->aux ? (ip & ~0xfffull) + ((__u64)(__s64)walk_imm(w) << 12) : ip + (__u64)(__s64)walk_imm(w);
		d->unk = 0;
		return 0;
	case BRINK_A64_KEEP:
		m = 0xffffull << (u->aux & 63);
		a64_write(w, u->dst, u->sh & 63, (d->val & ~m) | (__u64)(__u32)walk_imm(w) << (u->aux & 63), d->unk & ~m);
		return 0;
	case BRINK_A64_OPEN:
		w->reg[BRINK_A64_MONITOR].val = 0;
		w->reg[BRINK_A64_MONITOR].unk = ~0ull;
		return 0;
	case BRINK_A64_NOP:
		return 0;
	default:
		return 1;
	}
}

WALK_INLINE void a64_move_base(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg *b = a64_reg(w, u->base);

	if (!b->unk) {
		b->val += (__u64)(__s64)walk_imm(w);
	} else {
		b->val = 0;
		b->unk = ~0ull;
	}
}

/* Loads and stores with order or reservation: an address that is not aligned faults. */
WALK_INLINE int a64_ordered(struct brink_walk *w, const struct brink_uop *u)
{
	if (!w->reg[BRINK_WREG_MEM].unk && (w->ea & (a64_size(u) - 1)))
		return u->aux & BRINK_A64_MONITORED ? a64_fault(w) : a64_misaligned(w);
	if (u->aux & BRINK_A64_MONITORED)
		a64_reserve(w, u);
	return 0;
}

WALK_INLINE int a64_operand(struct brink_walk *w, const struct brink_uop *u, __u32 flags)
{
	if (a64_address(w, u, flags))
		return 1;
	if (!(flags & (BRINK_UOP_LOAD | BRINK_UOP_STORE)))
		return 0;
	if (walk_unlikely(flags & BRINK_A64_ALIGNED) && a64_ordered(w, u))
		return 1;
	return walk_operand(w, u, flags);
}

WALK_INLINE int a64_store(struct brink_walk *w, const struct brink_uop *u)
{
	const struct brink_walk_reg *b = a64_reg(w, u->src);
	__u64 m = walk_mask(u->msh);

	if (walk_likely(w->ml < BRINK_WALK_LINES))
		return walk_line_store(w, w->ml, w->ea & 63, u->msh & 63, b->val & m, b->unk & m);
	w->reg[BRINK_WREG_T0] = *b;
	return walk_store(w, w->ea, u->msh & 63, BRINK_WREG_T0);
}

/* Executes the instruction at w->pc. 0 to go on, 1 when the walk has ended (w->stop says why). */
WALK_INLINE int a64_step(struct walk_ctx *c)
{
	struct brink_walk *w = c->w;
	const struct brink_uop *u = walk_uop(w, walk_link_unit(w->pc));
	__u32 op, flags, pc;
	int went;

	if (!u)
		return walk_miss(w, BRINK_MISS_PAGE, 0, w->reg[BRINK_WREG_IP].val);
	if (walk_unlikely(w->steps >= w->next_clock) && walk_clock(w))
		return 1;
	if (walk_unlikely(walk_link_block(w->pc) != w->block || (u->len & BRINK_UOP_CROSSES))) {
		int entered = walk_enter_line(w, u);

		if (entered)
			return entered == 1;
	}
	op = u->op;
	flags = u->flags;
	if (flags & BRINK_UOP_MEM) {
		w->reg[BRINK_WREG_IMM].val = (__u64)(__s64)walk_other(w, u);
		if (a64_operand(w, u, flags))
			return 1;
	} else if (flags & BRINK_A64_WIDE) {
		w->reg[BRINK_WREG_IMM].val = walk_wide(w, u);
	} else {
		w->reg[BRINK_WREG_IMM].val = (__u64)(__s64)u->value;
	}
	if (op == BRINK_A64_STOP)
		return walk_stop(w, u->aux);
	if (op <= BRINK_A64_XOR) {
		if (a64_alu(w, u, op))
			return 1;
	} else if (op == BRINK_A64_LOAD) {
		a64_loaded(w, u, u->dst, w->reg[BRINK_WREG_MEM]);
	} else if (op == BRINK_A64_STORE) {
		if (a64_store(w, u))
			return 1;
	} else if (op >= BRINK_A64_BCOND && op <= BRINK_A64_TBZ) {
		went = a64_branch(w, c->out, u, op);
		if (went != 2)
			return went;
	} else if (a64_simple(w, u, op) && a64_cold(w, u, op)) {
		return 1;
	}
	if (flags & BRINK_A64_BACK)
		a64_move_base(w, u);
	w->steps++;
	pc = walk_next(w, u);
	w->reg[BRINK_WREG_IP].val += 4;
	w->pc = pc;
	if (walk_likely(pc))
		return 0;
	return walk_translate(w);
}

#endif /* BRINK_WALK_A64_STEP_H_ */
