// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The same without vector registers (cfi_scalar.bpf.c). */
#define CFI_SCALAR
#include "cfi_lsm.bpf.c"
