/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Bit fields, counts, products and quotients, checksums, flag instructions, pointer authentication. */
#ifndef BRINK_WALK_A64_BITS_H_
#define BRINK_WALK_A64_BITS_H_

#include "walk/a64/alu.h"

/* One half (value or unknown bits) of a field that is moved; `sign` extends its top bit. */
WALK_INLINE __u64 a64_move_field(__u64 v, __u32 from, __u32 bits, __u32 to, __u32 sign)
{
	__u32 sh = 64 - bits;

	v = v >> (from & 63) << (sh & 63);
	v = sign ? (__u64)((__s64)v >> (sh & 63)) : v >> (sh & 63);
	return v << (to & 63);
}

/* SBFM, BFM, UBFM */
WALK_GLOBAL int a64_field(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg b, *d;
	__u32 r, s, sh, from = 0, to = 0, bits;
	__u64 val, unk, in;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	r = u->scale & 63;
	s = u->index & 63;
	b = *a64_reg(w, u->src);
	if (s >= r) {
		from = r;
		bits = s - r + 1;
	} else {
		to = 64 - sh - r;
		bits = s + 1;
	}
	val = a64_move_field(b.val, from, bits, to, u->aux == 0);
	unk = a64_move_field(b.unk, from, bits, to, u->aux == 0);
	if (u->aux == 1) {
		d = a64_reg(w, u->dst);
		in = a64_move_field(~0ull, 0, bits, to, 0);
		val |= d->val & ~in;
		unk |= d->unk & ~in;
	}
	a64_write(w, u->dst, sh, val, unk);
	return 0;
}

WALK_GLOBAL int a64_extract(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a, b;
	__u32 sh, n, width;
	__u64 m;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	width = 64 - sh;
	m = walk_mask(sh);
	n = u->index & (width - 1);
	a = *a64_reg(w, u->src2);
	b = *a64_reg(w, u->src);
	if (n)
		a64_write(w, u->dst, sh, (b.val & m) >> n | a.val << (width - n), (b.unk & m) >> n | a.unk << (width - n));
	else
		a64_write(w, u->dst, sh, b.val, b.unk);
	return 0;
}

WALK_INLINE __u64 a64_reverse_bits(__u64 v)
{
	v = (v & 0x5555555555555555ull) << 1 | (v >> 1 & 0x5555555555555555ull);
	v = (v & 0x3333333333333333ull) << 2 | (v >> 2 & 0x3333333333333333ull);
	v = (v & 0x0f0f0f0f0f0f0f0full) << 4 | (v >> 4 & 0x0f0f0f0f0f0f0f0full);
	return walk_swap(v, 0);
}

WALK_INLINE __u64 a64_permute(__u64 v, __u32 how, __u32 sh)
{
	switch (how) {
	case BRINK_A64_RBIT:
		return a64_reverse_bits(v) >> sh;
	case BRINK_A64_REV16:
		return (v & 0x00ff00ff00ff00ffull) << 8 | (v >> 8 & 0x00ff00ff00ff00ffull);
	case BRINK_A64_REV32:
		v = walk_swap(v, 0);
		return v << 32 | v >> 32;
	default:
		return walk_swap(v, sh);
	}
}

/* RBIT .. CLS */
WALK_GLOBAL int a64_bits(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 val, unk;
	__u32 sh, n;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	val = a64_reg(w, u->src)->val & walk_mask(sh);
	unk = a64_reg(w, u->src)->unk & walk_mask(sh);
	if (u->aux < BRINK_A64_CLZ) {
		a64_write(w, u->dst, sh, a64_permute(val, u->aux, sh), a64_permute(unk, u->aux, sh));
		return 0;
	}
	if (u->aux == BRINK_A64_CLS) {
		if (unk) {
			a64_write(w, u->dst, sh, 0, 63);
			return 0;
		}
		val <<= sh;
		val ^= (__u64)((__s64)val >> 63);
		n = walk_high_zeros(val) - 1;
		if (n > 63 - sh)
			n = 63 - sh;
	} else {
		n = walk_high_zeros(val) - sh;
		/* What lies below the highest one does not matter. */
		if (unk && walk_high_zeros(unk) - sh < n) {
			a64_write(w, u->dst, sh, 0, 127);
			return 0;
		}
	}
	a64_write(w, u->dst, sh, n, 0);
	return 0;
}

/* MADD and its kin */
WALK_GLOBAL int a64_madd(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a, b, c;
	__u64 unk, product;
	__u32 sh;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	a = *a64_reg(w, u->src2);
	b = *a64_reg(w, u->src);
	c = *a64_reg(w, u->base);
	if (u->aux) {
		a.val = u->aux == 1 ? walk_sext(a.val, 32) : (__u32)a.val;
		b.val = u->aux == 1 ? walk_sext(b.val, 32) : (__u32)b.val;
		a.unk = u->aux == 1 ? walk_sext(a.unk, 32) : (__u32)a.unk;
		b.unk = u->aux == 1 ? walk_sext(b.unk, 32) : (__u32)b.unk;
	}
	/* Zero times what is not known is zero. */
	if ((!a.val && !a.unk) || (!b.val && !b.unk))
		a.unk = b.unk = 0;
	unk = a.unk | b.unk | c.unk;
	product = a.val * b.val;
	/* Bits below the lowest unknown one are those of what is known. */
	a64_write(w, u->dst, sh, u->scale ? c.val - product : c.val + product, -(unk & -unk));
	return 0;
}

/* SMULH, UMULH, SDIV, UDIV */
WALK_GLOBAL int a64_mul_div(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg a, b;
	__u64 r, negative;
	__u32 sh;

	if (!w || !u)
		return 1;
	sh = u->sh & 63;
	a = *a64_reg(w, u->src2);
	b = *a64_reg(w, u->src);
	if ((a.unk | b.unk) & walk_mask(sh)) {
		a64_write(w, u->dst, sh, 0, ~0ull);
		return 0;
	}
	if (u->op == BRINK_A64_HIGH) {
		r = u->aux ? walk_mul_high(a.val, b.val) : walk_imul_high(a.val, b.val);
	} else {
		a.val = u->aux ? a.val & walk_mask(sh) : walk_sext(a.val, sh);
		b.val = u->aux ? b.val & walk_mask(sh) : walk_sext(b.val, sh);
		negative = u->aux ? 0 : (__u64)((__s64)(a.val ^ b.val) >> 63);
		if (!u->aux && (__s64)a.val < 0)
			a.val = -a.val;
		if (!u->aux && (__s64)b.val < 0)
			b.val = -b.val;
		/* Nothing faults: by 0 it is 0. */
		r = b.val ? a.val / b.val : 0;
		r = (r ^ negative) - negative;
	}
	a64_write(w, u->dst, sh, r, 0);
	return 0;
}

WALK_GLOBAL int a64_crc(struct brink_walk *w, const struct brink_uop *u)
{
	__u32 crc, poly, bits, i, msh;
	__u64 b;

	if (!w || !u)
		return 1;
	msh = u->msh & 63;
	if ((a64_reg(w, u->src2)->unk & 0xffffffff) || (a64_reg(w, u->src)->unk & walk_mask(msh))) {
		a64_write(w, u->dst, 32, 0, ~0ull);
		return 0;
	}
	poly = u->aux ? 0x82f63b78 : 0xedb88320;
	crc = a64_reg(w, u->src2)->val;
	b = a64_reg(w, u->src)->val;
	bits = 64 - msh;
	for (i = 0; i < 64; i++) {
		__u32 bit = (crc ^ (__u32)(b >> i)) & 1, on = (__u32)((__s32)(i - bits) >> 31), next;

		WALK_OPAQUE(bit);
		WALK_OPAQUE(on);
		next = crc >> 1 ^ (poly & -bit);
		crc = (next & on) | (crc & ~on);
	}
	a64_write(w, u->dst, 32, crc, 0);
	return 0;
}

/* The flags as values. */
WALK_GLOBAL int a64_flag_op(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg b;
	__u64 val, unk;
	__u32 n, mask, known;

	if (!w || !u)
		return 1;
	a64_flags_settle(w);
	b = *a64_reg(w, u->src);
	n = walk_imm(w) & 63;
	known = w->flags_known;
	switch (u->aux) {
	case BRINK_A64_FLAG_READ:
		a64_write(w, u->dst, 0, w->flags & A64_NZCV, A64_NZCV & ~known);
		break;
	case BRINK_A64_FLAG_WRITE:
		a64_flags_all(w, b.val, ~b.unk);
		break;
	case BRINK_A64_FLAG_CFINV:
		a64_flags_all(w, w->flags ^ A64_C, known);
		break;
	case BRINK_A64_FLAG_RMIF:
		val = n ? b.val >> n | b.val << (64 - n) : b.val;
		unk = n ? b.unk >> n | b.unk << (64 - n) : b.unk;
		mask = (__u32)u->index << 28;
		a64_flags_all(w, (w->flags & ~mask) | ((__u32)(val << 28) & mask), (known & ~mask) | (~(__u32)(unk << 28) & mask));
		break;
	default:	/* SETF8, SETF16: N and Z of the value, V where the next bit differs, C stays */
		n = 63 - (u->sh & 63);
		val = b.val;
		unk = b.unk & walk_mask(u->sh);
		known &= A64_C;
		if (!unk)
			known |= A64_N | A64_Z;
		if (!((b.unk >> n | b.unk >> (n + 1)) & 1))
			known |= A64_V;
		a64_flags_all(w, (w->flags & A64_C) | (__u32)(val >> n & 1) << 31 | (val & walk_mask(u->sh) ? 0 : A64_Z) |
					 (__u32)((val >> n ^ val >> (n + 1)) & 1) << 28,
			      known);
		break;
	}
	return 0;
}

/*
 * Pointer authentication, without the keys: a signed pointer has unknown bits where the code is; checking gives the
 * address back, as it does in a program that is not attacked. User addresses have bit 55 clear.
 */
#define A64_PAC_SIDE 0x0080000000000000ull
WALK_GLOBAL int a64_pac(struct brink_walk *w, const struct brink_uop *u)
{
	struct brink_walk_reg *r;
	__u64 code, side;

	if (!w || !u)
		return 1;
	r = a64_reg(w, u->dst);
	/* From the address on up to bit 54; of what is no user address the top byte belongs to it or not, as the kernel likes. */
	code = (A64_PAC_SIDE - 1) & -(1ull << (u->index & 63));
	if (u->aux == BRINK_A64_PAC_CHECK) {
		r->val &= ~(code | A64_PAC_SIDE);
		r->unk &= ~(code | A64_PAC_SIDE);
		return 0;
	}
	side = (r->val | r->unk) & A64_PAC_SIDE;
	if (side)
		code |= ~A64_ADDRESS | A64_PAC_SIDE;
	r->val &= ~code;
	if (u->aux == BRINK_A64_PAC_SIGN || side)
		r->unk |= code;
	else
		r->unk &= ~code;
	return 0;
}

#endif /* BRINK_WALK_A64_BITS_H_ */
