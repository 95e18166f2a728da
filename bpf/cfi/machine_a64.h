/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A64 for checks; machine.h says what each piece is. Words are those of struct user_pt_regs: x0 to x30, sp, pc, pstate.
 *
 * The records' addresses carry no signature (pointer authentication): the walk takes it off before it follows a return.
 */
#ifndef BRINK_BPF_CFI_MACHINE_A64_H_
#define BRINK_BPF_CFI_MACHINE_A64_H_

#include "cfi/call_site_a64.h"

#define CFI_REG_ARG2 2
#define CFI_REG_SP 31
#define CFI_REG_IP 32
#define CFI_REG_PSTATE 33
#define CFI_PSTATE_32 0x10
#define CFI_NR_MMAP 222
#define CFI_NR_MPROTECT 226
#define CFI_NR_EXECVE 221
#define CFI_RET_LEFT 0	/* it is in x30 */

/* mov x8, #139; svc #0: __kernel_rt_sigreturn of the vDSO */
#define CFI_RESTORER 0xd4000001d2801168ull

/* What the kernel keeps behind the user's registers: x0 before the result took its place, and the number, -1 outside of calls. */
struct pt_regs___call {
	__u64 orig_x0;
	__s32 syscallno;
} __attribute__((preserve_access_index));

brink_always_inline int cfi_is_compat(const __u64 *regs)
{
	return !!(regs[CFI_REG_PSTATE] & CFI_PSTATE_32);
}

brink_always_inline __s32 cfi_number(const void *regs)
{
	const struct pt_regs___call *r = regs;
	__s32 nr = 0;

	return bpf_core_read(&nr, sizeof(nr), &r->syscallno) ? -1 : nr;
}

brink_always_inline void cfi_take_args(struct brink_cfi *cfi)
{
	const struct pt_regs___call *regs = (const void *)bpf_task_pt_regs((struct task_struct *)bpf_get_current_task_btf());
	__u32 i;

	for (i = 0; i < 6; i++)
		cfi->args[i] = cfi->regs[i];
	if (cfi->point == BRINK_CFI_EXIT)
		cfi->args[0] = BPF_CORE_READ(regs, orig_x0);
}

static __attribute__((noinline, unused)) __u64 cfi_call_of(__u64 regs)
{
	return (__u32)cfi_number((const void *)regs);
}

brink_always_inline int cfi_in_call(const void *regs)
{
	return cfi_number(regs) >= 0;
}

/* A 64-bit thread has one gate. */
brink_always_inline int cfi_by_syscall(struct task_struct *task)
{
	__u64 pstate = 0;

	if (bpf_probe_read_kernel(&pstate, sizeof(pstate), (const char *)bpf_task_pt_regs(task) + 8 * CFI_REG_PSTATE))
		return -1;
	return !(pstate & CFI_PSTATE_32);
}

brink_always_inline int cfi_follows(__u64 to, __u64 call)
{
	return to == call + 4;
}

static __attribute__((noinline)) int cfi_kind_at(__u64 from)
{
	__u32 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (const void *)from))
		return 0;
	return cfi_a64_calls(word) ? WALK_CALL : cfi_a64_calls_register(word) ? WALK_IND_CALL : cfi_a64_returns(word) ? WALK_RET : 0;
}

brink_always_inline int cfi_call_before(__u64 to)
{
	__u32 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (const void *)(to - 4)))
		return -1;
	return cfi_a64_calls(word) || cfi_a64_calls_register(word);
}

static __attribute__((noinline)) int cfi_restores(__u64 to)
{
	__u64 code = 0;

	return !bpf_probe_read_user(&code, sizeof(code), (const void *)to) && code == CFI_RESTORER;
}

/* No compiler makes returns out of calls here. */
brink_always_inline int cfi_captures(__u64 call)
{
	(void)call;
	return 0;
}

#endif /* BRINK_BPF_CFI_MACHINE_A64_H_ */
