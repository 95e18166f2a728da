/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Whether a call instruction ends at an address, by the bytes before it. Compiled for BPF and, in tests, for the host. */
#ifndef BRINK_BPF_CFI_CALL_SITE_H_
#define BRINK_BPF_CFI_CALL_SITE_H_

#include <linux/types.h>

#define CFI_CALL_BYTES 9	/* the longest near call: two prefixes in front of ff /2 with sib and disp32 */

/* Length of ff /2 without prefixes, by its second and third byte; 0: it is no call. */
static inline __attribute__((always_inline)) __u32 cfi_call_length(__u8 modrm, __u8 sib)
{
	__u32 rm = modrm & 7;

	if ((modrm >> 3 & 7) != 2)
		return 0;
	switch (modrm >> 6) {
	case 0:
		return rm == 4 ? (sib & 7) == 5 ? 7 : 3 : rm == 5 ? 6 : 2;
	case 1:
		return rm == 4 ? 4 : 3;
	case 2:
		return rm == 4 ? 7 : 6;
	default:
		return 2;
	}
}

/* `b` holds the CFI_CALL_BYTES bytes before the address. Prefixes need no look: what they stand before is a call itself. */
static inline __attribute__((always_inline)) int cfi_call_ends(const __u8 *b)
{
	if (b[4] == 0xe8)
		return 1;
	return (b[7] == 0xff && cfi_call_length(b[8], 0) == 2) || (b[6] == 0xff && cfi_call_length(b[7], b[8]) == 3) ||
	       (b[5] == 0xff && cfi_call_length(b[6], b[7]) == 4) || (b[3] == 0xff && cfi_call_length(b[4], b[5]) == 6) ||
	       (b[2] == 0xff && cfi_call_length(b[3], b[4]) == 7);
}

#endif /* BRINK_BPF_CFI_CALL_SITE_H_ */
