/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The filter bytecode: what --where and --if become for BPF and, unchanged, for user space.
 *
 * A program is at most BRINK_FILTER_MAX_OPS operations in postfix order. Each pushes or combines three-valued truth
 * values (false, true, unknown); the last one left is the result. A filter has two programs: one over the sample
 * (task, CPU, cgroup, external values), one over each branch record. An empty program is true.
 *
 * A test reads one field and compares it with two 64-bit operands. A field that is not known makes the test unknown;
 * only BRINK_FOP_IS_UNKNOWN turns that into true or false.
 */
#ifndef BRINK_ABI_FILTER_H_
#define BRINK_ABI_FILTER_H_

#include "brink/abi/event.h"

#define BRINK_FILTER_VERSION 1
#define BRINK_FILTER_MAX_OPS 32
/* Values that only one command knows (arguments, return values, context fields): brink_filter_in.ext. */
#define BRINK_FILTER_MAX_EXT 16
#define BRINK_FILTER_COMM_LEN 16

enum brink_filter_result {
	BRINK_FILTER_FALSE = 0,
	BRINK_FILTER_TRUE = 1,
	BRINK_FILTER_UNKNOWN = 2,
};

enum brink_filter_code {
	BRINK_FOP_CONST = 0,	/* push a (enum brink_filter_result) */
	BRINK_FOP_RANGE = 1,	/* push a <= value <= b, unsigned */
	BRINK_FOP_SRANGE = 2,	/* push a <= value <= b, signed */
	BRINK_FOP_SET = 3,	/* push bit `value` of a; values above 63 are false */
	BRINK_FOP_BITS = 4,	/* push (value & a) == b */
	BRINK_FOP_COMM = 5,	/* push: the first `length` bytes of the name are those of a and b */
	BRINK_FOP_IS_UNKNOWN = 6, /* push whether the field is not known */
	BRINK_FOP_NOT = 7,
	BRINK_FOP_AND = 8,
	BRINK_FOP_OR = 9,
	BRINK_FOP_MAX
};

enum brink_filter_field {
	/* Of the sample. */
	BRINK_FF_PID = 0,	/* tgid */
	BRINK_FF_TID = 1,
	BRINK_FF_CPU = 2,
	BRINK_FF_UID = 3,
	BRINK_FF_CGROUP = 4,	/* id; 0 is not known */
	BRINK_FF_TIME = 5,	/* ns, CLOCK_MONOTONIC */
	BRINK_FF_IP = 6,
	BRINK_FF_COMM = 7,	/* BRINK_FOP_COMM only */
	BRINK_FF_SAMPLE_MAX = 8,
	/* Of the record. */
	BRINK_FF_FROM = 16,	/* 0 is not known */
	BRINK_FF_TO = 17,	/* 0 is not known */
	BRINK_FF_KIND = 18,	/* enum brink_filter_kind; 0 is not known */
	BRINK_FF_FROM_PRIV = 19, /* 1 user, 2 kernel, 3 hv */
	BRINK_FF_TO_PRIV = 20,
	/* Yes or no: 1 no, 2 yes, 0 not known. */
	BRINK_FF_CROSSING = 21,	/* the two privileges differ */
	BRINK_FF_MISPREDICTED = 22,
	BRINK_FF_CYCLES = 23,	/* 0 is not known */
	BRINK_FF_IN_TX = 24,	/* yes or no, always known */
	BRINK_FF_ABORT = 25,	/* likewise */
	BRINK_FF_SPEC = 26,	/* 1 wrong path, 2 not speculative, 3 speculative and right; 0 is not known */
	BRINK_FF_RECORD_MAX = 27,
	/* External: BRINK_FF_EXT + slot. */
	BRINK_FF_EXT = 32,
};

/* The same order as brink::Kind. */
enum brink_filter_kind {
	BRINK_KIND_UNKNOWN = 0,
	BRINK_KIND_COND = 1,
	BRINK_KIND_JUMP = 2,
	BRINK_KIND_IND_JUMP = 3,
	BRINK_KIND_CALL = 4,
	BRINK_KIND_IND_CALL = 5,
	BRINK_KIND_RET = 6,
	BRINK_KIND_SYSCALL = 7,
	BRINK_KIND_SYSRET = 8,
	BRINK_KIND_IRQ = 9,
	BRINK_KIND_ERET = 10,
	BRINK_KIND_TX_ABORT = 11,
	BRINK_KIND_MAX = 12,
};

struct brink_filter_op {
	__u8 code;	/* enum brink_filter_code */
	__u8 field;	/* enum brink_filter_field, or BRINK_FF_EXT + slot */
	__u8 length;	/* BRINK_FOP_COMM: bytes compared, 1..16 */
	__u8 reserved8;
	__u32 reserved32;
	__u64 a;
	__u64 b;
};
BRINK_ABI_ASSERT(sizeof(struct brink_filter_op) == 24);
BRINK_ABI_FIELD(struct brink_filter_op, code, 0, 1);
BRINK_ABI_FIELD(struct brink_filter_op, field, 1, 1);
BRINK_ABI_FIELD(struct brink_filter_op, length, 2, 1);
BRINK_ABI_FIELD(struct brink_filter_op, reserved8, 3, 1);
BRINK_ABI_FIELD(struct brink_filter_op, reserved32, 4, 4);
BRINK_ABI_FIELD(struct brink_filter_op, a, 8, 8);
BRINK_ABI_FIELD(struct brink_filter_op, b, 16, 8);

/*
 * A whole filter. Made for read-only data: what is not used is removed by the verifier.
 * `kinds` is the quick test of the commonest record filter: bit per enum brink_filter_kind, 0 = no such test. It is
 * ANDed with the record program.
 */
struct brink_filter_prog {
	__u32 version;		/* BRINK_FILTER_VERSION */
	__u32 sample_ops;
	__u32 record_ops;
	__u32 kinds;
	__u32 fields;		/* bit per sample field that either program reads */
	__u32 ext;		/* bit per external slot that either program reads */
	struct brink_filter_op sample[BRINK_FILTER_MAX_OPS];
	struct brink_filter_op record[BRINK_FILTER_MAX_OPS];
};
BRINK_ABI_ASSERT(sizeof(struct brink_filter_prog) == 24 + 2 * 32 * 24);
BRINK_ABI_FIELD(struct brink_filter_prog, version, 0, 4);
BRINK_ABI_FIELD(struct brink_filter_prog, sample_ops, 4, 4);
BRINK_ABI_FIELD(struct brink_filter_prog, record_ops, 8, 4);
BRINK_ABI_FIELD(struct brink_filter_prog, kinds, 12, 4);
BRINK_ABI_FIELD(struct brink_filter_prog, fields, 16, 4);
BRINK_ABI_FIELD(struct brink_filter_prog, ext, 20, 4);
BRINK_ABI_FIELD(struct brink_filter_prog, sample, 24, 768);
BRINK_ABI_FIELD(struct brink_filter_prog, record, 792, 768);

/* What the programs read of the sample. */
struct brink_filter_in {
	__u64 value[BRINK_FF_SAMPLE_MAX];	/* by enum brink_filter_field; the COMM cell is not used */
	__u64 comm[2];				/* zero padded */
	__u64 ext[BRINK_FILTER_MAX_EXT];
	__u32 known;				/* bit per sample field */
	__u32 ext_known;			/* bit per external slot */
};
BRINK_ABI_ASSERT(sizeof(struct brink_filter_in) == 216);
BRINK_ABI_FIELD(struct brink_filter_in, value, 0, 64);
BRINK_ABI_FIELD(struct brink_filter_in, comm, 64, 16);
BRINK_ABI_FIELD(struct brink_filter_in, ext, 80, 128);
BRINK_ABI_FIELD(struct brink_filter_in, known, 208, 4);
BRINK_ABI_FIELD(struct brink_filter_in, ext_known, 212, 4);

/* What the record programs did, in records. */
struct brink_filter_counts {
	__u64 kept;
	__u64 dropped;		/* false */
	__u64 unknown;		/* dropped because the result was unknown */
};
BRINK_ABI_ASSERT(sizeof(struct brink_filter_counts) == 24);
BRINK_ABI_FIELD(struct brink_filter_counts, kept, 0, 8);
BRINK_ABI_FIELD(struct brink_filter_counts, dropped, 8, 8);
BRINK_ABI_FIELD(struct brink_filter_counts, unknown, 16, 8);

#endif /* BRINK_ABI_FILTER_H_ */
