// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The same without vector registers, for kernels whose verifier does not get through the whole: such code ends a walk. */
#define WALK_NO_VECTORS
#include "cfi.bpf.c"
