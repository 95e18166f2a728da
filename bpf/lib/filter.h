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

static __always_inline __u32 brink_kind_of(__u64 info)
{
	__u32 type = info >> 20 & 15;

	if (info >> 3 & 1)
		return BRINK_KIND_TX_ABORT;
	return BRINK_KIND_OF_TYPE >> (4 * type) & 15;
}

static __always_inline __u32 brink_priv_of_address(__u64 address)
{
	return !address ? 0 : address >> 63 ? 2 : 1;
}

/* The record's own privilege bits (BRBE) win over the address: only they know a hypervisor. */
static __always_inline __u32 brink_to_priv(const struct brink_branch *br)
{
	__u32 priv = br->info >> 30 & 7;

	if (!br->to)
		return 0;
	return priv && priv < 4 ? priv : brink_priv_of_address(br->to);
}

/*
 * Value of a record's field. Fields with "0 is not known" give 0 then; the flags that a record always has (in_tx,
 * abort) are given as 1 (no) or 2 (yes), the others that may be unknown likewise, so that 0 is "not known" throughout
 * and one test serves all.
 */
static __always_inline __u64 brink_filter_record_field(__u32 field, const struct brink_branch *br)
{
	__u32 from, to;

	switch (field) {
	case BRINK_FF_KIND:
		return brink_kind_of(br->info);
	case BRINK_FF_FROM:
		return br->from;
	case BRINK_FF_TO:
		return br->to;
	case BRINK_FF_FROM_PRIV:
		return brink_priv_of_address(br->from);
	case BRINK_FF_TO_PRIV:
		return brink_to_priv(br);
	case BRINK_FF_CROSSING:
		from = brink_priv_of_address(br->from);
		to = brink_to_priv(br);
		if (!from || !to)
			return 0;
		return from == to ? 1 : 2;
	case BRINK_FF_MISPREDICTED:
		return br->info & 1 ? 2 : br->info >> 1 & 1;
	case BRINK_FF_CYCLES:
		return br->info >> 4 & 0xffff;
	case BRINK_FF_IN_TX:
		return 1 + (br->info >> 2 & 1);
	case BRINK_FF_ABORT:
		return 1 + (br->info >> 3 & 1);
	case BRINK_FF_SPEC:
		return br->info >> 24 & 3;
	}
	return 0;
}

/* Fetches a field; the result says whether it is known. `br` may be NULL in a sample program. */
static __always_inline int brink_filter_fetch(__u32 field, const struct brink_filter_in *in,
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
	return *value != 0;
}

static __always_inline int brink_filter_comm(const struct brink_filter_op *op, const struct brink_filter_in *in)
{
	__u64 first = ~0ULL, second = ~0ULL;

	/* Little-endian words: the name's first byte is the lowest. */
	if (op->length < 8) {
		first = (1ULL << (op->length * 8)) - 1;
		second = 0;
	} else if (op->length < 16) {
		second = (1ULL << ((op->length - 8) * 8)) - 1;
	}
	return !((in->comm[0] ^ op->a) & first) && !((in->comm[1] ^ op->b) & second);
}

/* One test: BRINK_FILTER_FALSE, TRUE or UNKNOWN. */
static __always_inline __u32 brink_filter_test(const struct brink_filter_op *op, const struct brink_filter_in *in,
					       const struct brink_branch *br)
{
	__u64 value = 0;
	int known = brink_filter_fetch(op->field, in, br, &value);

	if (op->code == BRINK_FOP_IS_UNKNOWN)
		return !known;
	if (!known)
		return BRINK_FILTER_UNKNOWN;
	switch (op->code) {
	case BRINK_FOP_RANGE:
		return value >= op->a && value <= op->b;
	case BRINK_FOP_SRANGE:
		return (__s64)value >= (__s64)op->a && (__s64)value <= (__s64)op->b;
	case BRINK_FOP_SET:
		return value < 64 ? op->a >> (value & 63) & 1 : 0;
	case BRINK_FOP_BITS:
		return (value & op->a) == op->b;
	case BRINK_FOP_COMM:
		return brink_filter_comm(op, in);
	}
	return BRINK_FILTER_UNKNOWN;
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
			__u32 r = op->code == BRINK_FOP_CONST ? (__u32)op->a : brink_filter_test(op, in, br);

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
