/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Shifts and rotates. Undefined flags and results are unknown. */
#ifndef BRINK_WALK_SHIFT_H_
#define BRINK_WALK_SHIFT_H_

#include "walk/alu.h"

/* CF and OF of a shift, each known or not, with ZF, SF and PF of the result (low-aligned). AF is undefined. */
WALK_INLINE void walk_shift_flags(struct brink_walk *w, __u64 val, __u64 unk, __u32 sh, __u32 cf, __u32 cf_known, __u32 of, __u32 of_known)
{
	__u32 flags, known;

	walk_result_flags(val << sh, unk << sh, sh, &flags, &known);
	flags |= (cf & 1) | (of & 1) << 11;
	known |= (cf_known ? WALK_CF : 0) | (of_known ? WALK_OF : 0);
	walk_flags_all(w, flags, known);
}

/* A count that is not known: the result is unknown, and the flags too. */
WALK_INLINE int walk_shift_unknown(struct brink_walk *w, __u32 di, __u32 sh, __u32 flags)
{
	walk_write(w, di, sh, 0, ~0ull);
	walk_flags_put(w, flags, 0, 0);
	return 0;
}

/* SHL, SHR, SAR */
WALK_GLOBAL int walk_shift(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, r, ur, m;
	__u32 sh, size, di, si, n, cf, ucf, of, uof, cmask;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	size = 64 - sh;
	di = walk_dst(u) & 31;
	si = u->src & 31;
	cmask = sh ? 31 : 63;
	m = walk_mask(sh);
	a = w->reg[di].val & m;
	ua = w->reg[di].unk & m;
	if (w->reg[si].unk & cmask)
		return walk_shift_unknown(w, di, sh, WALK_ARITH);
	n = w->reg[si].val & cmask;
	if (!n) {
		walk_write(w, di, sh, a, ua);
		return 0;
	}
	if (u->op == BRINK_OP_SHL) {
		r = a << n & m;
		ur = ua << n & m;
		cf = n <= size ? a >> ((size - n) & 63) & 1 : 0;
		ucf = n < size ? ua >> ((size - n) & 63) & 1 : 1;
		of = (r >> (size - 1) & 1) ^ cf;
		uof = (ur >> (size - 1) & 1) | ucf;
	} else if (u->op == BRINK_OP_SHR) {
		r = a >> n;
		ur = ua >> n;
		cf = a >> (n - 1) & 1;
		ucf = n < size ? ua >> (n - 1) & 1 : 1;
		of = a >> (size - 1) & 1;
		uof = ua >> (size - 1) & 1;
	} else {
		__s64 x = (__s64)(a << sh) >> sh, ux = (__s64)(ua << sh) >> sh;

		r = (x >> n) & m;
		ur = (ux >> n) & m;
		cf = x >> (n - 1) & 1;
		ucf = ux >> (n - 1) & 1;
		of = uof = 0;
	}
	walk_shift_flags(w, r, ur, sh, cf, !ucf, of, n == 1 && !uof);
	walk_write(w, di, sh, r, ur);
	return 0;
}

/* ROL, ROR, RCL, RCR: only CF and OF change. */
WALK_GLOBAL int walk_rotate(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, r, ur, m;
	__u32 sh, size, di, si, n, k, cf, ucf, of, uof, cin;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	size = 64 - sh;
	di = walk_dst(u) & 31;
	si = u->src & 31;
	m = walk_mask(sh);
	a = w->reg[di].val & m;
	ua = w->reg[di].unk & m;
	n = sh ? 31 : 63;
	if (w->reg[si].unk & n)
		return walk_shift_unknown(w, di, sh, WALK_CF | WALK_OF);
	n &= w->reg[si].val;
	if (!n) {
		walk_write(w, di, sh, a, ua);
		return 0;
	}
	if (u->op == BRINK_OP_ROL || u->op == BRINK_OP_ROR) {
		k = n & (size - 1);
		if (u->op == BRINK_OP_ROR)
			k = (size - k) & (size - 1);
		r = k ? (a << k | a >> ((size - k) & 63)) & m : a;
		ur = k ? (ua << k | ua >> ((size - k) & 63)) & m : ua;
		if (u->op == BRINK_OP_ROL) {
			cf = r & 1;
			ucf = ur & 1;
			of = (r >> (size - 1) & 1) ^ cf;
			uof = (ur >> (size - 1) & 1) | ucf;
		} else {
			cf = r >> (size - 1) & 1;
			ucf = ur >> (size - 1) & 1;
			of = cf ^ (r >> (size - 2) & 1);
			uof = ucf | (ur >> (size - 2) & 1);
		}
		walk_flags_put(w, WALK_CF | WALK_OF, cf | of << 11, (ucf ? 0 : WALK_CF) | (n == 1 && !uof ? WALK_OF : 0));
		walk_write(w, di, sh, r, ur);
		return 0;
	}
	cin = walk_flags_carry(w);
	k = n;
	if (size == 8)
		k = n % 9;
	else if (size == 16)
		k = n % 17;
	if (!k) {	/* all the way round: nothing changes, OF is undefined */
		walk_flags_put(w, WALK_OF, 0, 0);
		walk_write(w, di, sh, a, ua);
		return 0;
	}
	if (ua || cin == 2)
		return walk_shift_unknown(w, di, sh, WALK_CF | WALK_OF);
	if (u->op == BRINK_OP_RCL) {
		r = (k < 64 ? a << k : 0) | (__u64)cin << (k - 1) | (k > 1 ? a >> ((size + 1 - k) & 63) : 0);
		cf = a >> ((size - k) & 63) & 1;
		r &= m;
		of = (r >> (size - 1) & 1) ^ cf;
	} else {
		r = a >> k | (__u64)cin << ((size - k) & 63) | (k > 1 ? a << ((size + 1 - k) & 63) : 0);
		cf = a >> (k - 1) & 1;
		r &= m;
		of = (r >> (size - 1) ^ r >> (size - 2)) & 1;
	}
	walk_flags_put(w, WALK_CF | WALK_OF, cf | of << 11, WALK_CF | (n == 1 ? WALK_OF : 0));
	walk_write(w, di, sh, r, 0);
	return 0;
}

/* SHLD, SHRD */
WALK_GLOBAL int walk_shift_double(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, b, ub, r, ur, m;
	__u32 sh, size, di, si, ci, n, cf, ucf, of, uof, cmask;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	size = 64 - sh;
	di = u->dst & 31;
	si = u->src & 31;
	ci = u->src2 & 31;
	cmask = sh ? 31 : 63;
	m = walk_mask(sh);
	a = w->reg[di].val & m;
	ua = w->reg[di].unk & m;
	b = w->reg[si].val & m;
	ub = w->reg[si].unk & m;
	if (w->reg[ci].unk & cmask)
		return walk_shift_unknown(w, di, sh, WALK_ARITH);
	n = w->reg[ci].val & cmask;
	if (!n) {
		walk_write(w, di, sh, a, ua);
		return 0;
	}
	if (n >= size)	/* 16 bits only: undefined */
		return walk_shift_unknown(w, di, sh, WALK_ARITH);
	if (u->op == BRINK_OP_SHLD) {
		r = (a << n | b >> ((size - n) & 63)) & m;
		ur = (ua << n | ub >> ((size - n) & 63)) & m;
		cf = a >> ((size - n) & 63) & 1;
		ucf = ua >> ((size - n) & 63) & 1;
	} else {
		r = (a >> n | b << ((size - n) & 63)) & m;
		ur = (ua >> n | ub << ((size - n) & 63)) & m;
		cf = a >> (n - 1) & 1;
		ucf = ua >> (n - 1) & 1;
	}
	of = (r ^ a) >> (size - 1) & 1;
	uof = (ur | ua) >> (size - 1) & 1;
	walk_shift_flags(w, r, ur, sh, cf, !ucf, of, n == 1 && !uof);
	walk_write(w, di, sh, r, ur);
	return 0;
}

/* SHLX, SHRX, SARX, RORX */
WALK_GLOBAL int walk_shift_x(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 a, ua, m;
	__u32 sh, size, n, cmask;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	size = 64 - sh;
	cmask = sh ? 31 : 63;
	m = walk_mask(sh);
	a = w->reg[u->src & 31].val & m;
	ua = w->reg[u->src & 31].unk & m;
	if (w->reg[u->src2 & 31].unk & cmask) {
		walk_write(w, u->dst & 31, sh, 0, ~0ull);
		return 0;
	}
	n = w->reg[u->src2 & 31].val & cmask;
	if (u->op == BRINK_OP_SHLX) {
		a <<= n;
		ua <<= n;
	} else if (u->op == BRINK_OP_SHRX) {
		a >>= n;
		ua >>= n;
	} else if (u->op == BRINK_OP_SARX) {
		a = (__u64)((__s64)(a << sh) >> sh >> n);
		ua = (__u64)((__s64)(ua << sh) >> sh >> n);
	} else if (n) {
		a = a >> n | a << ((size - n) & 63);
		ua = ua >> n | ua << ((size - n) & 63);
	}
	walk_write(w, u->dst & 31, sh, a, ua);
	return 0;
}

#endif /* BRINK_WALK_SHIFT_H_ */
