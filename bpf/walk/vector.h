/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vector instructions. */
#ifndef BRINK_WALK_VECTOR_H_
#define BRINK_WALK_VECTOR_H_

#include "walk/misc.h"

WALK_GLOBAL int walk_vector(struct brink_walk *w, const struct brink_uop *u)
{
	if (!w || !u)
		return 1;
	return walk_stop(w, BRINK_STOP_UNSUPPORTED);
}

#endif /* BRINK_WALK_VECTOR_H_ */
