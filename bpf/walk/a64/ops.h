/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Operations of A64 micro-ops, private to lifter and core.
 *
 * Registers: x0..x15 are 0..15, x16..x30 24..38, sp 39 (BRINK_A64_REG); xzr as a source is BRINK_WREG_ZERO, as a
 * destination BRINK_A64_SINK. TPIDR_EL0 is BRINK_WREG_FS.
 *
 * Unless said otherwise: a = reg[src2], b = reg[src] (changed as BRINK_A64_CHANGED says), the result goes to dst at
 * operand size (sh). With BRINK_UOP_LOAD the memory operand is in BRINK_WREG_MEM, with BRINK_UOP_STORE what is there is
 * stored. With BRINK_A64_BACK the base register is moved by imm at the end.
 */
#ifndef BRINK_WALK_A64_OPS_H_
#define BRINK_WALK_A64_OPS_H_

#define BRINK_A64_SP 39
#define BRINK_A64_SINK 40
#define BRINK_A64_MONITOR 21	/* address of the exclusive monitor (val); unk: open, nothing is reserved */
#define BRINK_A64_REG(n) ((n) < 16 ? (n) : (n) + 8)

/* brink_uop.flags beside MEM, LOAD, STORE (abi/walk.h) */
#define BRINK_A64_BACK 0x08	/* the base register is moved by imm */
#define BRINK_A64_INDEX32 0x10	/* the index is 32 bits wide, zero-extended */
#define BRINK_A64_INDEX32S 0x20	/* sign-extended */
#define BRINK_A64_CHANGED 0x40	/* b is extended from msh (sign: aux bit BRINK_A64_SIGNED), then shifted: scale the kind, index the count */
#define BRINK_A64_WIDE 0x10	/* without MEM: the immediate is disp and imm as one 64-bit value */
#define BRINK_A64_ALIGNED 0x80	/* the address must be aligned to the access */

/* brink_uop.aux of ADD .. XOR, LOAD and PAIR */
#define BRINK_A64_FLAGS 1	/* sets N, Z, C, V */
#define BRINK_A64_INVERT 2	/* b is inverted (not of ADD, SUB) */
#define BRINK_A64_SIGNED 4
#define BRINK_A64_MONITORED 8	/* loads: sets the monitor; stores: only if it is set, status to dst */

enum brink_a64_shift { BRINK_A64_LSL, BRINK_A64_LSR, BRINK_A64_ASR, BRINK_A64_ROR };

enum brink_a64_op {
	BRINK_A64_STOP = 0,	/* aux: enum brink_stop */

	/* The core's inner switch: ADD .. XOR are tested as a range. */
	BRINK_A64_ADD = 1,
	BRINK_A64_SUB = 2,
	BRINK_A64_AND = 3,
	BRINK_A64_OR = 4,
	BRINK_A64_XOR = 5,
	BRINK_A64_CONST = 6,	/* dst = disp and imm as one 64-bit value */
	BRINK_A64_LOAD = 7,
	BRINK_A64_STORE = 8,	/* of b */

	/* Branches; STOP, JMPI, CALLI and NOP have x86-64's numbers, by which the code cache knows them. */
	BRINK_A64_BCOND = 10,	/* aux: condition */
	BRINK_A64_B = 11,
	BRINK_A64_BR = 12,	/* to b; aux: authenticated, bits of an address; 0 not */
	BRINK_A64_BL = 13,
	BRINK_A64_BLR = 14,
	BRINK_A64_RET = 15,
	BRINK_A64_CBZ = 16,	/* aux 0 if zero, 1 if not */
	BRINK_A64_TBZ = 17,	/* bit `index` */
	BRINK_A64_NOP = 18,

	BRINK_A64_ADDRESS = 19,	/* dst = ip + imm; aux 1: page of ip + imm pages */
	BRINK_A64_SELECT = 20,	/* aux: condition; scale 0 csel, 1 csinc, 2 csinv, 3 csneg */
	BRINK_A64_COMPARE = 21,	/* conditional; aux: condition; scale 0 ccmn, 1 ccmp; index: nzcv otherwise */
	BRINK_A64_CARRY = 22,	/* aux as ADD; scale 0 adc, 1 sbc */
	BRINK_A64_SHIFT = 23,	/* a shifted by b; aux: enum brink_a64_shift */
	BRINK_A64_FIELD = 24,	/* of b; aux 0 sbfm, 1 bfm, 2 ubfm; scale immr, index imms */
	BRINK_A64_EXTRACT = 25,	/* a:b from bit index on */
	BRINK_A64_KEEP = 26,	/* movk: imm at bit aux */
	BRINK_A64_MADD = 27,	/* base + a * b; scale 1: minus; aux 1 signed, 2 unsigned 32-bit factors */
	BRINK_A64_HIGH = 28,	/* upper half of a * b; aux 0 signed, 1 unsigned */
	BRINK_A64_DIV = 29,	/* aux 0 signed, 1 unsigned */
	BRINK_A64_BITS = 30,	/* of b; aux: enum brink_a64_bits */
	BRINK_A64_CRC = 31,	/* of a with msh bits of b; aux 1: crc32c */
	BRINK_A64_FLAG = 32,	/* aux: enum brink_a64_flag */
	BRINK_A64_PAC = 33,	/* of dst; aux: enum brink_a64_pac; index: bits of an address */
	BRINK_A64_PAIR_LOAD = 34,	/* dst, src2 */
	BRINK_A64_PAIR_STORE = 35,	/* src, src2; MONITORED: status to dst */
	BRINK_A64_EXCLUSIVE = 36,	/* store of src with MONITORED */
	BRINK_A64_ATOMIC = 37,	/* dst = memory; memory = aux (enum brink_a64_atomic) of it and b */
	BRINK_A64_SWAP_IF = 38,	/* cas: src2 is compared, src stored if equal; dst = memory */
	BRINK_A64_SWAP_PAIR = 39,	/* casp: dst, dst + 1; src, src + 1 by machine numbers */
	BRINK_A64_OPEN = 40,	/* clrex */
	/* Effects only, all unknown afterwards; aux: BRINK_A64_LOSE_*; with BACK as others. */
	BRINK_A64_CLOBBER = 41,
	BRINK_A64_ZERO = 42,	/* the 1 << aux bytes (64 and more) that the address lies in become 0 */

	BRINK_A64_V = 64,	/* this and above: a64/vops.h */
};

#define BRINK_A64_LOSE_REG 1	/* general dst */
#define BRINK_A64_LOSE_VECTOR 2	/* vector dst, and as many behind it as src tells */
#define BRINK_A64_LOSE_FLAGS 4
#define BRINK_A64_LOSE_MEMORY 8	/* msh bytes at the address */
#define BRINK_A64_LOSE_REG2 16	/* general src2 */

enum brink_a64_bits { BRINK_A64_RBIT, BRINK_A64_REV16, BRINK_A64_REV32, BRINK_A64_REV, BRINK_A64_CLZ, BRINK_A64_CLS };

enum brink_a64_flag {
	BRINK_A64_FLAG_READ,	/* dst = nzcv */
	BRINK_A64_FLAG_WRITE,	/* nzcv = b */
	BRINK_A64_FLAG_CFINV,
	BRINK_A64_FLAG_RMIF,	/* b rotated by imm, bits of index into the flags */
	BRINK_A64_FLAG_SETF,	/* of the low byte (sh 56) or half-word (48) of b */
};

enum brink_a64_pac { BRINK_A64_PAC_SIGN, BRINK_A64_PAC_CHECK, BRINK_A64_PAC_STRIP };

enum brink_a64_atomic {
	BRINK_A64_AT_ADD, BRINK_A64_AT_CLR, BRINK_A64_AT_EOR, BRINK_A64_AT_SET, BRINK_A64_AT_SMAX, BRINK_A64_AT_SMIN,
	BRINK_A64_AT_UMAX, BRINK_A64_AT_UMIN, BRINK_A64_AT_SWAP,
};

#endif /* BRINK_WALK_A64_OPS_H_ */
