/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Arithmetic on plain values. */
#ifndef BRINK_WALK_PURE_H_
#define BRINK_WALK_PURE_H_

#include "walk/env.h"

WALK_INLINE __u32 walk_count_ones(__u64 x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return x * 0x0101010101010101ull >> 56;
}

/* Number of zeros below the lowest one; 64 for 0. */
WALK_INLINE __u32 walk_low_zeros(__u64 x)
{
	return walk_count_ones(~x & (x - 1));
}

WALK_INLINE __u32 walk_high_zeros(__u64 x)
{
	x |= x >> 1;
	x |= x >> 2;
	x |= x >> 4;
	x |= x >> 8;
	x |= x >> 16;
	x |= x >> 32;
	return 64 - walk_count_ones(x);
}

WALK_INLINE __u64 walk_swap(__u64 v, __u32 sh)
{
	v = (v & 0x00ff00ff00ff00ffull) << 8 | (v >> 8 & 0x00ff00ff00ff00ffull);
	v = (v & 0x0000ffff0000ffffull) << 16 | (v >> 16 & 0x0000ffff0000ffffull);
	v = v << 32 | v >> 32;
	return v >> sh;
}

/* Upper half of a 64 x 64 bit product. */
WALK_INLINE __u64 walk_mul_high(__u64 a, __u64 b)
{
	__u64 al = (__u32)a, ah = a >> 32, bl = (__u32)b, bh = b >> 32;
	__u64 mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (__u32)mid;

	return ah * bh + (mid >> 32) + (mid2 >> 32);
}

WALK_INLINE __u64 walk_imul_high(__u64 a, __u64 b)
{
	return walk_mul_high(a, b) - ((__s64)a < 0 ? b : 0) - ((__s64)b < 0 ? a : 0);
}

WALK_INLINE __u64 walk_sext(__u64 v, __u32 sh)
{
	return (__u64)((__s64)(v << sh) >> sh);
}

struct walk_pair {
	__u64 val;
	__u64 unk;
};

/* Sums with unknown bits: a bit is known when no unknown bit can reach it. */
WALK_INLINE void walk_unk_add(struct walk_pair *a, __u64 bval, __u64 bunk)
{
	__u64 sv = a->val + bval, mu = ((sv + a->unk + bunk) ^ sv) | a->unk | bunk;

	a->val = sv & ~mu;
	a->unk = mu;
}

WALK_INLINE void walk_unk_sub(struct walk_pair *a, __u64 bval, __u64 bunk)
{
	__u64 dv = a->val - bval, mu = ((dv + a->unk) ^ (dv - bunk)) | a->unk | bunk;

	a->val = dv & ~mu;
	a->unk = mu;
}

#endif /* BRINK_WALK_PURE_H_ */
