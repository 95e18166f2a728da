/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Exchanges, stack frames, flag instructions, pure effects. */
#ifndef BRINK_WALK_MISC_H_
#define BRINK_WALK_MISC_H_

#include "walk/bits.h"

/* Flags of a - b where both may be partly unknown, without a result. */
WALK_INLINE void walk_compare(struct brink_walk *w, __u32 sh, __u64 aval, __u64 aunk, __u64 bval, __u64 bunk)
{
	struct walk_pair r = { aval << sh, aunk << sh };
	__u64 a = r.val, b = bval << sh, ub = bunk << sh;
	__u32 flags, known, f2 = 0, k2 = 0;

	if (!(r.unk | ub)) {
		__u64 d = a - b;

		walk_flags_lazy(w, d, (~a & b) | (~(a ^ b) & d), sh);
		return;
	}
	walk_unk_sub_flags(&r, b, ub, &f2, &k2);
	walk_unk_sub(&r, b, ub);
	walk_result_flags(r.val, r.unk, sh, &flags, &known);
	walk_flags_all(w, flags | f2, known | k2);
}

/* XCHG, XADD */
WALK_GLOBAL int walk_exchange(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, b, ub, m;
	__u32 sh, di, si;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	m = walk_mask(sh);
	di = walk_dst(u) & 31;
	si = walk_src(u) & 31;
	a = w->reg[di].val & m;
	ua = w->reg[di].unk & m;
	b = w->reg[si].val & m;
	ub = w->reg[si].unk & m;
	walk_write(w, si, sh, a, ua);
	if (u->op == BRINK_OP_XADD) {
		__u64 r = (a + b) & m;

		if (!(ua | ub)) {
			a <<= sh;
			b <<= sh;
			r <<= sh;
			walk_flags_lazy(w, r, (a & b) | ((a | b) & ~r), sh);
			walk_write(w, di, sh, r >> sh, 0);
		} else {
			walk_flags_all(w, 0, 0);
			walk_write(w, di, sh, 0, ~0ull);
		}
	} else {
		walk_write(w, di, sh, b, ub);
	}
	/* ah .. bh as source: back to its place; T1 is written back by the step. */
	if (u->flags & BRINK_UOP_HI_SRC) {
		struct brink_walk_reg *r = &w->reg[u->src & 3];

		r->val = (r->val & ~0xff00ull) | (w->reg[BRINK_WREG_T0].val & 0xff) << 8;
		r->unk = (r->unk & ~0xff00ull) | (w->reg[BRINK_WREG_T0].unk & 0xff) << 8;
	}
	return 0;
}

WALK_GLOBAL int walk_cmpxchg(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, b, ub, acc, uacc, m;
	__u32 sh, di, equal;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	m = walk_mask(sh);
	di = walk_dst(u) & 31;
	a = w->reg[di].val & m;
	ua = w->reg[di].unk & m;
	b = w->reg[walk_src(u) & 31].val & m;
	ub = w->reg[walk_src(u) & 31].unk & m;
	acc = w->reg[WALK_RAX].val & m;
	uacc = w->reg[WALK_RAX].unk & m;
	walk_compare(w, sh, acc, uacc, a, ua);
	equal = walk_cond(w, 4);
	if (equal == 1) {
		walk_write(w, di, sh, b, ub);
	} else if (equal == 0) {
		walk_write(w, WALK_RAX, sh, a, ua);
		/* Whether a 32-bit destination register loses its upper half then differs between CPUs. */
		if (sh == 32) {
			w->reg[di].unk |= w->reg[di].val & ~m;
			w->reg[di].val &= m;
		}
	} else {
		__u64 differ = a ^ b;

		walk_write(w, di, sh, a & ~differ, ua | ub | differ);
		/* 32 bits: whether the upper halves stay is not known either. */
		if (sh == 32) {
			w->reg[di].unk |= ~m;
			w->reg[di].val &= m;
		}
		w->reg[WALK_RAX].unk |= sh == 32 ? ~0ull : m;
		w->reg[WALK_RAX].val &= ~w->reg[WALK_RAX].unk;
	}
	return 0;
}

/* CMPXCHG8B and CMPXCHG16B: only ZF changes. aux is the size. */
WALK_GLOBAL int walk_cmpxchg_wide(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 msh, half;
	__u64 ea, m, diff, unk, ulo, uhi;

	if (!w || !u)
		return 1;
	half = u->aux >> 1 & 15;
	msh = half == 8 ? 0 : 32;
	m = walk_mask(msh);
	ea = w->ea;
	if (w->reg[BRINK_WREG_MEM].unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_STORE);
	if (half == 8 && (ea & 15)) {
		w->fault_address = ea;
		return walk_stop(w, BRINK_STOP_FAULT);
	}
	if (walk_load(w, ea, msh, BRINK_WREG_T0) || walk_load(w, ea + half, msh, BRINK_WREG_T1))
		return 1;
	ulo = w->reg[BRINK_WREG_T0].unk | (w->reg[WALK_RAX].unk & m);
	uhi = w->reg[BRINK_WREG_T1].unk | (w->reg[WALK_RDX].unk & m);
	unk = ulo | uhi;
	diff = ((w->reg[BRINK_WREG_T0].val ^ w->reg[WALK_RAX].val) & m & ~ulo) |
	       ((w->reg[BRINK_WREG_T1].val ^ w->reg[WALK_RDX].val) & m & ~uhi);
	if (diff) {
		walk_flags_put(w, WALK_ZF, 0, WALK_ZF);
		walk_write(w, WALK_RAX, msh, w->reg[BRINK_WREG_T0].val, w->reg[BRINK_WREG_T0].unk);
		walk_write(w, WALK_RDX, msh, w->reg[BRINK_WREG_T1].val, w->reg[BRINK_WREG_T1].unk);
		return 0;
	}
	if (unk)
		return walk_stop(w, BRINK_STOP_UNKNOWN_CONDITION);
	walk_flags_put(w, WALK_ZF, WALK_ZF, WALK_ZF);
	if (walk_store(w, ea, msh, WALK_RBX) || walk_store(w, ea + half, msh, WALK_RCX))
		return 1;
	return 0;
}

/* PUSHF's value; POPF, LAHF, SAHF and the one-bit instructions. */
WALK_GLOBAL int walk_flag_op(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 f, k, cf;
	__u64 v, unk;

	if (!w || !u)
		return 1;
	walk_flags_settle(w);
	f = w->flags & ~WALK_DF_UNKNOWN;
	k = w->flags_known;
	switch (u->op) {
	case BRINK_OP_PUSHF:
		/* RF and VM are pushed as 0. */
		w->reg[BRINK_WREG_MEM].unk = (WALK_ARITH & ~k) | (w->flags & WALK_DF_UNKNOWN ? WALK_DF : 0);
		w->reg[BRINK_WREG_MEM].val = ((f & 0x3cffff) | 2) & ~w->reg[BRINK_WREG_MEM].unk;
		w->reg[WALK_RSP].val -= 8;
		return 0;
	case BRINK_OP_POPF:
		v = w->reg[BRINK_WREG_MEM].val;
		unk = w->reg[BRINK_WREG_MEM].unk;
		if ((v | unk) & 0x100)	/* a trap flag brings a signal */
			return walk_stop(w, BRINK_STOP_UNSUPPORTED);
		/* IF and IOPL are not the user's to change; NT, AC and ID are. */
		f = (f & ~0x244dd5u) | (v & 0x244dd5u & ~(__u32)unk);
		if (unk & WALK_DF)
			f |= WALK_DF_UNKNOWN;
		w->flags = f;
		w->flags_known = WALK_ARITH & ~(__u32)unk;
		w->reg[WALK_RSP].val += 8;
		return 0;
	case BRINK_OP_LAHF:
		v = (f & (WALK_SF | WALK_ZF | WALK_AF | WALK_PF | WALK_CF)) | 2;
		unk = ~k & (WALK_SF | WALK_ZF | WALK_AF | WALK_PF | WALK_CF);
		w->reg[WALK_RAX].val = (w->reg[WALK_RAX].val & ~0xff00ull) | (v & ~unk) << 8;
		w->reg[WALK_RAX].unk = (w->reg[WALK_RAX].unk & ~0xff00ull) | unk << 8;
		return 0;
	case BRINK_OP_SAHF:
		walk_flags_put(w, WALK_ARITH & ~WALK_OF, w->reg[WALK_RAX].val >> 8, ~(w->reg[WALK_RAX].unk >> 8));
		return 0;
	case BRINK_OP_CLC:
		walk_flags_put(w, WALK_CF, 0, WALK_CF);
		return 0;
	case BRINK_OP_STC:
		walk_flags_put(w, WALK_CF, WALK_CF, WALK_CF);
		return 0;
	case BRINK_OP_CMC:
		cf = walk_flags_carry(w);
		walk_flags_put(w, WALK_CF, cf ^ 1, cf == 2 ? 0 : WALK_CF);
		return 0;
	case BRINK_OP_CLD:
		w->flags = f & ~WALK_DF;
		return 0;
	default:
		w->flags = f | WALK_DF;
		return 0;
	}
}

/* BSWAP, MOVBE, CWD, CBW, LEAVE, ENTER, POP into memory */
WALK_GLOBAL int walk_misc(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg *a, *b;
	__u32 sh, di, i;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	di = u->dst & 31;
	a = &w->reg[di];
	b = &w->reg[u->src & 31];
	switch (u->op) {
	case BRINK_OP_BSWAP:
		walk_write(w, di, sh, walk_swap(a->val, sh), walk_swap(a->unk, sh));
		return 0;
	case BRINK_OP_MOVBE:
		walk_write(w, di, sh, walk_swap(b->val, sh), walk_swap(b->unk, sh));
		return 0;
	case BRINK_OP_CWD:
		a = &w->reg[WALK_RAX];
		walk_write(w, WALK_RDX, sh, (__s64)(a->val << sh) >> 63, (__s64)(a->unk << sh) >> 63);
		return 0;
	case BRINK_OP_CBW:
		i = sh == 0 ? 32 : sh == 32 ? 48 : 56;
		a = &w->reg[WALK_RAX];
		walk_write(w, WALK_RAX, sh, (__s64)(a->val << i) >> i, (__s64)(a->unk << i) >> i);
		return 0;
	case BRINK_OP_LEAVE:
		w->reg[WALK_RSP] = w->reg[WALK_RBP];
		walk_advance(w, WALK_RSP, 8);
		w->reg[WALK_RBP] = w->reg[BRINK_WREG_MEM];
		return 0;
	case BRINK_OP_ENTER:
		w->reg[BRINK_WREG_MEM] = w->reg[WALK_RBP];
		w->reg[WALK_RBP].val = w->reg[WALK_RSP].val - 8;
		w->reg[WALK_RBP].unk = 0;
		w->reg[WALK_RSP].val -= 8 + (__u64)walk_imm(w);
		return 0;
	case BRINK_OP_CLOBBER:
		for (i = 0; i < 16; i++) {
			if ((__u32)walk_imm(w) >> i & 1) {
				w->reg[i].val = 0;
				w->reg[i].unk = ~0ull;
			}
		}
		if ((__u32)walk_imm(w) >> 16)
			walk_flags_put(w, (__u32)walk_imm(w) >> 16, 0, 0);
		if (u->aux & 1)
			w->vknown[di] = 0;
		if (u->aux & 2) {
			w->reg[BRINK_WREG_MEM].val = 0;
			w->reg[BRINK_WREG_MEM].unk = ~0ull;
		}
		if (u->aux & 4) {
			w->reg[u->src2 & 31].val = 0;
			w->reg[u->src2 & 31].unk = ~0ull;
		}
		return 0;
	case BRINK_OP_WRFS:
		walk_write(w, di, sh, b->val, b->unk);
		return 0;
	default:
		return walk_stop(w, BRINK_STOP_UNSUPPORTED);
	}
}

#endif /* BRINK_WALK_MISC_H_ */
