/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Bit tests and scans, BMI1, BMI2, CRC32. */
#ifndef BRINK_WALK_BITS_H_
#define BRINK_WALK_BITS_H_

#include "walk/alu.h"
#include "walk/pure.h"

/* BT, BTS, BTR, BTC: CF is the bit, ZF stays, the others are undefined. */
WALK_GLOBAL int walk_bit_test(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, bit;
	__u32 sh, n, di, size;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	size = 64 - sh;
	di = u->dst & 31;
	a = w->reg[di].val;
	ua = w->reg[di].unk;
	if (w->reg[u->src & 31].unk & (size - 1)) {
		walk_flags_put(w, WALK_ARITH & ~WALK_ZF, 0, 0);
		if (u->op != BRINK_OP_BT)
			walk_write(w, di, sh, 0, ~0ull);
		return 0;
	}
	n = w->reg[u->src & 31].val & (size - 1);
	bit = 1ull << n;
	walk_flags_put(w, WALK_ARITH & ~WALK_ZF, a >> n & 1, ua & bit ? 0 : WALK_CF);
	if (u->op == BRINK_OP_BTS) {
		a |= bit;
		ua &= ~bit;
	} else if (u->op == BRINK_OP_BTR) {
		a &= ~bit;
		ua &= ~bit;
	} else if (u->op == BRINK_OP_BTC) {
		a = (a ^ bit) & ~ua;
	} else {
		return 0;
	}
	walk_write(w, di, sh, a, ua);
	return 0;
}

/* BSF, BSR, TZCNT, LZCNT, POPCNT */
WALK_GLOBAL int walk_bit_scan(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 b, unk, m, low;
	__u32 sh, r, flags = 0, known = 0, di, op;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	op = u->op;
	m = walk_mask(sh);
	di = u->dst & 31;
	b = w->reg[u->src & 31].val & m;
	unk = w->reg[u->src & 31].unk & m;
	low = b & -b;
	/* The lowest one decides BSF and TZCNT if nothing below it is unknown. */
	if ((op == BRINK_OP_BSF || op == BRINK_OP_TZCNT) && b && !(unk & (low - 1)))
		unk = 0;
	if (unk) {
		walk_write(w, di, sh, 0, ~0ull);
		/* Of zero the scans leave the destination alone, upper half included. */
		if (b && (op == BRINK_OP_BSF || op == BRINK_OP_BSR)) {
			known = WALK_ZF;
		} else if (op == BRINK_OP_BSF || op == BRINK_OP_BSR) {
			w->reg[di].val = 0;
			w->reg[di].unk = ~0ull;
		}
		if (b && (op == BRINK_OP_TZCNT || op == BRINK_OP_LZCNT))
			known = WALK_CF;
		walk_flags_all(w, 0, known);
		return 0;
	}
	if (op == BRINK_OP_POPCNT) {
		r = walk_count_ones(b);
		flags = b ? 0 : WALK_ZF;
		known = WALK_ARITH;
	} else if (op == BRINK_OP_TZCNT || op == BRINK_OP_LZCNT) {
		r = op == BRINK_OP_TZCNT ? walk_low_zeros(b) : walk_high_zeros(b) - sh;
		if (!b)
			r = 64 - sh;
		flags = (b ? 0 : WALK_CF) | (r ? 0 : WALK_ZF);
		known = WALK_CF | WALK_ZF;
	} else if (!b) {	/* the destination is undefined, upper half of a 32-bit one included */
		w->reg[di].val = 0;
		w->reg[di].unk = ~0ull;
		walk_flags_all(w, WALK_ZF, WALK_ZF);
		return 0;
	} else {
		r = op == BRINK_OP_BSF ? walk_low_zeros(b) : 63 - walk_high_zeros(b);
		known = WALK_ZF;
	}
	walk_flags_all(w, flags, known);
	walk_write(w, di, sh, r, 0);
	return 0;
}

/* ANDN, BEXTR, BLSI, BLSMSK, BLSR, BZHI */
WALK_GLOBAL int walk_bmi1(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, b, unk, r = 0, m;
	__u32 sh, size, op, flags, known, n, len, drop, cf = 0;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	size = 64 - sh;
	op = u->op;
	m = walk_mask(sh);
	b = w->reg[u->src & 31].val & m;
	a = w->reg[u->src2 & 31].val & m;
	unk = w->reg[u->src & 31].unk & m;
	drop = WALK_AF | WALK_PF;
	if (op == BRINK_OP_ANDN)
		unk |= w->reg[u->src2 & 31].unk & m;
	else if (op == BRINK_OP_BEXTR)
		unk |= w->reg[u->src2 & 31].unk & 0xffff;
	else if (op == BRINK_OP_BZHI)
		unk |= w->reg[u->src2 & 31].unk & 0xff;
	if (unk) {
		walk_write(w, u->dst & 31, sh, 0, ~0ull);
		walk_flags_all(w, 0, op == BRINK_OP_ANDN || op == BRINK_OP_BEXTR ? WALK_CF | WALK_OF : WALK_OF);
		return 0;
	}
	if (op == BRINK_OP_ANDN) {
		r = ~a & b;
	} else if (op == BRINK_OP_BEXTR) {
		n = a & 0xff;
		len = a >> 8 & 0xff;
		r = n < 64 ? b >> n : 0;
		if (len < 64)
			r &= (1ull << len) - 1;
		drop |= WALK_SF;
	} else if (op == BRINK_OP_BLSI) {
		r = b & -b;
		cf = b != 0;
	} else if (op == BRINK_OP_BLSMSK) {
		r = b ^ (b - 1);
		cf = b == 0;
	} else if (op == BRINK_OP_BLSR) {
		r = b & (b - 1);
		cf = b == 0;
	} else {
		n = a & 0xff;
		r = n < size ? b & ((1ull << (n & 63)) - 1) : b;
		cf = n > size - 1;
	}
	r &= m;
	walk_result_flags(r << sh, 0, sh, &flags, &known);
	walk_flags_all(w, flags | cf, (known | WALK_CF | WALK_OF) & ~drop);
	walk_write(w, u->dst & 31, sh, r, 0);
	return 0;
}

/* PDEP, PEXT; one turn a bit, without branches. */
WALK_GLOBAL int walk_pdep_pext(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, mask, r = 0, pos = 0;
	__u64 dep;
	__u32 sh, i;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	if ((w->reg[u->src & 31].unk | w->reg[u->src2 & 31].unk) << sh) {
		walk_write(w, u->dst & 31, sh, 0, ~0ull);
		return 0;
	}
	mask = w->reg[u->src & 31].val & walk_mask(sh);
	a = w->reg[u->src2 & 31].val & walk_mask(sh);
	dep = u->op == BRINK_OP_PDEP ? 63 : 0;
	WALK_OPAQUE(dep);
	for (i = 0; i < 64; i++) {
		__u64 bit = mask >> i & 1, from = ((pos ^ i) & dep) ^ i, to = ((pos ^ i) & ~dep) ^ i;

		WALK_OPAQUE(bit);
		r |= (a >> (from & 63) & bit) << (to & 63);
		pos += bit;
	}
	walk_write(w, u->dst & 31, sh, r, 0);
	return 0;
}

/* ADCX, ADOX: add with the carry in CF or OF alone. */
WALK_GLOBAL int walk_adx(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, b, r, c, m;
	__u32 sh, bit;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	m = walk_mask(sh);
	bit = u->op == BRINK_OP_ADCX ? WALK_CF : WALK_OF;
	walk_flags_settle(w);
	if (((w->reg[u->dst & 31].unk | w->reg[u->src & 31].unk) & m) || !(w->flags_known & bit)) {
		walk_write(w, u->dst & 31, sh, 0, ~0ull);
		walk_flags_put(w, bit, 0, 0);
		return 0;
	}
	a = w->reg[u->dst & 31].val & m;
	b = w->reg[u->src & 31].val & m;
	r = (a + b + !!(w->flags & bit)) & m;
	c = ((a & b) | ((a | b) & ~r)) >> (63 - sh) & 1;
	walk_flags_put(w, bit, c ? bit : 0, bit);
	walk_write(w, u->dst & 31, sh, r, 0);
	return 0;
}

WALK_GLOBAL int walk_crc32(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 crc, bits, i, msh, si;
	__u64 b;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	si = walk_src(u) & 31;
	if ((w->reg[u->dst & 31].unk & 0xffffffff) || (w->reg[si].unk & walk_mask(msh))) {
		/* The upper half is cleared whatever the rest. */
		walk_write(w, u->dst & 31, 32, 0, 0xffffffff);
		return 0;
	}
	crc = w->reg[u->dst & 31].val;
	b = w->reg[si].val;
	bits = 64 - msh;
	for (i = 0; i < 64; i++) {
		__u32 bit = (crc ^ (__u32)(b >> i)) & 1, on = (__u32)((__s32)(i - bits) >> 31), next;

		WALK_OPAQUE(bit);
		WALK_OPAQUE(on);
		next = crc >> 1 ^ (0x82f63b78 & -bit);
		crc = (next & on) | (crc & ~on);
	}
	walk_write(w, u->dst & 31, 32, crc, 0);
	return 0;
}

#endif /* BRINK_WALK_BITS_H_ */
