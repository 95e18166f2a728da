/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where the next micro-op comes from: translation of addresses by the content of their code line, and validation of
 * every line that is entered.
 */
#ifndef BRINK_WALK_CODE_H_
#define BRINK_WALK_CODE_H_

#include "walk/env.h"
#include "walk/hash.h"
#include "walk/memory.h"

WALK_INLINE int walk_miss(struct brink_walk *w, __u32 reason, __u32 slot, __u64 address)
{
	w->miss_reason = reason;
	w->miss_slot = slot;
	w->miss_address = address;
	return walk_stop(w, reason == BRINK_MISS_CHANGED ? BRINK_STOP_CODE_CHANGED : BRINK_STOP_MISS);
}

/*
 * Reads one line of code as it is now into w->scratch. A line that the walk itself has written to is no code to go by:
 * live memory does not have the store yet. Device memory is not read, whoever jumps there.
 */
WALK_INLINE int walk_live_line(struct brink_walk *w, __u64 start)
{
	__u32 i = walk_present(w, start | w->gen);

	if (walk_unlikely(i < BRINK_WALK_LINES) && walk_line_at(w, i)->dirty)
		return walk_stop(w, BRINK_STOP_CODE_CHANGED);
	if (walk_unlikely(w->proc.nr_ranges && walk_range(w, start))) {
		w->fault_address = start;
		return walk_stop(w, BRINK_STOP_DEVICE_MEMORY);
	}
	if (walk_may(w, start, BRINK_ACCESS_EXEC))
		return 1;
	if (WALK_READ(w, w->scratch, BRINK_WALK_CODE_LINE, start)) {
		w->fault_address = start;
		return walk_stop(w, BRINK_STOP_FAULT);
	}
	return 0;
}

WALK_INLINE const struct brink_walk_block *walk_block(const struct brink_walk *w, __u32 at)
{
	return (const struct brink_walk_block *)walk_uop(w, at);
}

/* The other half of a block's head. */
WALK_INLINE const struct brink_walk_block_ways *walk_ways(const struct brink_walk *w, __u32 at)
{
	return (const struct brink_walk_block_ways *)walk_uop(w, at + 1);
}

/* w->scratch against the bytes of the line whose first block is `at`. */
WALK_INLINE int walk_same_line(const struct brink_walk *w, __u32 at)
{
	const __u64 *b = (const __u64 *)w->scratch, *a;
	__u64 differs = 0;
	__u32 i;

	for (i = 0; i < 4; i++) {
		a = (const __u64 *)walk_uop(w, at + BRINK_WALK_MORE_HEAD + i);
		if (!a)
			return 0;
		differs |= (a[0] ^ b[2 * i]) | (a[1] ^ b[2 * i + 1]);
		/* Compared here and not all at the end: 6.1 allows the functions of a walk 512 bytes of stack together. */
		WALK_OPAQUE(differs);
	}
	return !differs;
}

WALK_INLINE struct brink_walk_valid *walk_valid_of(struct brink_walk *w, __u64 start)
{
	return &w->valid[(start >> 6 ^ start >> 12) & (BRINK_WALK_VALID - 1)];
}

/* `first`: the line's first block; `line`: the number in the heads of its blocks. */
WALK_INLINE void walk_mark_valid(struct brink_walk *w, __u32 first, __u32 line, __u64 start)
{
	struct brink_walk_valid *v = walk_valid_of(w, start);
	struct brink_walk_page *p;

	v->block = first;
	v->first = first;
	v->address = start | w->gen;
	w->validated++;
	/* Once a page and walk: the mark lies far from the code. */
	if (!(w->code_pages >> (start >> 12 & 63) & 1)) {
		w->code_pages |= 1ull << (start >> 12 & 63);
		p = (struct brink_walk_page *)walk_page(w, line / BRINK_WALK_PAGE_LINES);
		if (p && !p->used)
			p->used = 1;
	}
}

WALK_INLINE __u32 walk_bits(__u64 x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	return ((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull >> 56;
}

/* Link of the instruction at an offset of the line whose first block is `at`. 0: not lifted. */
WALK_INLINE __u32 walk_entry(const struct brink_walk *w, __u32 at, __u32 offset)
{
	__u64 below = (1ull << (offset & 63)) - 1;
	__u32 head = BRINK_WALK_FIRST_HEAD, i;
	const struct brink_walk_block_ways *y;
	const struct brink_walk_block *b;

	for (i = 0; i < BRINK_WALK_BLOCKS && at; i++) {
		b = walk_block(w, at);
		y = walk_ways(w, at);
		if (!b || !y)
			break;
		if (b->lifted >> (offset & 63) & 1)
			return at << BRINK_LINK_SHIFT | (head + walk_bits(b->lifted & below) + walk_bits(b->more & below));
		at = y->more;
		head = BRINK_WALK_MORE_HEAD;
	}
	return 0;
}

/* The code of reg[IP] by what its line's bytes are now (in w->scratch). Sets w->pc. 0, or 1 with the miss in w. */
WALK_GLOBAL int walk_by_content(struct brink_walk *w)
{
	const struct brink_walk_page *p;
	struct brink_walk_tlb *t;
	__u32 index, slot, at, pc;
	__u64 ip, start;

	if (!w)
		return 1;
	ip = w->reg[BRINK_WREG_IP].val;
	start = ip & ~(__u64)(BRINK_WALK_CODE_LINE - 1);
	index = ip >> 6 & (BRINK_WALK_PAGE_LINES - 1);
	slot = walk_xlat_slot(brink_walk_line_hash((const __u64 *)w->scratch, index), ip);
	p = slot ? walk_page(w, slot) : 0;
	at = p ? p->line[index] : 0;
	if (!at)
		return walk_miss(w, BRINK_MISS_PAGE, 0, ip);
	if (!walk_same_line(w, at))
		return walk_miss(w, BRINK_MISS_CHANGED, slot, ip);
	pc = walk_entry(w, at, ip);
	if (!pc)
		return walk_miss(w, BRINK_MISS_ENTRY, slot, ip);
	t = &w->tlb[ip >> 12 & (BRINK_WALK_XLAT_CACHE - 1)];
	t->vpage = ip >> 12;
	t->slot = slot;
	t->gen = w->gen;
	walk_mark_valid(w, at, slot * BRINK_WALK_PAGE_LINES + index, start);
	w->pc = pc;
	return 0;
}

/* Finds the micro-op of reg[IP]. 0, or 1 with the miss described in w. */
WALK_GLOBAL int walk_translate(struct brink_walk *w)
{
	const struct brink_walk_page *p;
	struct brink_walk_tlb *t;
	__u32 pc;
	__u64 ip;

	if (!w)
		return 1;
	ip = w->reg[BRINK_WREG_IP].val;
	t = &w->tlb[ip >> 12 & (BRINK_WALK_XLAT_CACHE - 1)];
	if (t->gen == w->gen && t->vpage == ip >> 12) {
		/* A guess: the page was found by another line. What is entered is validated all the same. */
		p = walk_page(w, t->slot);
		pc = p ? walk_entry(w, p->line[ip >> 6 & (BRINK_WALK_PAGE_LINES - 1)], ip) : 0;
		if (pc) {
			w->pc = pc;
			w->block = 0;	/* the same code may be mapped twice */
			return 0;
		}
	}
	if (walk_live_line(w, ip & ~(__u64)(BRINK_WALK_CODE_LINE - 1)))
		return 1;
	return walk_by_content(w);
}

/*
 * Compares one line of live code with the lifted one, of which `at` is a block, once a walk. 0: the same; 1: the walk ends;
 * 2: differs.
 */
WALK_GLOBAL int walk_check_line(struct brink_walk *w, __u32 at, __u64 start)
{
	const struct brink_walk_block_ways *y;
	struct brink_walk_valid *v;

	if (!w)
		return 1;
	v = walk_valid_of(w, start);
	if (v->address == (start | w->gen)) {
		if (v->block == at)
			return 0;
		y = at ? walk_ways(w, at) : 0;
		if (y && v->first == y->first) {
			v->block = at;
			return 0;
		}
	}
	if (walk_live_line(w, start))
		return 1;
	/* Looked up again, not kept: see walk_same_line about stack. */
	y = at ? walk_ways(w, at) : 0;
	if (!y || (y->line & (BRINK_WALK_PAGE_LINES - 1)) != (start >> 6 & (BRINK_WALK_PAGE_LINES - 1)) ||
	    !walk_same_line(w, y->first))
		return 2;
	walk_mark_valid(w, y->first, y->line, start);
	return 0;
}

/* The last instruction of a page runs into the next one: its n bytes there are compared with the page's tail. */
WALK_INLINE int walk_check_tail(struct brink_walk *w, const struct brink_walk_page *p, __u64 start, __u32 n)
{
	const __u64 *a = (const __u64 *)p->tail, *b = (const __u64 *)w->scratch;
	__u64 m0, m1;

	if (walk_live_line(w, start))
		return 1;
	m0 = n >= 8 ? ~0ull : (1ull << (8 * n & 63)) - 1;
	m1 = n > 8 ? (1ull << (8 * (n - 8) & 63)) - 1 : 0;
	if (((a[0] ^ b[0]) & m0) | ((a[1] ^ b[1]) & m1))
		return 2;
	w->code_pages |= 1ull << (start >> 12 & 63);
	w->validated++;
	return 0;
}

/* The instruction of reg[IP] runs on into the line at `start`, n bytes of it. As walk_check_line; `at` is its block. */
WALK_GLOBAL int walk_check_next(struct brink_walk *w, __u32 at, __u64 start, __u32 n)
{
	const struct brink_walk_block_ways *y;
	const struct brink_walk_page *p;
	__u32 next;

	if (!w)
		return 1;
	y = walk_ways(w, at);
	p = y ? walk_page(w, y->line / BRINK_WALK_PAGE_LINES) : 0;
	if (!p)
		return 2;
	next = (y->line + 1) & (BRINK_WALK_PAGE_LINES - 1);
	if (!next)
		return walk_check_tail(w, p, start, n & 15);
	return walk_check_line(w, p->line[next], start);
}

/*
 * The micro-op lies in another block than the one before it, or its instruction in two lines: makes sure that the code is
 * what was lifted. 0 to execute it; 1: the walk ends; 2: it was another page's, w->pc has the right one now.
 */
WALK_GLOBAL int walk_enter_line(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 ip, start;
	__u32 block;
	int differs;

	if (!w || !u)
		return 1;
	ip = w->reg[BRINK_WREG_IP].val;
	start = ip & ~(__u64)(BRINK_WALK_CODE_LINE - 1);
	block = walk_link_block(w->pc);
	differs = walk_check_line(w, block, start);
	if (differs == 1)
		return 1;
	if (differs)
		return walk_by_content(w) ? 1 : 2;
	if (u->len & BRINK_UOP_CROSSES) {
		differs = walk_check_next(w, block, start + 64, (ip & 63) + walk_len(u) - 64);
		if (differs == 1)
			return 1;
		if (differs)
			return walk_miss(w, BRINK_MISS_CHANGED, 0, ip);
	}
	w->block = block;
	return 0;
}

#endif /* BRINK_WALK_CODE_H_ */
