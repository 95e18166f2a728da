/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vector operations of micro-ops, private to lifter and core.
 *
 * dst, src2 (first source, "a") and src (last source, "b") are vector registers 0..31, src 32 the memory operand
 * (flags: MEM alone; msh bytes are loaded, the rest of the vector is zero). sh is the vector length in bytes.
 */
#ifndef BRINK_WALK_VOPS_H_
#define BRINK_WALK_VOPS_H_

#define BRINK_V_MEM 32		/* src: the memory operand */

/* brink_uop.imm of vector operations; bits 0..7 are the instruction's own immediate. */
#define BRINK_V_MASK(imm) ((imm) >> 8 & 7)	/* write mask k1..k7, 0 = none */
#define BRINK_V_ZEROING 0x0800
#define BRINK_V_BROADCAST 0x1000
#define BRINK_V_LEGACY 0x2000			/* bytes above the vector length stay */
#define BRINK_V_ESIZE(imm) ((imm) >> 14 & 3)	/* log2 of the element's bytes */
#define BRINK_V_ALIGNED 0x10000			/* a memory operand must be aligned to its size */

enum brink_vop {
	BRINK_VOP_MOVE = 128,	/* dst = b */
	BRINK_VOP_STORE = 129,	/* memory = msh bytes of register src, from byte aux on */
	BRINK_VOP_LANE = 130,	/* dst = a op b by element; aux: enum brink_vlane */
	BRINK_VOP_COMPARE = 131,	/* mask dst = a op b; aux: predicate 0..7, 8 test, 9 testn; bit 4: signed */
	BRINK_VOP_MOVMSK = 132,	/* general dst = top bits of b's elements */
	BRINK_VOP_TO_GPR = 133,	/* general dst = msh bytes of register src from byte aux on */
	BRINK_VOP_FROM_GPR = 134,	/* dst = general src (msh bytes), zero above */
	BRINK_VOP_BROADCAST = 135,	/* dst = element 0 of b in every element; aux 1: of general register src */
	BRINK_VOP_SHUFFLE = 136,	/* bytes of a, b or zero; aux: enum brink_vshuffle */
	BRINK_VOP_TERNARY = 137,	/* dst = table imm8 of dst, a, b */
	BRINK_VOP_TEST = 138,	/* ptest: flags of a, b */
	BRINK_VOP_CONST = 139,	/* dst = aux in every byte */
	BRINK_VOP_ZERO_UPPER = 140,	/* aux 1: zeroall */
	BRINK_VOP_SHIFT = 141,	/* dst = b shifted by imm8; aux 0 left, 1 right, 2 arithmetic */
	BRINK_VOP_KLOGIC = 142,	/* mask dst = src2 op src, sh as in integer operations; aux: enum brink_klogic */
	BRINK_VOP_KTEST = 143,	/* flags; aux 0 kortest, 1 ktest */
	BRINK_VOP_UNKNOWN_STORE = 144,	/* msh bytes of memory become unknown */
	BRINK_VOP_TO_MASK = 145,	/* mask dst = top bits of b's elements */
	BRINK_VOP_FROM_MASK = 146,	/* elements of dst = all ones where mask src */
	BRINK_VOP_STRING = 147,	/* pcmpistri and its kin; aux: BRINK_STR_*; the result goes to rcx or to dst */
	BRINK_VOP_MAX
};

#define BRINK_STR_EXPLICIT 1	/* lengths in rax and rdx, not by an end mark */
#define BRINK_STR_MASK 2	/* the result is a mask in a vector register, not an index */
#define BRINK_STR_WIDE 4	/* the lengths are 64 bits wide */

enum brink_vlane {
	BRINK_VL_AND, BRINK_VL_ANDN, BRINK_VL_OR, BRINK_VL_XOR,
	BRINK_VL_ADD, BRINK_VL_SUB, BRINK_VL_EQ, BRINK_VL_GT,
	BRINK_VL_MINU, BRINK_VL_MAXU, BRINK_VL_MINS, BRINK_VL_MAXS,
};

enum brink_vshuffle {
	BRINK_VS_DWORDS,	/* pshufd */
	BRINK_VS_LOW_WORDS, BRINK_VS_HIGH_WORDS,
	BRINK_VS_UNPACK_LOW, BRINK_VS_UNPACK_HIGH,	/* by element size */
	BRINK_VS_ALIGN,		/* palignr */
	BRINK_VS_LEFT, BRINK_VS_RIGHT,	/* pslldq, psrldq */
	BRINK_VS_BYTES,		/* pshufb */
	BRINK_VS_SINGLES, BRINK_VS_DOUBLES,	/* shufps, shufpd */
	BRINK_VS_LOW,		/* element 0 of b, the rest of a: movss, movsd, movlps from memory */
	BRINK_VS_HIGH,		/* low half of b to bytes 8..15, the rest of a: movhps, movlhps */
	BRINK_VS_HIGH_TO_LOW,	/* movhlps */
	BRINK_VS_DUP_DOUBLE,	/* movddup */
	BRINK_VS_QWORDS,	/* vpermq by immediate */
	BRINK_VS_INSERT,	/* 16 bytes of b at imm8, the rest of a */
	BRINK_VS_EXTRACT,	/* 16 bytes of b from imm8 */
	BRINK_VS_PUT,		/* pinsr: element imm8 of a from element 0 of b */
	BRINK_VS_INSERT32, BRINK_VS_EXTRACT32,	/* the same by halves of 32 bytes */
};

enum brink_klogic {
	BRINK_KL_AND, BRINK_KL_ANDN, BRINK_KL_OR, BRINK_KL_XOR, BRINK_KL_XNOR, BRINK_KL_NOT, BRINK_KL_MOVE,
	BRINK_KL_SHIFT_LEFT, BRINK_KL_SHIFT_RIGHT, BRINK_KL_UNPACK, BRINK_KL_ADD,
};

#endif /* BRINK_WALK_VOPS_H_ */
