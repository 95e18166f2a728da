/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Eight bytes of a vector at a time: elements of 1 << e bytes in one 64-bit word; and masks of bytes and elements. */
#ifndef BRINK_WALK_LANES_H_
#define BRINK_WALK_LANES_H_

#include "walk/memory.h"

/* Top bit of every element. */
WALK_INLINE __u64 walk_tops(__u32 e)
{
	return e == 0 ? 0x8080808080808080ull : e == 1 ? 0x8000800080008000ull : e == 2 ? 0x8000000080000000ull : 0x8000000000000000ull;
}

/* Top bits, spread over their elements. */
WALK_INLINE __u64 walk_fill_elements(__u64 tops, __u32 e)
{
	__u32 width = 8u << e;
	__u64 low = tops >> (width - 1);

	return (tops << 1) - low;
}

WALK_INLINE __u64 walk_lane_add(__u64 a, __u64 b, __u64 h)
{
	return ((a & ~h) + (b & ~h)) ^ ((a ^ b) & h);
}

WALK_INLINE __u64 walk_lane_sub(__u64 a, __u64 b, __u64 h)
{
	return ((a | h) - (b & ~h)) ^ ((a ^ ~b) & h);
}

/* Top bit set where the element is not 0. */
WALK_INLINE __u64 walk_lane_nonzero(__u64 x, __u64 h)
{
	return (((x & ~h) + ~h) | x) & h;
}

/* Top bit set where a > b, unsigned: the borrow of b - a. */
WALK_INLINE __u64 walk_lane_above(__u64 a, __u64 b, __u64 h)
{
	__u64 d = walk_lane_sub(b, a, h);

	return ((~b & a) | (~(a ^ b) & d)) & h;
}

/* A bit an element -> a bit a byte. */
WALK_INLINE __u64 walk_spread(__u64 x, __u32 e)
{
	if (e == 0)
		return x;
	if (e == 1) {
		x &= 0xffffffff;
		x = (x | x << 16) & 0x0000ffff0000ffffull;
		x = (x | x << 8) & 0x00ff00ff00ff00ffull;
		x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
		x = (x | x << 2) & 0x3333333333333333ull;
		x = (x | x << 1) & 0x5555555555555555ull;
		return x * 3;
	}
	if (e == 2) {
		x &= 0xffff;
		x = (x | x << 24) & 0x000000ff000000ffull;
		x = (x | x << 12) & 0x000f000f000f000full;
		x = (x | x << 6) & 0x0303030303030303ull;
		x = (x | x << 3) & 0x1111111111111111ull;
		return x * 15;
	}
	return walk_expand(x);
}

/* A bit a byte -> a bit an element, set where all bytes of the element are. */
WALK_INLINE __u64 walk_gather(__u64 x, __u32 e)
{
	if (e == 0)
		return x;
	x &= x >> 1;
	if (e == 1) {
		x &= 0x5555555555555555ull;
		x = (x | x >> 1) & 0x3333333333333333ull;
		x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0full;
		x = (x | x >> 4) & 0x00ff00ff00ff00ffull;
		x = (x | x >> 8) & 0x0000ffff0000ffffull;
		return (x | x >> 16) & 0xffffffff;
	}
	x &= x >> 2;
	if (e == 2) {
		x &= 0x1111111111111111ull;
		x = (x | x >> 3) & 0x0303030303030303ull;
		x = (x | x >> 6) & 0x000f000f000f000full;
		x = (x | x >> 12) & 0x000000ff000000ffull;
		return (x | x >> 24) & 0xffff;
	}
	x &= x >> 4;
	return (x & 0x0101010101010101ull) * 0x0102040810204080ull >> 56;
}

/* Top bits of one word's elements as its low bits. */
WALK_INLINE __u64 walk_top_bits(__u64 tops, __u32 e)
{
	if (e == 0)
		return (tops >> 7) * 0x0102040810204080ull >> 56;
	if (e == 1)
		return (tops >> 15 & 1) | (tops >> 30 & 2) | (tops >> 45 & 4) | (tops >> 60 & 8);
	if (e == 2)
		return (tops >> 31 & 1) | (tops >> 62 & 2);
	return tops >> 63;
}

/* Bytes of a vector of `length` bytes, a bit each. */
WALK_INLINE __u64 walk_bytes(__u32 length)
{
	return length >= 64 ? ~0ull : (1ull << (length & 63)) - 1;
}

#endif /* BRINK_WALK_LANES_H_ */
