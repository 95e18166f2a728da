/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory of a walk: a cache of 64-byte lines that holds the walk's stores as well. A dirty line is never given up. Lines
 * are found through a table, where each has two ways in its own set and two in another ("stray") when those are taken.
 */
#ifndef BRINK_WALK_MEMORY_H_
#define BRINK_WALK_MEMORY_H_

#include "walk/access.h"
#include "walk/hash.h"

#define WALK_LINE_NONE BRINK_WALK_LINES
#define WALK_SETS (BRINK_WALK_LINES / 2)
/* Bits of user addresses that can be walked. */
#ifndef WALK_VA_BITS
#define WALK_VA_BITS 47
#endif

/* Bit per byte -> 0xff per byte, eight at a time. */
WALK_INLINE __u64 walk_expand(__u64 bits)
{
	__u64 t = ((bits & 0xff) * 0x0101010101010101ull) & 0x8040201008040201ull;

	return ((t + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull) * 0xff;
}

/* Bytes of `unk` that have no unknown bit, as a bit per byte. */
WALK_INLINE __u64 walk_known_bytes(__u64 unk)
{
	__u64 t = (unk & 0x7f7f7f7f7f7f7f7full) + 0x7f7f7f7f7f7f7f7full;

	t = ~(t | unk) >> 7 & 0x0101010101010101ull;
	return t * 0x0102040810204080ull >> 56;
}

/* The compiler may know the bound of an index; the verifier must see it. */
WALK_INLINE struct brink_walk_line *walk_line_at(struct brink_walk *w, __u32 i)
{
	WALK_OPAQUE(i);
	return &w->mem[i & (BRINK_WALK_LINES - 1)];
}

/* BRINK_RANGE_* of an address. */
WALK_INLINE __u32 walk_range(const struct brink_walk *w, __u64 address)
{
	__u32 kind = BRINK_RANGE_NONE, i;

	for (i = 0; i < BRINK_WALK_RANGES; i++) {
		const struct brink_walk_range *r = &w->proc.range[i];

		if (i < w->proc.nr_ranges && address >= r->start && address < r->end)
			kind = r->kind;
	}
	return kind;
}

/* Way i of the table has the line of `tag`; what is no user address fits nothing. */
WALK_INLINE int walk_is_at(const struct brink_walk *w, __u32 i, __u64 tag)
{
	return !((w->where[i & (BRINK_WALK_LINES - 1)] ^ tag) << (64 - BRINK_WALK_TAG_BITS) | tag >> BRINK_WALK_TAG_BITS);
}

WALK_INLINE __u32 walk_line_of_way(const struct brink_walk *w, __u32 i)
{
	return w->where[i & (BRINK_WALK_LINES - 1)] >> BRINK_WALK_TAG_BITS;
}

/* A way of set i that is empty (`clean` 0), or whose line may be given up (1). BRINK_WALK_LINES: none. */
WALK_INLINE __u32 walk_free_way(struct brink_walk *w, __u32 i, __u32 clean)
{
	__u32 k;

	for (k = 0; k < 2; k++, i++) {
		if (clean ? !walk_line_at(w, walk_line_of_way(w, i))->dirty
			  : (w->where[i & (BRINK_WALK_LINES - 1)] & BRINK_WALK_TAG_GEN) != w->gen)
			return i;
	}
	return BRINK_WALK_LINES;
}

/* The way for a line that is to come. BRINK_WALK_LINES: all that could be given up are dirty. */
WALK_INLINE __u32 walk_choose(struct brink_walk *w, __u64 address)
{
	__u32 own = brink_walk_set(address, WALK_SETS), other, i = BRINK_WALK_LINES;

	if (walk_likely(w->nr_lines < BRINK_WALK_LINES))
		i = walk_free_way(w, own, 0);
	if (walk_likely(i < BRINK_WALK_LINES))
		return i;
	w->strays = 1;
	other = brink_walk_other_set(address, WALK_SETS);
	if (w->nr_lines < BRINK_WALK_LINES)
		i = walk_free_way(w, other, 0);
	else if (walk_free_way(w, own, 0) < BRINK_WALK_LINES || walk_free_way(w, other, 0) < BRINK_WALK_LINES)
		return BRINK_WALK_LINES;	/* empty ways, but no line for them */
	if (i < BRINK_WALK_LINES)
		return i;
	i = walk_free_way(w, own, 1);
	return i < BRINK_WALK_LINES ? i : walk_free_way(w, other, 1);
}

/* The line of a tag outside its own set, or BRINK_WALK_LINES. */
WALK_INLINE __u32 walk_stray(const struct brink_walk *w, __u64 tag)
{
	__u32 i;

	if (walk_likely(!w->strays))
		return BRINK_WALK_LINES;
	i = brink_walk_other_set(tag, WALK_SETS);
	if (walk_is_at(w, i, tag))
		return walk_line_of_way(w, i);
	return walk_is_at(w, i + 1, tag) ? walk_line_of_way(w, i + 1) : BRINK_WALK_LINES;
}

/* The line of a tag if it is in, or BRINK_WALK_LINES. */
WALK_INLINE __u32 walk_present(const struct brink_walk *w, __u64 tag)
{
	__u32 i = brink_walk_set(tag, WALK_SETS);

	if (walk_is_at(w, i, tag))
		return walk_line_of_way(w, i);
	return walk_is_at(w, i + 1, tag) ? walk_line_of_way(w, i + 1) : walk_stray(w, tag);
}

/*
 * Brings the line of `address` in. Returns its index, or -1 with the reason in w->stop.
 */
WALK_GLOBAL int walk_fill(struct brink_walk *w, __u64 address)
{
	__u64 start = address & ~63ull, tag;
	struct brink_walk_line *l;
	__u32 way, i, kind;

	if (!w)
		return -1;
	tag = start | (w->gen & BRINK_WALK_TAG_GEN);
	i = walk_present(w, tag);
	if (i < BRINK_WALK_LINES)
		return i;
	w->fault_address = address;
	kind = walk_range(w, address);
	if (kind == BRINK_RANGE_DEVICE) {
		w->stop = BRINK_STOP_DEVICE_MEMORY;
		return -1;
	}
	way = walk_choose(w, address);
	if (way >= BRINK_WALK_LINES) {
		w->stop = BRINK_STOP_STORE_FULL;
		return -1;
	}
	i = (w->where[way & (BRINK_WALK_LINES - 1)] & BRINK_WALK_TAG_GEN) == w->gen ? walk_line_of_way(w, way) : w->nr_lines;
	l = walk_line_at(w, i);
	/* A line that is given up for one that cannot be read is given up all the same. */
	w->where[way & (BRINK_WALK_LINES - 1)] = 0;
	if (address >> WALK_VA_BITS || WALK_READ(w, l->data, BRINK_WALK_LINE_SIZE, start)) {
		w->stop = BRINK_STOP_FAULT;
		return -1;
	}
	l->known = kind == BRINK_RANGE_UNKNOWN ? 0 : ~0ull;
	l->dirty = 0;
	l->tag = tag;
	w->where[way & (BRINK_WALK_LINES - 1)] = tag | (__u64)i << BRINK_WALK_TAG_BITS;
	if (i == w->nr_lines)
		w->nr_lines++;
	w->fills++;
	return i & (BRINK_WALK_LINES - 1);
}

/* Index of the line of `address`, filled when needed; -1 with the reason in w->stop. */
WALK_INLINE int walk_line(struct brink_walk *w, __u64 address)
{
	__u32 i = brink_walk_set(address, WALK_SETS);
	__u64 tag = (address & ~63ull) | w->gen;

	if (walk_likely(walk_is_at(w, i, tag)))
		return walk_line_of_way(w, i);
	if (walk_is_at(w, i + 1, tag))
		return walk_line_of_way(w, i + 1);
	return walk_fill(w, address);
}

/* Up to 8 bytes (msh) at `offset` of line i, all within the line. */
WALK_INLINE void walk_line_load(struct brink_walk *w, __u32 i, __u32 offset, __u32 msh, struct brink_walk_reg *r)
{
	struct brink_walk_line *l = walk_line_at(w, i);
	__u64 m = walk_mask(msh), need = 0xff >> (msh >> 3 & 7), known = l->known >> (offset & 63);

	r->val = WALK_AT(64, l->data + (offset & 63)) & m;
	r->unk = 0;
	if (walk_unlikely((known & need) != need)) {
		r->unk = ~walk_expand(known) & m;
		r->val &= ~r->unk;
	}
}

/*
 * The walk stores for the first time into this line and its page may hold code that was validated: if the line does, it
 * must be looked at again, and then ends the walk (walk_live_line), because live memory does not have the store yet.
 */
WALK_GLOBAL int walk_code_written(struct brink_walk *w, __u64 tag)
{
	__u32 i;

	if (!w)
		return 1;
	for (i = 0; i < BRINK_WALK_VALID; i++) {
		if (w->valid[i].address == tag)
			w->valid[i].address = 0;
	}
	w->block = 0;	/* the line executed now is entered anew */
	return 0;
}

/* Before the first store into a line. 0, or 1: the store faults. */
WALK_INLINE int walk_first_store(struct brink_walk *w, const struct brink_walk_line *l)
{
	if (walk_may(w, l->tag & ~(__u64)BRINK_WALK_TAG_GEN, BRINK_ACCESS_WRITE))
		return 1;
	if (w->code_pages >> (l->tag >> 12 & 63) & 1)
		walk_code_written(w, l->tag);
	return 0;
}

/* 0, or 1 with the reason in w->stop; nothing is stored then. */
WALK_INLINE int walk_line_store(struct brink_walk *w, __u32 i, __u32 offset, __u32 msh, __u64 val, __u64 unk)
{
	struct brink_walk_line *l = walk_line_at(w, i);
	__u64 bytes = (__u64)(0xff >> (msh >> 3 & 7)) << (offset & 63);
	__u8 *p = l->data + (offset & 63);

	if (walk_unlikely(!l->dirty) && walk_first_store(w, l))
		return 1;
	l->dirty |= bytes;
	if (walk_likely(!unk))
		l->known |= bytes;
	else
		l->known = (l->known & ~bytes) | (walk_known_bytes(unk) << (offset & 63) & bytes);
	if (msh == 0)
		WALK_AT(64, p) = val;
	else if (msh == 32)
		WALK_AT(32, p) = val;
	else if (msh == 56)
		*p = val;
	else
		WALK_AT(16, p) = val;
	return 0;
}

/* Any access of up to 8 bytes that may cross a line. 0, or 1 with the reason in w->stop; nothing is changed then. */
WALK_GLOBAL int walk_load(struct brink_walk *w, __u64 address, __u32 msh, __u32 regnum)
{
	__u32 offset = address & 63, n = 8 - (msh >> 3 & 7), first = 64 - offset, j;
	struct brink_walk_reg lo, hi;
	int i;

	if (!w)
		return 1;
	i = walk_line(w, address);
	if (i < 0)
		return 1;
	if (offset + n <= 64) {
		walk_line_load(w, i, offset, msh, &w->reg[regnum & 31]);
		return 0;
	}
	j = i;
	i = walk_line(w, address + first);
	if (i < 0)
		return 1;
	/* first < 8 bytes come from the first line; its eight-byte read runs into the pad, which is cut off. */
	walk_line_load(w, j, offset, 64 - 8 * (first & 7), &lo);
	walk_line_load(w, i, 0, (64 - 8 * (n - first)) & 63, &hi);
	w->reg[regnum & 31].val = lo.val | hi.val << (8 * first & 63);
	w->reg[regnum & 31].unk = lo.unk | hi.unk << (8 * first & 63);
	return 0;
}

/* Makes an access of n <= 64 bytes possible: both lines are in. */
WALK_INLINE int walk_touch(struct brink_walk *w, __u64 address, __u32 n)
{
	if (walk_line(w, address) < 0)
		return 1;
	return (address & 63) + n > 64 && walk_line(w, address + n - 1) < 0;
}

/* The line was stored to before, or walk_first_store has been asked. */
WALK_INLINE void walk_store_bytes(struct brink_walk *w, __u32 i, __u32 offset, __u32 n, __u64 val, __u64 known)
{
	struct brink_walk_line *l = walk_line_at(w, i);
	__u32 k;

	for (k = 0; k < 8; k++) {
		__u32 at = offset + k;

		if (k >= n || at > 63)
			break;
		l->data[at] = val >> (8 * k);
		l->dirty |= 1ull << at;
		l->known = (l->known & ~(1ull << at)) | (known >> k & 1) << at;
	}
}

WALK_GLOBAL int walk_store(struct brink_walk *w, __u64 address, __u32 msh, __u32 regnum)
{
	__u32 offset = address & 63, n = 8 - (msh >> 3 & 7), first = 64 - offset;
	__u64 val, unk, known;
	int i, j;

	if (!w)
		return 1;
	val = w->reg[regnum & 31].val & walk_mask(msh);
	unk = w->reg[regnum & 31].unk & walk_mask(msh);
	i = walk_line(w, address);
	if (i < 0)
		return 1;
	if (offset + n <= 64) {
		return walk_line_store(w, i, offset, msh, val, unk);
	}
	j = walk_line(w, address + first);
	if (j < 0)
		return 1;
	if ((!walk_line_at(w, i)->dirty && walk_first_store(w, walk_line_at(w, i))) ||
	    (!walk_line_at(w, j)->dirty && walk_first_store(w, walk_line_at(w, j))))
		return 1;
	known = walk_known_bytes(unk);
	walk_store_bytes(w, i, offset, first, val, known);
	walk_store_bytes(w, j, 0, n - first, val >> (8 * first & 63), known >> first);
	return 0;
}

#endif /* BRINK_WALK_MEMORY_H_ */
