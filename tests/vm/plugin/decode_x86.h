/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Kind and direct target of one x86-64 instruction; not a disassembler, the emulator gives the length. */
#ifndef BRINK_TESTS_VM_DECODE_X86_H_
#define BRINK_TESTS_VM_DECODE_X86_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bar.h"

struct lbr_insn {
	enum lbr_kind kind;
	int direct;		/* target is valid */
	int conditional;
	uint64_t target;
};

static inline uint64_t lbr_relative(const uint8_t *bytes, size_t size, size_t width, uint64_t next)
{
	int32_t wide = 0;

	if (size < width)
		return 0;
	if (width == 1)
		return next + (int64_t)(int8_t)bytes[size - 1];
	memcpy(&wide, bytes + size - 4, 4);
	return next + (int64_t)wide;
}

static inline struct lbr_insn lbr_direct(enum lbr_kind kind, const uint8_t *bytes, size_t size, size_t width, uint64_t next)
{
	struct lbr_insn insn = {kind, 1, kind == LBR_KIND_COND, lbr_relative(bytes, size, width, next)};

	return insn;
}

/* `next` is the address behind the instruction. */
static inline struct lbr_insn lbr_decode(const uint8_t *bytes, size_t size, uint64_t next)
{
	struct lbr_insn insn = {LBR_KIND_NONE, 0, 0, 0};
	size_t at = 0;
	uint8_t op;

	while (at < size && (strchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65\xf0", bytes[at]) && bytes[at]))
		at++;
	if (at < size && (bytes[at] & 0xf0) == 0x40)
		at++;
	if (at >= size)
		return insn;
	op = bytes[at];
	if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3))
		return lbr_direct(LBR_KIND_COND, bytes, size, 1, next);
	switch (op) {
	case 0xeb: return lbr_direct(LBR_KIND_JUMP, bytes, size, 1, next);
	case 0xe9: return lbr_direct(LBR_KIND_JUMP, bytes, size, 4, next);
	case 0xe8: return lbr_direct(LBR_KIND_CALL, bytes, size, 4, next);
	case 0xc2: case 0xc3: case 0xca: case 0xcb:
		insn.kind = LBR_KIND_RET;
		return insn;
	case 0xcf:
		insn.kind = LBR_KIND_ERET;
		return insn;
	case 0xcc: case 0xcd: case 0xf1:
		insn.kind = LBR_KIND_IRQ;
		return insn;
	case 0xff:
		if (at + 1 >= size)
			return insn;
		switch ((bytes[at + 1] >> 3) & 7) {
		case 2: case 3: insn.kind = LBR_KIND_IND_CALL; break;
		case 4: case 5: insn.kind = LBR_KIND_IND_JUMP; break;
		}
		return insn;
	case 0x0f:
		if (at + 1 >= size)
			return insn;
		op = bytes[at + 1];
		if ((op & 0xf0) == 0x80)
			return lbr_direct(LBR_KIND_COND, bytes, size, 4, next);
		if (op == 0x05 || op == 0x34)
			insn.kind = LBR_KIND_SYSCALL;
		if (op == 0x07 || op == 0x35)
			insn.kind = LBR_KIND_SYSRET;
		return insn;
	}
	return insn;
}

#endif
