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
#define CFI_NR_MMAP 9
#define CFI_NR_MPROTECT 10
#define CFI_NR_EXECVE 59
#define CFI_PROT_EXEC 4

#define CFI_NR_PKEY_MPROTECT 329
#define CFI_NR_EXECVEAT 322

/*
 * Only where the thread itself has asked for it. While the kernel executes a program it maps the new one's files, and
 * what the registers and the branches tell is still the old one's.
 */
brink_always_inline int cfi_refuses(__u32 nr, __u32 other, __u32 how)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 call = 0;

	if (!cfi_wants(task))
		return 0;
	if (bpf_probe_read_kernel(&call, sizeof(call), (const char *)bpf_task_pt_regs(task) + 8 * CFI_REG_ORIG_AX) || (call != nr && call != other))
		return 0;
	return cfi_check(BRINK_CFI_LSM, nr, how | BRINK_CFI_FIRST, 0) ? -CFI_EPERM : 0;
}

/* vma, requested protection, protection */
SEC("lsm/file_mprotect")
int cfi_lsm_mprotect(unsigned long long *ctx)
{
	return ctx[2] & CFI_PROT_EXEC ? cfi_refuses(CFI_NR_MPROTECT, CFI_NR_PKEY_MPROTECT, 0) : 0;
}

/* file, requested protection, protection, flags */
SEC("lsm/mmap_file")
int cfi_lsm_mmap(unsigned long long *ctx)
{
	return ctx[2] & CFI_PROT_EXEC ? cfi_refuses(CFI_NR_MMAP, CFI_NR_MMAP, BRINK_CFI_POINTER) : 0;
}

/* binary. The old program's memory is still there. */
SEC("lsm/bprm_check_security")
int cfi_lsm_exec(unsigned long long *ctx)
{
	(void)ctx;
	return cfi_refuses(CFI_NR_EXECVE, CFI_NR_EXECVEAT, BRINK_CFI_FAILS);
}
