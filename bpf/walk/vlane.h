/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vector registers of a walk. */
#ifndef BRINK_WALK_VLANE_H_
#define BRINK_WALK_VLANE_H_

#include "walk/lanes.h"
#include "walk/misc.h"
#include "walk/vops.h"

WALK_INLINE __u64 *walk_vector_at(struct brink_walk *w, __u32 i)
{
	/* 32 is vtmp, which follows the array. */
	return (__u64 *)((char *)w + __builtin_offsetof(struct brink_walk, vreg) + (i & 63) * sizeof(w->vreg[0]));
}

WALK_INLINE __u64 walk_vector_known(const struct brink_walk *w, __u32 i)
{
	return i == BRINK_V_MEM ? w->vtmp_known : w->vknown[i & 31];
}

BRINK_ABI_ASSERT(__builtin_offsetof(struct brink_walk, vtmp) == __builtin_offsetof(struct brink_walk, vreg) + 32 * 64);

#endif /* BRINK_WALK_VLANE_H_ */
