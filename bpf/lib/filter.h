/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The filter's core: evaluates the bytecode of brink/abi/filter.h. The same lines are compiled for BPF and for user
 * space (src/filter), so that what was pushed down and what runs on a recording cannot drift apart.
 *
 * The truth stack is two words: bit 0 is its top, `t` holds "true", `u` holds "unknown"; a cell is never both.
 * Bounds: every loop ends at BRINK_FILTER_MAX_OPS; a malformed program gives a wrong answer, never a wild access.
 */
#ifndef BRINK_BPF_LIB_FILTER_H_
#define BRINK_BPF_LIB_FILTER_H_

#include "brink/abi/filter.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* perf's branch type -> enum brink_filter_kind, four bits each, type 0 lowest. Same table as BranchEntry::kind(). */
#define BRINK_KIND_OF_TYPE 0x9099a64876543210ULL

/*
 * Everything below is arithmetic without branches: a branch would make the verifier follow each truth value of each
 * operation on its own path, 2^32 of them in a full program. The barrier keeps the compiler from finding the branch
 * again.
 */
#define BRINK_FILTER_OPAQUE(x) asm volatile("" : "+r"(x))

/* 1 where x is not 0. */
static __always_inline __u64 brink_nonzero(__u64 x)
{
	__u64 minus = -x;

	BRINK_FILTER_OPAQUE(minus);
	return (x | minus) >> 63;
}

/* 1 where x < y: the borrow of x - y. */
static __always_inline __u64 brink_below(__u64 x, __u64 y)
{
	__u64 difference = x - y;

	BRINK_FILTER_OPAQUE(difference);
	return ((~x & y) | (~(x ^ y) & difference)) >> 63;
}

static __always_inline __u32 brink_kind_of(__u64 info)
{
	__u64 abort = -(info >> 3 & 1);
	__u64 kind = BRINK_KIND_OF_TYPE >> (4 * (info >> 20 & 15)) & 15;

	return (kind & ~abort) | (BRINK_KIND_TX_ABORT & abort);
}

/* 0 not known, 1 user, 2 kernel. */
static __always_inline __u64 brink_priv_of_address(__u64 address)
{
	return brink_nonzero(address) << (address >> 63);
}

/* The record's own privilege bits (BRBE) win over the address: only they know a hypervisor. */
static __always_inline __u64 brink_to_priv(const struct brink_branch *br)
{
	__u64 stored = br->info >> 30 & 7;
	__u64 use = -(brink_nonzero(stored) & ~(stored >> 2));

	return ((stored & use) | (brink_priv_of_address(br->to) & ~use)) & -brink_nonzero(br->to);
}

static __always_inline __u64 brink_crossing(const struct brink_branch *br)
{
	__u64 from = brink_priv_of_address(br->from), to = brink_to_priv(br);

	return (1 + brink_nonzero(from ^ to)) & -(brink_nonzero(from) & brink_nonzero(to));
}

/*
 * Value of a record's field; 0 is "not known" throughout. The flags that a record always has (in_tx, abort) are 1 (no)
 * or 2 (yes), so that one test serves all.
 */
static __always_inline __u64 brink_filter_record_field(__u32 field, const struct brink_branch *br)
{
	__u64 info = br->info;

	switch (field) {
	case BRINK_FF_KIND:
		return brink_kind_of(info);
	case BRINK_FF_FROM:
		return br->from;
	case BRINK_FF_TO:
		return br->to;
	case BRINK_FF_FROM_PRIV:
		return brink_priv_of_address(br->from);
	case BRINK_FF_TO_PRIV:
		return brink_to_priv(br);
	case BRINK_FF_CROSSING:
		return brink_crossing(br);
	case BRINK_FF_MISPREDICTED:
		return (info & 1) << 1 | (info >> 1 & ~info & 1);
	case BRINK_FF_CYCLES:
		return info >> 4 & 0xffff;
	case BRINK_FF_IN_TX:
		return 1 + (info >> 2 & 1);
	case BRINK_FF_ABORT:
		return 1 + (info >> 3 & 1);
	case BRINK_FF_SPEC:
		return info >> 24 & 3;
	}
	return 0;
}

/* Fetches a field; the result (0 or 1) says whether it is known. `br` is NULL in a sample program. */
static __always_inline __u64 brink_filter_fetch(__u32 field, const struct brink_filter_in *in,
						const struct brink_branch *br, __u64 *value)
{
	if (field >= BRINK_FF_EXT) {
		__u32 slot = field & (BRINK_FILTER_MAX_EXT - 1);

		*value = in->ext[slot];
		return in->ext_known >> slot & 1;
	}
	if (field < BRINK_FF_SAMPLE_MAX) {
		*value = in->value[field & (BRINK_FF_SAMPLE_MAX - 1)];
		return in->known >> field & 1;
	}
	*value = br ? brink_filter_record_field(field, br) : 0;
	return brink_nonzero(*value);
}

static __always_inline __u64 brink_filter_comm(const struct brink_filter_op *op, const __u64 *comm)
{
	__u64 first = ~0ULL, second = ~0ULL;

	/* Little-endian words: the name's first byte is the lowest. */
	if (op->length < 8) {
		first = (1ULL << (op->length * 8)) - 1;
		second = 0;
	} else if (op->length < 16) {
		second = (1ULL << ((op->length - 8) * 8)) - 1;
	}
	return brink_nonzero(((comm[0] ^ op->a) & first) | ((comm[1] ^ op->b) & second)) ^ 1;
}

static __always_inline __u64 brink_within(__u64 value, __u64 lo, __u64 hi)
{
	return (brink_below(value, lo) | brink_below(hi, value)) ^ 1;
}

/* Whether a known value passes a test. */
static __always_inline __u64 brink_filter_holds(const struct brink_filter_op *op, __u64 value, const __u64 *comm)
{
	const __u64 sign = 1ULL << 63;

	switch (op->code) {
	case BRINK_FOP_RANGE:
		return brink_within(value, op->a, op->b);
	case BRINK_FOP_SRANGE:
		return brink_within(value ^ sign, op->a ^ sign, op->b ^ sign);
	case BRINK_FOP_SET:
		return (op->a >> (value & 63) & 1) & (brink_nonzero(value >> 6) ^ 1);
	case BRINK_FOP_BITS:
		return brink_nonzero((value & op->a) ^ op->b) ^ 1;
	case BRINK_FOP_COMM:
		return brink_filter_comm(op, comm);
	}
	return 0;
}

/* One test as two bits: 0 true, 1 unknown. */
static __always_inline __u64 brink_filter_test(const struct brink_filter_op *op, const struct brink_filter_in *in,
					       const struct brink_branch *br)
{
	__u64 value = 0;
	__u64 known = brink_filter_fetch(op->field, in, br, &value);

	if (op->code == BRINK_FOP_IS_UNKNOWN)
		return known ^ 1;
	return (brink_filter_holds(op, value, in->comm) & known) | (known ^ 1) << 1;
}

/* Runs `count` operations. `br` is NULL for a sample program. */
static __always_inline __u32 brink_filter_run(const struct brink_filter_op *ops, __u32 count,
					      const struct brink_filter_in *in, const struct brink_branch *br)
{
	__u32 t = 1, u = 0; /* the empty program is true */
	__u32 i;

	for (i = 0; i < BRINK_FILTER_MAX_OPS; i++) {
		const struct brink_filter_op *op = &ops[i];
		__u32 rest_t, rest_u, top, second;

		if (i >= count)
			break;
		if (op->code < BRINK_FOP_NOT) {
			__u32 r = op->code == BRINK_FOP_CONST ? op->a : brink_filter_test(op, in, br);

			t = t << 1 | (r & 1);
			u = u << 1 | (r >> 1 & 1);
			continue;
		}
		if (op->code == BRINK_FOP_NOT) {
			t ^= ~u & 1;
			continue;
		}
		/* Two cells become one. False wins an AND, true wins an OR, otherwise unknown wins. */
		rest_t = t >> 1;
		rest_u = u >> 1;
		if (op->code == BRINK_FOP_AND) {
			top = t & rest_t & 1;
			second = ((t | u) & (rest_t | rest_u) & 1) & ~top;
		} else {
			top = (t | rest_t) & 1;
			second = (u | rest_u) & 1 & ~top;
		}
		t = (rest_t & ~1U) | top;
		u = (rest_u & ~1U) | second;
	}
	return (t & 1) | (u & 1) << 1;
}

static __always_inline __u32 brink_filter_sample(const struct brink_filter_prog *prog,
						 const struct brink_filter_in *in)
{
	return brink_filter_run(prog->sample, prog->sample_ops, in, 0);
}

static __always_inline __u32 brink_filter_record(const struct brink_filter_prog *prog,
						 const struct brink_filter_in *in, const struct brink_branch *br)
{
	__u32 quick = BRINK_FILTER_TRUE, result;

	if (prog->kinds) {
		__u32 kind = brink_kind_of(br->info);

		quick = kind ? prog->kinds >> kind & 1 : (__u32)BRINK_FILTER_UNKNOWN;
		if (quick == BRINK_FILTER_FALSE || !prog->record_ops)
			return quick;
	}
	if (!prog->record_ops)
		return quick;
	result = brink_filter_run(prog->record, prog->record_ops, in, br);
	return result == BRINK_FILTER_TRUE ? quick : result;
}

/*
 * A program in `const volatile` read-only data, as a plain pointer. The barrier keeps the compiler from folding the
 * zeros it sees at build time into the code; the verifier still knows the loaded values.
 */
static __always_inline const struct brink_filter_prog *
brink_filter_rodata(const volatile struct brink_filter_prog *rodata)
{
	const struct brink_filter_prog *prog = (const struct brink_filter_prog *)rodata;

	asm volatile("" : "+r"(prog));
	return prog;
}

static __always_inline void brink_filter_count(struct brink_filter_counts *counts, __u32 result)
{
	counts->kept += result == BRINK_FILTER_TRUE;
	counts->dropped += result == BRINK_FILTER_FALSE;
	counts->unknown += result == BRINK_FILTER_UNKNOWN;
}

#ifdef __cplusplus
}
#endif

#endif /* BRINK_BPF_LIB_FILTER_H_ */
