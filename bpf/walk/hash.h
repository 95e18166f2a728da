/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Names for pieces of code by their content, the same in the kernel and in user space.
 *
 * A collision costs a missed or wasted look-up and never more: bytes are compared after every look-up.
 */
#ifndef BRINK_WALK_HASH_H_
#define BRINK_WALK_HASH_H_

#include <linux/types.h>

#define BRINK_WALK_HASH_K1 0x9e3779b97f4a7c15ULL
#define BRINK_WALK_HASH_K2 0xd6e8feb86659fd93ULL

/* Two lanes, so that the multiplications overlap. */
static inline __attribute__((always_inline)) __u64 brink_walk_line_hash(const __u64 word[8], __u32 line)
{
	__u64 a = (word[0] ^ line) * BRINK_WALK_HASH_K1, b = word[1] * BRINK_WALK_HASH_K2;

	a = (a ^ a >> 29 ^ word[2]) * BRINK_WALK_HASH_K1;
	b = (b ^ b >> 32 ^ word[3]) * BRINK_WALK_HASH_K2;
	a = (a ^ a >> 29 ^ word[4]) * BRINK_WALK_HASH_K1;
	b = (b ^ b >> 32 ^ word[5]) * BRINK_WALK_HASH_K2;
	a = (a ^ a >> 29 ^ word[6]) * BRINK_WALK_HASH_K1;
	b = (b ^ b >> 32 ^ word[7]) * BRINK_WALK_HASH_K2;
	a ^= b ^ b >> 31;
	a *= BRINK_WALK_HASH_K1;
	return a ^ a >> 32;
}

/*
 * First way of the two sets of `sets` (a power of two, two ways each) where the line of an address may be. Folded, so that
 * arrays a power of two apart do not meet; the second choice scatters what meets in the first.
 */
static inline __attribute__((always_inline)) __u32 brink_walk_set(__u64 address, __u32 sets)
{
	return (__u32)((address >> 6 ^ address >> 13 ^ address >> 21) & (sets - 1)) * 2;
}

static inline __attribute__((always_inline)) __u32 brink_walk_other_set(__u64 address, __u32 sets)
{
	return (__u32)((address >> 6) * BRINK_WALK_HASH_K1 >> 40 & (sets - 1)) * 2;
}

#ifndef __bpf__
/* Of any bytes, with a seed: user space names whole pages by two of these. */
static inline __u64 brink_walk_bytes_hash(const void *bytes, __u64 size, __u64 seed)
{
	const unsigned char *p = (const unsigned char *)bytes;
	__u64 h = seed * BRINK_WALK_HASH_K1 ^ size, lane[4] = { h, h + 1, h + 2, h + 3 };
	int i;

	/* Four lanes, so that the multiplications overlap. */
	for (; size >= 32; size -= 32, p += 32) {
		for (i = 0; i < 4; i++) {
			__u64 word;

			__builtin_memcpy(&word, p + 8 * i, 8);
			lane[i] = (lane[i] ^ word) * BRINK_WALK_HASH_K2;
			lane[i] ^= lane[i] >> 29;
		}
	}
	for (i = 0; i < 4; i++) {
		h = (h ^ lane[i]) * BRINK_WALK_HASH_K2;
		h ^= h >> 29;
	}
	for (; size >= 8; size -= 8, p += 8) {
		__u64 word;

		__builtin_memcpy(&word, p, 8);
		h = (h ^ word) * BRINK_WALK_HASH_K2;
		h ^= h >> 29;
	}
	for (; size; size--, p++)
		h = (h ^ *p) * BRINK_WALK_HASH_K1;
	return h ^ h >> 32;
}
#endif

#endif /* BRINK_WALK_HASH_H_ */
