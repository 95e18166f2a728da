/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One instruction of a walk. What is frequent is here, the rest behind functions of its own. */
#ifndef BRINK_WALK_STEP_H_
#define BRINK_WALK_STEP_H_

#include "walk/branch.h"
#include "walk/muldiv.h"
#include "walk/operand.h"
#include "walk/shift.h"
#include "walk/string.h"
#include "walk/vmask.h"

/* Address of the memory operand, into reg[MEM] and w->ea. */
WALK_INLINE void walk_address(struct brink_walk *w, const struct brink_uop *u, __u32 flags)
{
	const struct brink_walk_reg *b = &w->reg[u->base & 31], *x = &w->reg[u->index & 31];
	__u64 ea = b->val + (x->val << (u->scale & 3)) + (__s64)u->value, unk = b->unk | x->unk << (u->scale & 3);

	if (walk_unlikely(flags & (BRINK_UOP_FS | BRINK_UOP_GS | BRINK_UOP_A32))) {
		const struct brink_walk_reg *s = &w->reg[flags & BRINK_UOP_FS ? BRINK_WREG_FS : BRINK_WREG_GS];

		if (flags & BRINK_UOP_A32)
			ea = (__u32)ea;
		if (flags & (BRINK_UOP_FS | BRINK_UOP_GS)) {
			ea += s->val;
			unk |= s->unk;
		}
	}
	/* Everything above the lowest unknown bit is unknown. */
	unk = -(unk & -unk);
	w->ea = ea;
	w->reg[BRINK_WREG_MEM].val = ea & ~unk;
	w->reg[BRINK_WREG_MEM].unk = unk;
}

/* Instructions outside the inner switch, by group. */
WALK_INLINE int walk_cold(struct brink_walk *w, const struct brink_uop *u, __u32 op)
{
	switch (op) {
	case BRINK_OP_INC ... BRINK_OP_SBB:
		return walk_alu_more(w, u);
	case BRINK_OP_SHL ... BRINK_OP_SAR:
		return walk_shift(w, u);
	case BRINK_OP_ROL ... BRINK_OP_RCR:
		return walk_rotate(w, u);
	case BRINK_OP_SHLD ... BRINK_OP_SHRD:
		return walk_shift_double(w, u);
	case BRINK_OP_SHLX ... BRINK_OP_RORX:
		return walk_shift_x(w, u);
	case BRINK_OP_IMUL:
		return walk_imul(w, u);
	case BRINK_OP_MUL1:
	case BRINK_OP_IMUL1:
	case BRINK_OP_MULX:
		return walk_mul(w, u);
	case BRINK_OP_DIV ... BRINK_OP_IDIV:
		return walk_div(w, u);
	case BRINK_OP_BT ... BRINK_OP_BTC:
		return walk_bit_test(w, u);
	case BRINK_OP_BSF ... BRINK_OP_POPCNT:
		return walk_bit_scan(w, u);
	case BRINK_OP_ANDN ... BRINK_OP_BZHI:
		return walk_bmi1(w, u);
	case BRINK_OP_PDEP ... BRINK_OP_PEXT:
		return walk_pdep_pext(w, u);
	case BRINK_OP_ADCX ... BRINK_OP_ADOX:
		return walk_adx(w, u);
	case BRINK_OP_CRC32:
		return walk_crc32(w, u);
	case BRINK_OP_XCHG ... BRINK_OP_XADD:
		return walk_exchange(w, u);
	case BRINK_OP_CMPXCHG:
		return walk_cmpxchg(w, u);
	case BRINK_OP_CMPXCHG16B:
		return walk_cmpxchg_wide(w, u);
	case BRINK_OP_PUSHF ... BRINK_OP_STD:
		return walk_flag_op(w, u);
	case BRINK_OP_MOVS ... BRINK_OP_CMPS:
		return walk_string(w, u);
	case BRINK_OP_VECTOR ... BRINK_OP_MAX - 1:
#ifdef WALK_NO_VECTORS
		return walk_stop(w, BRINK_STOP_UNSUPPORTED);
#else
		return walk_vector(w, u);
#endif
	default:
		return walk_misc(w, u);
	}
}

/* Writes a register of the inner switch. */
WALK_INLINE void walk_result(struct brink_walk *w, __u32 di, __u32 sh, __u64 val)
{
	struct brink_walk_reg *r = &w->reg[di & 31];

	if (walk_likely(sh <= 32)) {
		r->val = val;
		r->unk = 0;
	} else {
		__u64 m = walk_mask(sh);

		r->val = (r->val & ~m) | val;
		r->unk &= ~m;
	}
}

/* ADD .. TEST */
WALK_INLINE int walk_alu(struct brink_walk *w, const struct brink_uop *u, __u32 op)
{
	__u32 sh = u->sh & 63, di = walk_dst(u), si = walk_src(u);
	__u64 a, b, r, c;

	if (walk_unlikely((w->reg[di].unk | w->reg[si].unk) << sh))
		return walk_alu_unknown(w, u);
	a = w->reg[di].val << sh;
	b = w->reg[si].val << sh;
	if (op == BRINK_OP_ADD) {
		r = a + b;
		c = (a & b) | ((a | b) & ~r);
	} else if (op <= BRINK_OP_CMP) {
		r = a - b;
		c = (~a & b) | (~(a ^ b) & r);
	} else {
		if (op == BRINK_OP_OR)
			r = a | b;
		else if (op == BRINK_OP_XOR)
			r = a ^ b;
		else
			r = a & b;
		c = 0;
	}
	walk_flags_lazy(w, r, c, sh | (op >= BRINK_OP_AND ? WALK_SH_AF_UNKNOWN : 0));
	if (op != BRINK_OP_CMP && op != BRINK_OP_TEST)
		walk_result(w, di, sh, r >> sh);
	return 0;
}

/* Executes the instruction at w->pc. 0 to go on, 1 when the walk has ended (w->stop says why). */
WALK_INLINE int walk_step(struct walk_ctx *c)
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
		walk_address(w, u, flags);
		if ((flags & (BRINK_UOP_LOAD | BRINK_UOP_STORE)) && walk_operand(w, u, flags))
			return 1;
	} else {
		w->reg[BRINK_WREG_IMM].val = (__u64)(__s64)u->value;
	}
	if (walk_unlikely(flags & (BRINK_UOP_HI_DST | BRINK_UOP_HI_SRC)))
		walk_high_in(w, u);

	if (op == BRINK_OP_MOV) {
		__u32 si = walk_src(u);
		__u64 m = walk_mask(u->msh), unk = w->reg[si].unk & m;

		if (walk_likely(!unk))
			walk_result(w, walk_dst(u), u->sh & 63, w->reg[si].val & m);
		else
			walk_write(w, walk_dst(u), u->sh & 63, w->reg[si].val & m, unk);
	} else if (op <= BRINK_OP_TEST) {
		if (op == BRINK_OP_STOP)
			return walk_stop(w, u->aux);
		if (walk_alu(w, u, op))
			return 1;
	} else if ((op >= BRINK_OP_JCC && op <= BRINK_OP_RET) || (op >= BRINK_OP_JRCXZ && op <= BRINK_OP_LOOP)) {
		went = walk_branch(w, c->out, u, op);
		if (went != 2)
			return went;
	} else if (op == BRINK_OP_PUSH) {
		__u32 n = u->sh ? 2 : 8;

		if (!(flags & BRINK_UOP_STORE)) {	/* pushes a memory operand: two accesses */
			if (w->reg[WALK_RSP].unk)
				return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
			if (walk_store(w, w->reg[WALK_RSP].val - n, u->sh, BRINK_WREG_MEM))
				return 1;
		} else {
			w->reg[BRINK_WREG_MEM] = w->reg[u->src & 31];
		}
		w->reg[WALK_RSP].val -= n;
	} else if (op == BRINK_OP_POP) {
		walk_advance(w, WALK_RSP, u->sh ? 2 : 8);
		walk_write(w, u->dst & 31, u->sh & 63, w->reg[BRINK_WREG_MEM].val, w->reg[BRINK_WREG_MEM].unk);
	} else if (op == BRINK_OP_MOVSX) {
		__u32 si = walk_src(u), msh = u->msh & 63;

		walk_write(w, u->dst & 31, u->sh & 63, (__u64)((__s64)(w->reg[si].val << msh) >> msh),
			   (__u64)((__s64)(w->reg[si].unk << msh) >> msh));
	} else if (op == BRINK_OP_CMOV) {
		__u32 cond = walk_cond(w, u->aux);
		struct brink_walk_reg *a = &w->reg[u->dst & 31], *b = &w->reg[u->src & 31];

		if (cond == 1)
			walk_write(w, u->dst & 31, u->sh & 63, b->val, b->unk);
		else if (cond == 0)	/* 32 bits: the upper half is cleared all the same */
			walk_write(w, u->dst & 31, u->sh & 63, a->val, a->unk);
		else
			walk_write(w, u->dst & 31, u->sh & 63, a->val, a->unk | b->unk | (a->val ^ b->val));
	} else if (op == BRINK_OP_SETCC) {
		__u32 cond = walk_cond(w, u->aux);

		walk_write(w, walk_dst(u), 56, cond & 1, cond == 2);
	} else if (op == BRINK_OP_MOVABS) {
		walk_result(w, u->dst & 31, 0, walk_wide(w, u));
	} else if (op != BRINK_OP_NOP) {
		if (walk_cold(w, u, op))
			return 1;
		if (op >= BRINK_OP_MOVS && op <= BRINK_OP_CMPS && w->ml) {
			w->steps++;
			return 0;
		}
	}

	if (flags & BRINK_UOP_STORE) {
		if (walk_likely(w->ml < BRINK_WALK_LINES)) {
			__u64 m = walk_mask(u->msh);

			if (walk_line_store(w, w->ml, w->ea & 63, u->msh & 63, w->reg[BRINK_WREG_MEM].val & m,
					    w->reg[BRINK_WREG_MEM].unk & m))
				return 1;
		} else if (walk_store(w, w->ea, u->msh, BRINK_WREG_MEM)) {
			return 1;
		}
	} else if (walk_unlikely(flags & BRINK_UOP_HI_DST)) {
		walk_high_out(w, u);
	}
	w->steps++;
	pc = walk_next(w, u);
	w->reg[BRINK_WREG_IP].val += walk_len(u);
	w->pc = pc;
	if (walk_likely(pc))
		return 0;
	return walk_translate(w);
}

#endif /* BRINK_WALK_STEP_H_ */
