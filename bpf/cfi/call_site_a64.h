/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A64's calls and returns, by their words. Compiled for BPF and, in tests, for the host. */
#ifndef BRINK_BPF_CFI_CALL_SITE_A64_H_
#define BRINK_BPF_CFI_CALL_SITE_A64_H_

#include <linux/types.h>

/* bl */
static inline __attribute__((always_inline)) int cfi_a64_calls(__u32 word)
{
	return word >> 26 == 0x25;
}

/* blr; blraaz, blrabz; blraa, blrab */
static inline __attribute__((always_inline)) int cfi_a64_calls_register(__u32 word)
{
	return (word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfffff81f) == 0xd63f081f || (word & 0xfffff800) == 0xd73f0800;
}

/* ret; retaa, retab */
static inline __attribute__((always_inline)) int cfi_a64_returns(__u32 word)
{
	return (word & 0xfffffc1f) == 0xd65f0000 || (word & 0xfffffbff) == 0xd65f0bff;
}

#endif /* BRINK_BPF_CFI_CALL_SITE_A64_H_ */
