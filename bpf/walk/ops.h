/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Operations of micro-ops, private to the lifter and the core.
 *
 * Unless said otherwise: a = reg[dst], b = reg[src], the result goes to dst at operand size (sh), and a memory operand
 * is BRINK_WREG_MEM. "imm" as a source is BRINK_WREG_IMM.
 */
#ifndef BRINK_WALK_OPS_H_
#define BRINK_WALK_OPS_H_

enum brink_op {
	BRINK_OP_STOP = 0,	/* aux: enum brink_stop (unsupported, syscall) */

	/* Two operands, all flags; the core's inner switch. Order matters: ADD .. TEST are tested as a range. */
	BRINK_OP_ADD = 1,
	BRINK_OP_SUB = 2,
	BRINK_OP_CMP = 3,
	BRINK_OP_AND = 4,
	BRINK_OP_OR = 5,
	BRINK_OP_XOR = 6,
	BRINK_OP_TEST = 7,

	BRINK_OP_MOV = 8,	/* zero-extends from msh; also lea (src = MEM without LOAD) */
	BRINK_OP_MOVSX = 9,	/* sign-extends from msh */
	BRINK_OP_JCC = 10,	/* aux: condition */
	BRINK_OP_JMP = 11,
	BRINK_OP_JMPI = 12,	/* to b */
	BRINK_OP_CALL = 13,	/* pushes by itself */
	BRINK_OP_CALLI = 14,	/* to b; pushes by itself: the memory operand is the target's */
	BRINK_OP_RET = 15,	/* LOAD at rsp; imm: bytes dropped after the address */
	BRINK_OP_PUSH = 16,	/* STORE at rsp - size */
	BRINK_OP_POP = 17,	/* LOAD at rsp */
	BRINK_OP_NOP = 18,
	BRINK_OP_CMOV = 19,	/* aux: condition */
	BRINK_OP_SETCC = 20,
	BRINK_OP_INC = 21,
	BRINK_OP_DEC = 22,
	BRINK_OP_NEG = 23,
	BRINK_OP_NOT = 24,
	BRINK_OP_ADC = 25,
	BRINK_OP_SBB = 26,

	/* Shifts: count in b (imm or cl). */
	BRINK_OP_SHL = 32,
	BRINK_OP_SHR = 33,
	BRINK_OP_SAR = 34,
	BRINK_OP_ROL = 35,
	BRINK_OP_ROR = 36,
	BRINK_OP_RCL = 37,
	BRINK_OP_RCR = 38,
	BRINK_OP_SHLD = 39,	/* count in reg[src2], bits from reg[src] */
	BRINK_OP_SHRD = 40,
	BRINK_OP_SHLX = 41,	/* dst = reg[src] by reg[src2], no flags */
	BRINK_OP_SHRX = 42,
	BRINK_OP_SARX = 43,
	BRINK_OP_RORX = 44,

	BRINK_OP_IMUL = 48,	/* dst = reg[src2] * reg[src] */
	BRINK_OP_MUL1 = 49,	/* rdx:rax = rax * b (8 bit: ax) */
	BRINK_OP_IMUL1 = 50,
	BRINK_OP_DIV = 51,
	BRINK_OP_IDIV = 52,
	BRINK_OP_MULX = 53,	/* dst:src2 = rdx * b */

	BRINK_OP_BT = 56,	/* register or immediate bit number in b, within the operand */
	BRINK_OP_BTS = 57,
	BRINK_OP_BTR = 58,
	BRINK_OP_BTC = 59,
	BRINK_OP_BSF = 60,
	BRINK_OP_BSR = 61,
	BRINK_OP_TZCNT = 62,
	BRINK_OP_LZCNT = 63,
	BRINK_OP_POPCNT = 64,
	BRINK_OP_BSWAP = 65,
	BRINK_OP_MOVBE = 66,	/* dst = bytes of b reversed */
	BRINK_OP_ANDN = 67,	/* dst = ~reg[src2] & reg[src] */
	BRINK_OP_BEXTR = 68,	/* dst = field of reg[src] told by reg[src2] */
	BRINK_OP_BLSI = 69,
	BRINK_OP_BLSMSK = 70,
	BRINK_OP_BLSR = 71,
	BRINK_OP_BZHI = 72,	/* dst = reg[src] cut at reg[src2] */
	BRINK_OP_PDEP = 73,	/* dst = reg[src2] deposited by mask reg[src] */
	BRINK_OP_PEXT = 74,
	BRINK_OP_ADCX = 75,
	BRINK_OP_ADOX = 76,
	BRINK_OP_CRC32 = 77,	/* msh: size of b */

	BRINK_OP_XCHG = 80,
	BRINK_OP_XADD = 81,
	BRINK_OP_CMPXCHG = 82,
	BRINK_OP_CMPXCHG16B = 83,	/* aux 8 or 16; the op reads and writes memory itself */
	BRINK_OP_LEAVE = 84,	/* LOAD at rbp */
	BRINK_OP_ENTER = 85,	/* STORE of rbp at rsp - 8; imm: frame size; nesting level 0 only */
	BRINK_OP_CWD = 86,	/* dx = sign of ax, edx of eax, rdx of rax */
	BRINK_OP_CBW = 87,	/* ax = al, eax = ax, rax = eax, sign-extended */
	BRINK_OP_PUSHF = 88,
	BRINK_OP_POPF = 89,
	BRINK_OP_LAHF = 90,
	BRINK_OP_SAHF = 91,
	BRINK_OP_CLC = 92,
	BRINK_OP_STC = 93,
	BRINK_OP_CMC = 94,
	BRINK_OP_CLD = 95,
	BRINK_OP_STD = 96,
	BRINK_OP_MOVABS = 97,	/* dst = disp and imm as one 64-bit value */
	BRINK_OP_JRCXZ = 98,	/* sh: size of the count */
	BRINK_OP_LOOP = 99,	/* aux 0 loop, 1 loope, 2 loopne */
	/*
	 * Effects only, all unknown afterwards: general registers of the mask in the low half of imm, flags of its
	 * high half; aux bit 0: vector register dst; bit 1: what is stored; bit 2: mask register src2.
	 */
	BRINK_OP_CLOBBER = 100,
	BRINK_OP_WRFS = 101,	/* segment base dst = b */

	BRINK_OP_MOVS = 104,	/* aux bit 0: rep, bit 1: repe, bit 2: repne */
	BRINK_OP_STOS = 105,
	BRINK_OP_LODS = 106,
	BRINK_OP_SCAS = 107,
	BRINK_OP_CMPS = 108,

	BRINK_OP_VECTOR = 128,	/* this and above: bpf/walk/vector.h */
	BRINK_OP_MAX = 256
};

#endif /* BRINK_WALK_OPS_H_ */
