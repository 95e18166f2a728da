/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where the core runs: in the kernel (clang -target bpf) or in user space (host build, tests, fuzzing).
 *
 * WALK_GLOBAL functions are verified by the kernel once and by themselves, with any state as input; that keeps the
 * verifier's work linear. They take pointers to whole structs and return int. Everything else is inlined.
 */
#ifndef BRINK_WALK_ENV_H_
#define BRINK_WALK_ENV_H_

#include "brink/abi/walk_state.h"
#include "walk/ops.h"

#define WALK_INLINE static inline __attribute__((always_inline))
#define walk_likely(x) __builtin_expect(!!(x), 1)
#define walk_unlikely(x) __builtin_expect(!!(x), 0)

/* A field of `bits` at any alignment. BPF has no rule about it; in C a plain dereference would have one. */
#ifdef __bpf__
#define WALK_AT(bits, p) (*(__u##bits *)(p))
#else
#define WALK_AT(bits, p) (((struct walk_at##bits *)(p))->v)
struct walk_at64 { __u64 v; } __attribute__((packed, may_alias));
struct walk_at32 { __u32 v; } __attribute__((packed, may_alias));
struct walk_at16 { __u16 v; } __attribute__((packed, may_alias));
#endif

#ifdef __bpf__

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "walk/maps.h"

#define WALK_GLOBAL __attribute__((noinline))
/* A pointer argument of a global function may be null as far as the verifier knows. */
#define WALK_ARG(p) do { if (!(p)) return 1; } while (0)
/* Hides a value's history from the compiler, so that a bound stays where the verifier sees it. */
#define WALK_OPAQUE(x) asm volatile("" : "+r"(x))
/* 0 on success. Tracing programs get -EFAULT for absent pages; nothing sleeps. */
#ifndef WALK_READ
#define WALK_READ(w, dst, size, address) bpf_probe_read_user(dst, size, (const void *)(address))
#endif
#define WALK_CLOCK() bpf_ktime_get_ns()

WALK_INLINE const struct brink_uop *walk_uop(const struct brink_walk *w, __u32 index)
{
	return (const struct brink_uop *)bpf_map_lookup_elem(&walk_uops, &index);
}

WALK_INLINE const struct brink_walk_page *walk_page(const struct brink_walk *w, __u32 slot)
{
	return (const struct brink_walk_page *)bpf_map_lookup_elem(&walk_pages, &slot);
}

/* Slot of a page that has the line with this hash, 0 = none. The host build finds pages by address. */
WALK_INLINE __u32 walk_xlat_slot(__u64 hash, __u64 address)
{
	__u32 index = (__u32)hash & walk_xlat_mask, i;
	const struct brink_walk_xlat *x = (const struct brink_walk_xlat *)bpf_map_lookup_elem(&walk_xlat, &index);
	__u64 entry;

	for (i = 0; x && i < BRINK_XLAT_WAYS; i++) {
		entry = ((const volatile struct brink_walk_xlat *)x)->entry[i];
		if (!((entry ^ hash) >> 32))
			return (__u32)entry;
	}
	return 0;
}

#else

#include "walk/host_env.h"

#endif

#define WALK_CF 0x001
#define WALK_PF 0x004
#define WALK_AF 0x010
#define WALK_ZF 0x040
#define WALK_SF 0x080
#define WALK_DF 0x400
#define WALK_OF 0x800
#define WALK_ARITH (WALK_CF | WALK_PF | WALK_AF | WALK_ZF | WALK_SF | WALK_OF)
#define WALK_DF_UNKNOWN 0x80000000u	/* in brink_walk.flags */
#define WALK_SH_AF_UNKNOWN 0x80u	/* in brink_walk.flag_sh: logic operations leave AF undefined */

/* x86-64 register numbers that instructions use by themselves. */
enum { WALK_RAX = 0, WALK_RCX = 1, WALK_RDX = 2, WALK_RBX = 3, WALK_RSP = 4, WALK_RBP = 5, WALK_RSI = 6, WALK_RDI = 7 };

WALK_INLINE __u64 walk_mask(__u32 sh)
{
	return ~0ull >> (sh & 63);
}

/* The unit that a link leads to, and the block that it lies in. */
WALK_INLINE __u32 walk_link_unit(__u32 link)
{
	return (link >> BRINK_LINK_SHIFT) + (link & BRINK_LINK_PLACE);
}

WALK_INLINE __u32 walk_link_block(__u32 link)
{
	return link >> BRINK_LINK_SHIFT;
}

WALK_INLINE __u32 walk_len(const struct brink_uop *u)
{
	return u->len & BRINK_UOP_LEN;
}

/* The immediate of the instruction being executed. */
WALK_INLINE __s32 walk_imm(const struct brink_walk *w)
{
	return (__s32)w->reg[BRINK_WREG_IMM].val;
}

/* What lies in the unit behind the micro-op at w->pc. */
WALK_INLINE __s32 walk_other(const struct brink_walk *w, const struct brink_uop *u)
{
	const struct brink_uop_more *m;

	if (walk_likely(!(u->len & BRINK_UOP_MORE)))
		return 0;
	m = (const struct brink_uop_more *)walk_uop(w, walk_link_unit(w->pc) + 1);
	return m ? m->other : 0;
}

/* Displacement and immediate as one value, of an instruction without a memory operand. */
WALK_INLINE __u64 walk_wide(const struct brink_walk *w, const struct brink_uop *u)
{
	return (__u32)walk_other(w, u) | (__u64)(__u32)u->value << 32;
}

/* Link of the instruction behind the micro-op at w->pc. */
WALK_INLINE __u32 walk_next(const struct brink_walk *w, const struct brink_uop *u)
{
	const struct brink_uop_more *m;
	__u32 pc = w->pc;

	if (walk_likely(!(u->len & (BRINK_UOP_MORE | BRINK_UOP_LAST))))
		return pc + 1;
	/* The end's place in a head is that of `next`. */
	pc = u->len & BRINK_UOP_MORE ? walk_link_unit(pc) : walk_link_block(pc);
	m = (const struct brink_uop_more *)walk_uop(w, pc + 1);
	return m ? m->next : 0;
}

WALK_INLINE int walk_stop(struct brink_walk *w, __u32 why)
{
	w->stop = why;
	return 1;
}

#endif /* BRINK_WALK_ENV_H_ */
