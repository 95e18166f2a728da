/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Where the next micro-op comes from: translation of addresses and validation of code lines. */
#ifndef BRINK_WALK_CODE_H_
#define BRINK_WALK_CODE_H_

#include "walk/env.h"

WALK_INLINE int walk_miss(struct brink_walk *w, __u32 reason, __u32 slot, __u64 address)
{
	w->miss_reason = reason;
	w->miss_slot = slot;
	w->miss_address = address;
	return walk_stop(w, reason == BRINK_MISS_CHANGED ? BRINK_STOP_CODE_CHANGED : BRINK_STOP_MISS);
}

/* Finds the micro-op of reg[IP]. 0, or 1 with the miss described in w. */
WALK_GLOBAL int walk_translate(struct brink_walk *w)
{
	const struct brink_walk_page *p;
	struct brink_walk_tlb *t;
	__u64 ip, vpage;
	__u32 e, slot;

	if (!w)
		return 1;
	ip = w->reg[BRINK_REG_IP].val;
	vpage = ip >> 12;
	t = &w->tlb[vpage & (BRINK_WALK_XLAT_CACHE - 1)];
	if (t->gen == w->gen && t->vpage == vpage) {
		slot = t->slot;
	} else {
		slot = walk_xlat_slot(w, vpage);
		if (!slot)
			return walk_miss(w, BRINK_MISS_PAGE, 0, ip);
		t->vpage = vpage;
		t->slot = slot;
		t->gen = w->gen;
	}
	p = walk_page(w, slot);
	if (!p)
		return walk_miss(w, BRINK_MISS_PAGE, 0, ip);
	e = p->entry[ip & (BRINK_WALK_PAGE_SIZE - 1)];
	if (!e)
		return walk_miss(w, BRINK_MISS_ENTRY, slot, ip);
	w->pc = p->chunk[e / BRINK_WALK_CHUNK & (BRINK_WALK_PAGE_CHUNKS - 1)] + e % BRINK_WALK_CHUNK;
	return 0;
}

/* Compares one line of live code with the lifted one, once a walk. */
WALK_INLINE int walk_check_line(struct brink_walk *w, __u32 line, __u64 address)
{
	struct brink_walk_valid *v = &w->valid[line & (BRINK_WALK_VALID - 1)];
	const struct brink_walk_page *p;
	const __u64 *a, *b = (const __u64 *)w->scratch;
	__u32 slot = line >> 6, off = (line & 63) * BRINK_WALK_CODE_LINE;

	if (v->line == line && v->address == (address | w->gen))
		return 0;
	p = walk_page(w, slot);
	if (!p || off != (address & (BRINK_WALK_PAGE_SIZE - 1)))
		return walk_miss(w, BRINK_MISS_CHANGED, slot, w->reg[BRINK_REG_IP].val);
	if (WALK_READ(w, w->scratch, BRINK_WALK_CODE_LINE, address)) {
		w->fault_address = address;
		return walk_stop(w, BRINK_STOP_FAULT);
	}
	a = (const __u64 *)(p->code + off);
	if (((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]) | (a[5] ^ b[5]) | (a[6] ^ b[6]) | (a[7] ^ b[7])))
		return walk_miss(w, BRINK_MISS_CHANGED, slot, w->reg[BRINK_REG_IP].val);
	v->line = line;
	v->address = address | w->gen;
	w->validated++;
	return 0;
}

/* The last instruction of a page runs into the next one: its bytes there are compared with the page's tail. */
WALK_INLINE int walk_check_tail(struct brink_walk *w, __u32 line, __u64 address, __u32 n)
{
	const struct brink_walk_page *p = walk_page(w, line >> 6);
	const __u64 *a, *b = (const __u64 *)w->scratch;
	__u64 m0, m1;

	if (!p)
		return walk_miss(w, BRINK_MISS_CHANGED, line >> 6, w->reg[BRINK_REG_IP].val);
	if (WALK_READ(w, w->scratch, 16, address)) {
		w->fault_address = address;
		return walk_stop(w, BRINK_STOP_FAULT);
	}
	a = (const __u64 *)p->tail;
	m0 = n >= 8 ? ~0ull : (1ull << (8 * n & 63)) - 1;
	m1 = n > 8 ? (1ull << (8 * (n - 8) & 63)) - 1 : 0;
	if (((a[0] ^ b[0]) & m0) | ((a[1] ^ b[1]) & m1))
		return walk_miss(w, BRINK_MISS_CHANGED, line >> 6, w->reg[BRINK_REG_IP].val);
	w->validated++;
	return 0;
}

/* The micro-op lies in another line than the one before it: makes sure that the code is what was lifted. */
WALK_GLOBAL int walk_enter_line(struct brink_walk *w, const struct brink_uop *u)
{
	__u64 ip, start;
	__u32 line;

	if (!w || !u)
		return 1;
	ip = w->reg[BRINK_REG_IP].val;
	start = ip & ~(__u64)(BRINK_WALK_CODE_LINE - 1);
	line = u->line & ~BRINK_UOP_LINE_CROSSES;
	if (walk_check_line(w, line, start))
		return 1;
	if (u->line & BRINK_UOP_LINE_CROSSES) {
		if ((line & 63) == 63) {
			if (walk_check_tail(w, line, start + 64, ((ip & 63) + u->len - 64) & 15))
				return 1;
		} else if (walk_check_line(w, line + 1, start + 64)) {
			return 1;
		}
	}
	w->line = u->line;
	return 0;
}

#endif /* BRINK_WALK_CODE_H_ */
