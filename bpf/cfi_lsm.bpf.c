// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Refusing: the same check inside the security hooks, where the operation has not happened yet and its arguments are the
 * kernel's own. Linked to the maps of cfi.bpf.c by the loader. A kernel of its own object: where there is no BPF LSM it
 * does not load, and nothing else is lost.
 */
#ifdef CFI_SCALAR
#define WALK_NO_VECTORS
#endif
#include "cfi/check.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CFI_EPERM 1
#define CFI_PROT_EXEC 4

struct task_struct___exec {
	unsigned int in_execve : 1;
} __attribute__((preserve_access_index));

/*
 * Whatever the number of the system call: a 64-bit thread may ask by the 32-bit gate (int 0x80), and shmat() maps too.
 */
brink_always_inline int cfi_refuses(__u32 nr, __u32 how)
{
	__u32 refused;

	if (!cfi_wants((struct task_struct *)bpf_get_current_task_btf()))
		return 0;
	refused = cfi_check(BRINK_CFI_LSM, nr, how | BRINK_CFI_FIRST, 0);
	/* The compiler knows that this is 0 or 1 and would take its negative; the verifier does not, and wants -1 or 0. */
	brink_barrier_var(refused);
	return refused ? -CFI_EPERM : 0;
}

/* vma, requested protection, protection */
SEC("lsm/file_mprotect")
long cfi_lsm_mprotect(unsigned long long *ctx)
{
	return ctx[2] & CFI_PROT_EXEC ? cfi_refuses(CFI_NR_MPROTECT, 0) : 0;
}

/*
 * file, requested protection, protection, flags. While the kernel executes a program it maps the new one's files, and
 * what the registers and the branches tell is still the old one's.
 */
SEC("lsm/mmap_file")
long cfi_lsm_mmap(unsigned long long *ctx)
{
	const struct task_struct___exec *task = (const void *)bpf_get_current_task_btf();

	if (!(ctx[2] & CFI_PROT_EXEC) || BPF_CORE_READ_BITFIELD_PROBED(task, in_execve))
		return 0;
	return cfi_refuses(CFI_NR_MMAP, BRINK_CFI_POINTER);
}

/* binary. The old program's memory is still there. */
SEC("lsm/bprm_check_security")
long cfi_lsm_exec(unsigned long long *ctx)
{
	(void)ctx;
	return cfi_refuses(CFI_NR_EXECVE, BRINK_CFI_FAILS);
}
