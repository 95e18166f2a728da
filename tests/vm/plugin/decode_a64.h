/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Kind and direct target of one A64 instruction. */
#ifndef BRINK_TESTS_VM_DECODE_A64_H_
#define BRINK_TESTS_VM_DECODE_A64_H_

#include "decode_x86.h"

/* `bits` of the word from bit `low` on, as a signed number of instructions. */
static inline uint64_t lbr_words(uint32_t word, int low, int bits)
{
	return (uint64_t)((int64_t)((uint64_t)word << (64 - low - bits)) >> (64 - bits)) * 4;
}

static inline struct lbr_insn lbr_decode_a64(uint32_t word, uint64_t ip)
{
	struct lbr_insn none = {LBR_KIND_NONE, 0, 0, 0};

	if ((word & 0x7c000000) == 0x14000000)			/* b, bl */
		return (struct lbr_insn){word >> 31 ? LBR_KIND_CALL : LBR_KIND_JUMP, 1, 0, ip + lbr_words(word, 0, 26)};
	if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000)	/* b.cond, bc.cond, cbz, cbnz */
		return (struct lbr_insn){LBR_KIND_COND, 1, 1, ip + lbr_words(word, 5, 19)};
	if ((word & 0x7e000000) == 0x36000000)			/* tbz, tbnz */
		return (struct lbr_insn){LBR_KIND_COND, 1, 1, ip + lbr_words(word, 5, 14)};
	if ((word & 0xfe000000) == 0xd6000000) {		/* to a register, with or without authentication */
		switch (word >> 21 & 7) {
		case 0: return (struct lbr_insn){LBR_KIND_IND_JUMP, 0, 0, 0};
		case 1: return (struct lbr_insn){LBR_KIND_IND_CALL, 0, 0, 0};
		case 2: return (struct lbr_insn){LBR_KIND_RET, 0, 0, 0};
		case 4: return (struct lbr_insn){LBR_KIND_ERET, 0, 0, 0};
		}
	}
	if ((word & 0xffe0001f) == 0xd4000001)			/* svc */
		return (struct lbr_insn){LBR_KIND_SYSCALL, 0, 0, 0};
	return none;
}

#endif
